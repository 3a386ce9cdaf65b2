// Expressions keep their meaning when they are printed and read again.
//
// RUN: delta-opt %s | FileCheck %s
// RUN: delta-opt %s | delta-opt | FileCheck %s
// RUN: delta-opt %s --mlir-print-op-generic | delta-opt | FileCheck %s

// CHECK-LABEL: delta.block @operators
delta.block @operators {
  // CHECK: delta.symbol a = n + 2 - g
  delta.symbol a = n + 2 - g
  // CHECK: delta.symbol b = n * 2 / g mod 3
  delta.symbol b = n * 2 / g mod 3
  // CHECK: delta.symbol c = -n + -g
  delta.symbol c = -n + -g
  // CHECK: delta.symbol d = n == 1 or n ne 2 and n < 3
  delta.symbol d = n == 1 or n ne 2 and n < 3
  // CHECK: delta.symbol e = n le 4 and n > 5 or n ge 6
  delta.symbol e = n le 4 and n > 5 or n ge 6
  // CHECK: delta.symbol f = not n == 1 and not tied
  delta.symbol f = not n == 1 and not tied
  // CHECK: delta.symbol h = pattern[layer + 1] == "M"
  delta.symbol h = pattern[layer + 1] == "M"
  // CHECK: delta.symbol i = true
  delta.symbol i = true
  // CHECK: delta.symbol j = false or "text" == "\"quoted\" \\ text\0A"
  delta.symbol j = false or "text" == "\"quoted\" \\ text\n"
}

// CHECK-LABEL: delta.block @precedence
delta.block @precedence {
  // Parentheses stay where they change the meaning.
  // CHECK: delta.symbol a = (n + 2 * g) * d
  delta.symbol a = (n + 2 * g) * d
  // CHECK: delta.symbol b = n - (g - d)
  delta.symbol b = n - (g - d)
  // CHECK: delta.symbol c = n / (g * d)
  delta.symbol c = n / (g * d)
  // CHECK: delta.symbol e = n * (g / d) mod (2 * d)
  delta.symbol e = n * (g / d) mod (2 * d)
  // CHECK: delta.symbol f = (a or b) and not (c or d)
  delta.symbol f = (a or b) and not (c or d)
  // CHECK: delta.symbol h = -(a + b) * -c
  delta.symbol h = -(a + b) * -c
  // CHECK: delta.symbol i = (a == b) == c
  delta.symbol i = (a == b) == c
  // CHECK: delta.symbol j = a == (b < c)
  delta.symbol j = a == (b < c)
  // CHECK: delta.symbol k = (not a) == b
  delta.symbol k = (not a) == b
  // And go where they do not.
  // CHECK: delta.symbol l = n + g * d - 1
  delta.symbol l = ((n) + (g * d)) - (1)
}

// CHECK-LABEL: delta.block @config
delta.block @config {
  // CHECK: delta.symbol a = config "a"
  delta.symbol a = config "a"
  // CHECK: delta.symbol b = config "a" | "b" | "c"
  delta.symbol b = config "a" | "b" | "c"
  // CHECK: delta.symbol c = config "a" | "b" else n / g + 1
  delta.symbol c = config "a" | "b" else n / g + 1
  // CHECK: delta.symbol d = config "a" else config "b" else 1
  delta.symbol d = config "a" else config "b" else 1
  // An open `else` takes all that follows it.
  // CHECK: delta.symbol e = (config "a" else 0) == 0
  delta.symbol e = (config "a" else 0) == 0
  // CHECK: delta.symbol f = config "a" else 0 == 0
  delta.symbol f = config "a" else 0 == 0
}

// CHECK-LABEL: delta.block @functions
delta.block @functions {
  // CHECK: delta.symbol a = len(pattern)
  delta.symbol a = len(pattern)
  // CHECK: delta.symbol b = min(n, g + 1)
  delta.symbol b = min(n, g + 1)
  // CHECK: delta.symbol c = max(n, config "g" else 1)
  delta.symbol c = max(n, config "g" else 1)
  // CHECK: delta.symbol d = round_up(V, 128 * tp)
  delta.symbol d = round_up(V, 128 * tp)
  // CHECK: delta.symbol e = select(n > 1 and tied, n, -1)
  delta.symbol e = select(n > 1 and tied, n, -1)
  // A function's name is a symbol elsewhere.
  // CHECK: delta.symbol f = len + 1
  delta.symbol f = len + 1
}

// Inside an attribute '<' and '>' are brackets.
// CHECK-LABEL: delta.block @attribute
// CHECK: e = #delta.expr<(n + 2 * g) * d>
// CHECK-SAME: f = #delta.expr<n gt 2>
// CHECK-SAME: g = #delta.expr<select(n lt 2, 1, 0) + (config "a" else b[n lt 1])>
// CHECK-SAME: h = #delta.expr<"<" == name>
delta.block @attribute {} {e = #delta.expr<(n + 2 * g) * d>,
    f = #delta.expr<n gt 2>,
    g = #delta.expr<select(n lt 2, 1, 0) + (config "a" else b[n lt 1])>,
    h = #delta.expr<"<" == name>}
// CHECK-LABEL: delta.block @other_names
delta.block @other_names {
  // CHECK: delta.symbol a = n < 2 and n > 1
  delta.symbol a = n lt 2 and n gt 1
}

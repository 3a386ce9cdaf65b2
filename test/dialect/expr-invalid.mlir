// RUN: delta-opt %s -split-input-file -verify-diagnostics

delta.block @operand_missing {
  // expected-error @+2 {{custom op 'delta.symbol' expected an expression: a number, a text, a symbol, 'config', 'listed' or '('}}
  delta.symbol a = n +
}

// -----

delta.block @comparison_of_a_comparison {
  // expected-error @below {{custom op 'delta.symbol' comparisons do not chain; parentheses say which comes first}}
  delta.symbol a = b == c == d
}

// -----

delta.block @parenthesis_open {
  // expected-error @below {{expected ')'}}
  delta.symbol a = (n + 2 3
}

// -----

delta.block @too_few_operands {
  // expected-error @below {{custom op 'delta.symbol' 'min' takes 2 operands, got 1}}
  delta.symbol a = min(n)
}

// -----

delta.block @too_many_operands {
  // expected-error @below {{custom op 'delta.symbol' 'len' takes 1 operands, got 2}}
  delta.symbol a = len(n, g)
}

// -----

delta.block @config_without_key {
  // expected-error @below {{expected string}}
  delta.symbol a = config hidden_size
}

// -----

delta.block @index_open {
  // expected-error @below {{expected ']'}}
  delta.symbol a = pattern[layer == "M"
}

// -----

delta.block @integer_too_large {
  // expected-error @below {{integer value too large}}
  delta.symbol a = 99999999999999999999
}

// -----

delta.block @single_equal_sign {
  // expected-error @below {{expected '='}}
  delta.require n = 1, "one"
}

// -----

// expected-error @below {{expected '>'}}
delta.block @greater_ends_the_attribute {} {e = #delta.expr<n g>}

//===- DeltaDialect.td - The delta dialect -----------------*- tablegen -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DELTA_DIALECT
#define DELTA_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"

def Delta_Dialect : Dialect {
  let name = "delta";
  let cppNamespace = "::delta";
  let summary = "Where the elements of a model's parameters go";
  let description = [{
    A *family* says how the parameters of one architecture, as a trainer holds
    them, make up the tensors of its published checkpoint. Its ops run from the
    trainer to the checkpoint; each is a total function on indices. Sizes,
    conditions and names are expressions over the model's config and the
    parallel geometry. Binding a family to a config and a geometry leaves
    *sides*: straight-line ops whose sizes are numbers and whose names keep
    only the holes `{layer}` and `{expert}`. Folding turns those ops into maps.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

//===----------------------------------------------------------------------===//
// Type
//===----------------------------------------------------------------------===//

def Delta_Array : TypeDef<Delta_Dialect, "Array"> {
  let mnemonic = "array";
  let summary = "All elements of one parameter instance on their way";
  let description = [{
    A row-major array. Its shape follows from the ops that make it and is
    checked once the sizes are numbers, so that families need not repeat it.
  }];
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

class Delta_Attr<string name, string attrMnemonic>
    : AttrDef<Delta_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Delta_ExprAttr : Delta_Attr<"Expr", "expr"> {
  let cppClassName = "ExprAttr";
  let summary = "An expression over named symbols";
  let description = [{
    Operators, loosest first: `or`; `and`; `not`; `==` `ne` `<` `le` `>` `ge`;
    `+` `-`; `*` `/` `mod`; `list[i]`. Comparisons do not chain. `lt` and `gt`
    are other names of `<` and `>`, the only ones inside of brackets. `/` must divide exactly. `config "a" |
    "b" else x` is the first of the config's keys that is present and not null,
    else `x`. Functions: `len`, `min`, `max`, `round_up(n, multiple)`,
    `select(condition, then, else)`.

    Example: `#delta.expr<(n + 2 * g) * d>`
  }];
  let parameters = (ins AttrParameter<"::delta::Expr", "the expression",
                                      "const ::delta::Expr &">:$value);
  let hasCustomAssemblyFormat = 1;
}

def Delta_MapAttr : Delta_Attr<"Map", "map"> {
  let cppClassName = "MapAttr";
  let summary = "An index map for every way of a split";
  let description = [{
    `#delta.map<ways W, source -> destination, pieces>`: the flat sizes of both
    arrays, then strided boxes. A piece `{ways a to b: s + p way -> d + q way, e
    x (x, y), ...}` holds for the ways from `a` to `b`, counted from `a`: for
    all `i < e`, element `s + way*p + i*x` goes to `d + way*q + i*y`. Ways and
    steps that are trivial are left out.

    Example: rows of two ranks, `[4, 8]` each, of an `[8, 8]` array:
    `#delta.map<ways 2, 32 -> 64, {ways 0 to 1: 0 -> 0 + 32 way, 32 x (1, 1)}>`
  }];
  let parameters = (ins AttrParameter<"::delta::ShardedMap", "the maps",
                                      "const ::delta::ShardedMap &">:$value);
  let hasCustomAssemblyFormat = 1;
}

#endif // DELTA_DIALECT

//===- Program.h - The reference program ------------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The bound ops of a model as records: sizes are folded and nothing else. It
/// is taken before any folding pass, printed by `--emit=reference` as JSON and
/// read back by the tools that check a plan. Knows nothing of MLIR, of index
/// maps or of plans: it is the second witness.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_PROGRAM_H
#define DELTA_TOOLS_REFERENCE_PROGRAM_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace delta::reference {

/// Where a parameter lives: on the stages of some layers, or on one stage.
enum class Stage { Layers, First, Last };

/// Parallel sizes of one side. `dp` and `edp` are filled in.
struct Geometry {
  int64_t tp = 1, cp = 1, dp = 1, ep = 1, etp = 1, edp = 1, pp = 1, vpp = 1;
  /// Decoder layers of each chunk, [stage][chunk]. Layers are numbered with
  /// the chunk outermost: (chunk 0, stage 0), (chunk 0, stage 1), ...
  std::vector<std::vector<int64_t>> stageLayers;
  /// Layers beside the decoder's, stack by stack, and the stage of each stack:
  /// First is chunk 0 of stage 0, Last the last chunk of the last stage. They
  /// are numbered on after the decoder's; local numbers restart in each stack.
  std::vector<int64_t> stackLayers;
  std::vector<Stage> stackStages;
  /// An engine's experts: ep rank p has the slots [slotBegins[p],
  /// slotBegins[p + 1]), and slots[t][s] is the expert in slot s. One table t
  /// for all layers, or one for each. Empty: experts are dealt out evenly, in
  /// their order.
  std::vector<int64_t> slotBegins;
  std::vector<std::vector<int64_t>> slots;
};

/// A trainer parameter. Its value is the *unsharded* tensor once `unshard` ops
/// have put the shards together; a parameter that no `unshard` reads is whole
/// on every rank.
struct Param {
  std::vector<std::string> names; ///< local, with {layer} and {expert}
  std::string dtype;              ///< bf16, fp16, fp32, i64
  std::vector<int64_t> shape;     ///< of all shards together
  Stage stage = Stage::Layers;
  std::vector<int64_t> layers; ///< global numbers, for Stage::Layers
  bool expert = false;         ///< one for each expert
  /// Repeats the values of another parameter (index), e.g. a tied head.
  std::optional<int64_t> copyOf;
  int64_t value = -1; ///< value number of the parameter; -1 for a copy

  // Of an engine:
  /// The experts of a rank are slots of one parameter of this name: `shape` is
  /// that of one slot, the leading dimension left out.
  bool stack = false;
  int64_t extra = 0; ///< slots behind those of the rank's experts
  /// The parameter lies in extra slot number `slot` of the stacked parameter
  /// `slotOf` (index), in every layer; it has no name of its own.
  std::optional<int64_t> slotOf;
  int64_t slot = 0;
  /// "neg_exp": the engine keeps -exp(x) where the tensor has x, computed in
  /// fp32 and rounded to dtype; "add_one": x + 1 in the tensor's dtype; "": x.
  std::string form;
  /// The engine shows dimension view[i] of `shape` (that of a stack: counting
  /// the slots as dimension 0), which is memory's order, as its dimension i.
  /// Empty: as it is.
  std::vector<int64_t> view;
};

/// One op. Values are numbered; every value is one tensor per (layer, expert)
/// instance of the parameters it comes from.
struct Op {
  /// "unshard":    in[0] -> out[0]. dim, axis ("tp" | "etp" | "stage"), ways,
  ///               sections. Shard w of `ways` holds its part of each section,
  ///               one section after the other; the result has whole sections.
  ///               "stage" counts all ranks of a pipeline stage in their order.
  ///               sectionWays, where given: section i has that many distinct
  ///               parts, and shard w holds part w / (ways / sectionWays[i]).
  /// "reshape":    in[0] -> out[0]. shape.
  /// "transpose":  in[0] -> out[0]. permutation: result dim i is operand dim
  ///               permutation[i].
  /// "split":      in[0] -> out[...]. dim, sizes.
  /// "concat":     in[...] -> out[0]. dim.
  /// "interleave": in[...] -> out[0]. dim: index k of operand j becomes
  ///               k * (number of operands) + j.
  /// "take":       in[0] -> out[0]. dim, first `size` indices; the rest is
  ///               dropped, with `reason`.
  /// "add_scalar": in[0] -> out[0]. `scalar`, in the operand's type.
  /// "cast":       in[0] -> out[0]. `dtype`: rounded to nearest even; one end
  ///               is fp32.
  std::string kind;
  std::vector<int64_t> in, out;
  int64_t dim = 0;
  std::string axis;
  int64_t ways = 1;
  std::vector<int64_t> sections, sectionWays, shape, permutation, sizes;
  int64_t size = 0;
  double scalar = 0;
  std::string dtype;
  std::string reason;
};

/// A tensor of the neutral layout. `{layer}` (also `{layer+N}`) and `{expert}`
/// in its name are global numbers. `stack`: the experts' values are the rows
/// of a new leading dimension, included in `shape`.
struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t value = -1;
  bool stack = false;
  /// The engine keeps the tensor a second time; the first has the same name.
  bool also = false;
};

/// All of one side. Two sides of a model have the same tensors, but for those
/// that an engine does not hold.
struct Side {
  /// "vllm", ...; empty: a trainer. An engine's parameters have the global
  /// numbers of layers in their names, what no tensor fills stays as it is, and
  /// several of its shards may hold one element of a tensor.
  std::string engine;
  /// Beginnings of the names, with holes, of tensors that an engine does not
  /// hold.
  std::vector<std::string> unheld;
  Geometry geometry;
  int64_t numLayers = 0; ///< of the decoder and of all stacks
  int64_t numExperts = 0;
  std::vector<Param> params;
  std::vector<Op> ops; ///< in order of use
  std::vector<Tensor> tensors;
};

struct Program {
  std::string model;
  uint64_t fingerprint[2] = {0, 0}; ///< of the plan it belongs to
  Side source;
  /// Absent when the destination is the neutral layout.
  std::optional<Side> destination;
  int64_t replicas = 1;
};

/// Prints the program as JSON: keys are the field names above, one record a
/// line, stages "layers" | "first" | "last", absent optionals left out, the
/// fingerprint as 32 hex digits. Same program, same bytes.
std::string print(const Program &program);

/// Reads what print wrote. On failure returns nothing and sets `error` to one
/// line that says which record is wrong and what was required.
std::optional<Program> parse(const std::string &text, std::string &error);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_PROGRAM_H

//===- Interpreter.h - Execute the reference program ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// One side of a reference program, executed as data movement: which rank
/// holds which shard under which name, and what the ops make of the values.
/// It is the second witness of a plan: computed from the program alone, it
/// shares nothing with the passes that fold the geometry.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_INTERPRETER_H
#define DELTA_TOOLS_REFERENCE_INTERPRETER_H

#include "tools/reference/Moves.h"
#include "tools/reference/Program.h"

#include <map>

namespace delta::reference {

/// "No layer" and "no expert" of an instance.
constexpr int64_t kNone = -1;

/// The instances of a value: a tensor for each layer, times each expert.
struct Domain {
  std::vector<int64_t> layers; ///< global numbers, or kNone alone
  bool expert = false;

  bool operator==(const Domain &other) const {
    return layers == other.layers && expert == other.expert;
  }
};

/// Where a decoder layer lives.
struct LayerPlace {
  int64_t stage = 0;
  int64_t chunk = 0;
  /// Number in names. It restarts in every chunk; an engine counts through its
  /// decoder. In a stack of layers it is the number there.
  int64_t local = 0;
};

/// A rank's coordinates, as dense parameters and as experts see them, and its
/// number among the ranks of its stage.
struct Coordinates {
  int64_t tp, cp, dp, pp;
  int64_t etp, ep, edp;
  int64_t inStage;
};

/// A shard where it lies in a parameter's memory.
struct Piece {
  int64_t param = 0;
  int64_t expert = kNone; ///< global
  int64_t way = 0;        ///< which shard
  int64_t offset = 0;     ///< in elements
};

/// One parameter of one rank. Its memory is one shard, or one in each slot;
/// slots that no piece lies in belong to nobody.
struct LocalParam {
  int64_t param = 0;
  int64_t layer = kNone;  ///< global
  int64_t expert = kNone; ///< global; none where slots hold them
  int64_t chunk = 0;
  std::vector<std::string> names;
  Shape shape; ///< of memory, slots first
  std::vector<Piece> pieces;
};

/// Parameters, ops and tensors that depend on each other; they are executed
/// together, one instance of the domain at a time. Copies are left out: their
/// values are those of the parameter that they repeat.
struct Group {
  std::vector<int64_t> params;
  std::vector<int64_t> ops;
  std::vector<int64_t> tensors;
  Domain domain;
  std::string dtype;
};

/// What is known of a value before anything runs.
struct ValueFacts {
  Shape shape;
  std::string dtype;
  std::string heldDtype; ///< before a cast
  Domain domain;
  std::vector<double> scalars; ///< added on the way, in order
  bool isCast = false;         ///< after them, from the parameter's dtype
  std::string form;            ///< in which an engine holds it
  int64_t param = kNone;       ///< the parameter that it is, shards apart
  int64_t uses = 0;
};

class Interpreter {
public:
  /// Checks that the records of the side fit each other. On failure returns
  /// nothing and sets `error` to one line that names the record.
  static std::optional<Interpreter> create(Side side, std::string &error);

  const Side &side() const { return checked; }
  const std::vector<Group> &groups() const { return allGroups; }

  int64_t numRanks() const;
  Coordinates coordinates(int64_t rank) const;
  /// Place of every layer, by global number.
  const std::vector<LayerPlace> &layerPlaces() const { return places; }
  /// What a rank holds, in the order of the program, layers and experts.
  std::vector<LocalParam> paramsOf(int64_t rank) const;

  const Split &splitOf(int64_t param) const { return splits[size_t(param)]; }
  /// Shape of a shard, of one slot where a parameter has slots.
  Shape localShape(int64_t param) const;
  /// The shard of a parameter that a rank has.
  int64_t wayOf(int64_t param, const Coordinates &at) const;
  /// First and last but one slot of an ep rank. A trainer's slots are its
  /// experts.
  std::pair<int64_t, int64_t> slotsOf(int64_t ep) const;
  int64_t expertIn(int64_t layer, int64_t slot) const;
  /// The parameter that lies in an extra slot of a stacked one, or kNone.
  int64_t partIn(int64_t param, int64_t slot) const;
  /// The parameter whose values it has: itself unless it is a copy.
  int64_t original(int64_t param) const;
  /// Instances of a parameter.
  Domain domainOf(int64_t param) const;
  /// The usual name with global layer and expert numbers.
  std::string globalName(int64_t param, int64_t layer, int64_t expert) const;

  const ValueFacts &factsOf(const Tensor &tensor) const {
    return values.at(tensor.value);
  }
  /// Type of the parameters that a tensor is made of.
  const std::string &dtypeBefore(const Tensor &tensor) const {
    return factsOf(tensor).heldDtype;
  }
  std::string tensorName(int64_t tensor, int64_t layer, int64_t expert) const;

  /// The experts of the model, or kNone alone.
  std::vector<int64_t> expertsOf(const Domain &domain) const;

  /// Executes the ops of a group for one instance. `whole` holds the unsharded
  /// value of each of its parameters; the result is one array for each of its
  /// tensors, of one expert where the tensor stacks them, before a cast.
  /// `addScalars` false leaves values alone, for elements that are tags.
  template <class T>
  std::vector<Array<T>> run(const Group &group, std::vector<Array<T>> whole,
                            bool addScalars) const;

private:
  friend class SideChecker;
  explicit Interpreter(Side side) : checked(std::move(side)) {}
  void placeLayers();
  void findGroups();
  bool isHeld(int64_t param, int64_t layer, const Coordinates &at,
              LayerPlace &place) const;
  LocalParam stackOf(int64_t param, const LocalParam &local,
                     const Coordinates &at) const;
  std::vector<std::string> namesOf(int64_t param, int64_t layer,
                                   int64_t expert) const;

  Side checked;
  std::map<int64_t, ValueFacts> values;
  std::vector<Split> splits;     ///< of each parameter
  std::vector<std::string> axes; ///< of each parameter, "" where it is whole
  std::vector<LayerPlace> places;
  std::vector<Group> allGroups;
};

/// Fills the holes {layer}, {layer+N}, {expert}, {expert+N} of a name.
std::string expandName(const std::string &name, int64_t layer, int64_t expert);

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_INTERPRETER_H

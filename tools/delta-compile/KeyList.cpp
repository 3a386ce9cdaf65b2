//===- KeyList.cpp - A checkpoint's keys beside a family's ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KeyList.h"

#include "passes/NameTemplate.h"
#include "passes/Shapes.h"

#include "llvm/Support/raw_ostream.h"

#include <nlohmann/json.hpp>

#include <set>

using namespace delta;
using namespace mlir;

bool delta::keyListOf(const Checkpoint &checkpoint, std::string &outKeys,
                      std::string &error) {
  nlohmann::json keys = nlohmann::json::object();
  for (const auto &[name, tensor] : checkpoint.tensors) {
    std::string dtype = plainTypeName(tensor.dtype);
    if (dtype.empty()) {
      error = checkpoint.files[tensor.file] + ": error: tensor \"" + name +
              "\" is of type " + tensor.dtype +
              ": the checkpoint is quantized, required BF16, F16, F32 or I64";
      return false;
    }
    keys[name] = {{"shape", tensor.shape}, {"dtype", dtype}};
  }
  outKeys = keys.dump();
  return true;
}

namespace {

/// One kind of difference: the first few by name, the rest by number.
struct Differences {
  const char *what;
  std::vector<std::string> names;

  void print(const std::string &path) const {
    constexpr size_t shown = 3;
    for (size_t i = 0; i < std::min(names.size(), shown); ++i)
      llvm::errs() << path << ": error: " << names[i] << what << "\n";
    if (names.size() > shown)
      llvm::errs() << path << ": note: and " << names.size() - shown
                   << " more tensors like this\n";
  }
};

std::string shown(const std::vector<int64_t> &shape) {
  std::string out = "[";
  for (int64_t size : shape)
    out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

/// A parameter that a value comes from; all of them have one type and place.
ParamOp paramOf(Value value) {
  while (!isa<ParamOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value.getDefiningOp<ParamOp>();
}

/// The type of a tensor's value.
StringRef dtypeOf(Value value) {
  while (!isa<ParamOp, CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  if (auto cast = value.getDefiningOp<CastOp>())
    return cast.getDtype();
  return value.getDefiningOp<ParamOp>().getDtype();
}

} // namespace

namespace {
/// The tensors of a bound side, one name at a time, against a checkpoint.
class Matcher {
public:
  Matcher(SideOp side, const Checkpoint &checkpoint)
      : side(side), checkpoint(checkpoint) {}

  bool run() {
    for (auto tensor : side.getBody().front().getOps<TensorOp>()) {
      if (tensor.getAlias())
        llvm::errs() << checkpoint.path << ": note: lists \""
                     << tensor.getName()
                     << "\", a second name of another tensor\n";
      ParamOp param = paramOf(tensor.getValue());
      bool each = param.getExperts() && !tensor.getStacked();
      if (!match(tensor, tensor.getName(), tensor.getShape(),
                 fileTypeName(dtypeOf(tensor.getValue())), param.getLayers(),
                 each ? int64_t(side.getExperts()) : 1))
        return false;
    }
    int64_t numCopied = 0;
    for (auto op : side.getBody().front().getOps<PassthroughOp>()) {
      size_t before = known.size();
      if (!match(op, op.getName(), op.getShape(), fileTypeName(op.getDtype()),
                 op.getLayers(), 1))
        return false;
      numCopied += known.size() - before;
    }
    if (numCopied)
      llvm::errs() << checkpoint.path << ": note: " << numCopied
                   << " tensors are not the trainer's; an export copies them\n";
    for (const auto &[name, tensor] : checkpoint.tensors)
      if (!known.count(name))
        extra.names.push_back("tensor \"" + name + "\"");
    for (const Differences *differences : {&missing, &shapes, &extra})
      differences->print(checkpoint.path);
    return missing.names.empty() && shapes.names.empty() && extra.names.empty();
  }

private:
  bool match(Operation *op, StringRef nameTemplate, ArrayAttr sizes,
             const std::string &dtype,
             std::optional<ArrayRef<int64_t>> onLayers, int64_t experts) {
    FailureOr<std::vector<int64_t>> shape = literals(op, sizes);
    if (failed(shape))
      return false;
    for (int64_t layer : onLayers.value_or(ArrayRef<int64_t>{0}))
      for (int64_t expert = 0; expert < experts; ++expert) {
        std::string name = fillName(nameTemplate.str(), layer, expert);
        std::string quoted = "tensor \"" + name + "\"";
        known.insert(name);
        auto it = checkpoint.tensors.find(name);
        if (it == checkpoint.tensors.end()) {
          missing.names.push_back(quoted);
          continue;
        }
        const StoredTensor &stored = it->second;
        if (stored.shape != *shape || plainTypeName(stored.dtype) != dtype)
          shapes.names.push_back(quoted + " is " + shown(stored.shape) + " " +
                                 plainTypeName(stored.dtype) + ", required " +
                                 shown(*shape) + " " + dtype);
      }
    return true;
  }

  SideOp side;
  const Checkpoint &checkpoint;
  Differences missing{" is not in the checkpoint", {}};
  Differences shapes{"", {}};
  Differences extra{" is in the checkpoint, the family does not produce it",
                    {}};
  std::set<std::string> known;
};
} // namespace

bool delta::matchesKeyList(ModuleOp module, const Checkpoint &checkpoint) {
  return Matcher(module.lookupSymbol<SideOp>("source"), checkpoint).run();
}

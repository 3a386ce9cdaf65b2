//===- Weights.h - Trainer weights out of a checkpoint ----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Where the elements of trainer parameters stand in the files of a published
/// checkpoint, by the reference program run on element numbers: the plan has no
/// part in it. Files are mapped, and a shard touches the bytes of its own
/// elements only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_RUN_WEIGHTS_H
#define DELTA_TOOLS_RUN_WEIGHTS_H

#include "models/Checkpoint.h"
#include "tools/delta-run/Trainer.h"

#include <atomic>

namespace delta::run {

class Weights {
public:
  /// Opens a safetensors checkpoint and holds it against the tensors of the
  /// program: all there, of the same shapes and types; others are ignored.
  /// Null, with `error` set, on a difference. The interpreter must outlive it.
  static std::unique_ptr<Weights>
  open(const std::string &path, const reference::Interpreter &interpreter,
       std::string &error);
  ~Weights();
  Weights(const Weights &) = delete;
  Weights &operator=(const Weights &) = delete;

  /// Bits of an instance's unsharded parameter; zeros where it has no image.
  template <class T> void whole(const Instance &instance, T *out) const;
  /// The same of one of its shards.
  template <class T>
  void shard(const Instance &instance, int64_t way, T *out) const;
  /// The bytes of a tensor, as they stand in the file.
  const uint8_t *tensor(const std::string &name) const;
  /// Bytes that shards took out of the files so far.
  uint64_t bytesOfShards() const { return shardBytes; }

private:
  explicit Weights(const reference::Interpreter &interpreter)
      : interpreter(interpreter) {}
  void placeParams();
  template <class T>
  void gather(const Instance &instance, const uint64_t *places, int64_t count,
              T *out) const;

  struct Mapping {
    void *data = nullptr;
    size_t size = 0;
  };

  const reference::Interpreter &interpreter;
  Checkpoint checkpoint;
  std::vector<Mapping> files;
  /// For each parameter record: the place of each unsharded element, tensor
  /// record << 48 | element, or noImage. One for all layers and experts.
  std::map<int64_t, reference::Array<uint64_t>> places;
  mutable std::atomic<uint64_t> shardBytes{0};
};

/// Values of an instance's unsharded parameter after `step` steps: those of
/// `update`, or, from a checkpoint, its bits moved as far as `update` moves
/// its own.
template <class T>
void valuesOf(const reference::Update &update, const Weights *weights,
              const reference::Interpreter &interpreter,
              const Instance &instance, int64_t step, reference::Array<T> &out);

} // namespace delta::run

#endif // DELTA_TOOLS_RUN_WEIGHTS_H

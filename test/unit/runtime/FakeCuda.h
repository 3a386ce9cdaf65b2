//===- FakeCuda.h - A driver without a GPU ----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A library with the entry points of CudaSymbols.def, for tests to be named in
/// DELTA_CUDA_DRIVER. Memory is memory of the host; kernels are noted and not
/// run. It stops at what a driver would answer with undefined behavior: what is
/// freed twice, or used in a context that is not current.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_FAKECUDA_H
#define DELTA_TEST_UNIT_RUNTIME_FAKECUDA_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace delta::test {

struct FakeCuda {
  // What a test sets.
  /// The next call of this name (as cuda.h spells it) fails, and then no more.
  std::string failing;
  int result = 1;
  int major = 9, minor = 0;
  /// Bytes of memory, in whose place another GPU's lie.
  const void *ofOtherDevice = nullptr;
  /// A stream that is captured.
  void *capturing = nullptr;

  // What a test reads.
  struct Launch {
    std::string kernel;
    uint32_t numBlocks, numThreads, sharedBytes;
    void *stream;
    std::vector<uint8_t> arguments;
  };
  std::vector<Launch> launches;
  /// Names of calls that enqueue or wait, with their streams.
  std::vector<std::pair<std::string, void *>> calls;
  int numBlocks = 0, numPinnedBlocks = 0; ///< allocated now
  int numModules = 0, numStreams = 0, numEvents = 0;
  int numPrimary = 0; ///< how often the primary context is retained

  /// Bytes of arguments that a launch notes.
  size_t argumentBytes = 8;
  /// Shared memory of a multiprocessor, and of a block of that.
  int sharedOfProcessor = 233472, sharedOfBlock = 232448;
  /// What kernels were given, by name.
  std::map<std::string, int> dynamicShared;

  /// A context that a caller may make current in his thread, as a run time
  /// does; 0 is the primary one of the device.
  virtual void *context(int number) = 0;
  virtual void setCurrent(void *context) = 0;
  virtual void *getCurrent() = 0;
  /// Another context comes to life at the same address.
  virtual void renew(int number) = 0;
  virtual ~FakeCuda() = default;
};

/// The state of the library; `delta_fake_cuda` is its only other export.
using FakeCudaGetter = FakeCuda *();

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_FAKECUDA_H

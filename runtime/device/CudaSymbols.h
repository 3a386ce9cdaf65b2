//===- CudaSymbols.h - The CUDA driver, found at run time -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The one place that opens the driver's library: at the first use and never
/// at load, so that a plan for GPUs loads and answers questions on a machine
/// that has none. Types and values are declared here, named after cuda.h, which
/// the build does not need; a test compares them where it is there.
///
/// | variable            | meaning                        | default         |
/// | ------------------- | ------------------------------ | --------------- |
/// | `DELTA_CUDA_DRIVER` | library of the driver, a path  | `libcuda.so.1`  |
/// |                     | or a name that the loader      |                 |
/// |                     | finds; read at the first use   |                 |
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_CUDASYMBOLS_H
#define DELTA_RUNTIME_DEVICE_CUDASYMBOLS_H

#include "runtime/Status.h"

#include <cstddef>

namespace delta::runtime {

using CudaResult = int;                 ///< CUresult
using CudaOrdinal = int;                ///< CUdevice
using CudaAddress = unsigned long long; ///< CUdeviceptr
using CudaContext = void *;
using CudaModule = void *;
using CudaFunction = void *;
using CudaStream = void *;
using CudaEvent = void *;

/// Values of cuda.h under their names there.
namespace cuda {
enum : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_FOUND = 500,

  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK = 111,

  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,

  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_IS_MANAGED = 8,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_MEMORYTYPE_HOST = 1,
  CU_MEMORYTYPE_DEVICE = 2
};
enum : unsigned {
  CU_MEMHOSTALLOC_PORTABLE = 1,
  CU_MEMHOSTALLOC_DEVICEMAP = 2,
  CU_STREAM_NON_BLOCKING = 1,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_EVENT_DISABLE_TIMING = 2
};
} // namespace cuda

struct CudaSymbols {
#define DELTA_CUDA_SYMBOL(member, name, symbol, parameters)                    \
  CudaResult(*member) parameters = nullptr;
#include "runtime/device/CudaSymbols.def"

  /// The driver, opened and initialized; the same answer for the life of the
  /// process. Else DELTA_NO_DEVICE and a sentence.
  static Status get(const CudaSymbols *&out);

  /// An entry point that no plan needs and tools ask for; null: the driver, if
  /// there is one, has none of the name.
  static void *find(const char *symbol);

  /// Ok, or "<call>: <the driver's words>": DELTA_NO_MEMORY where it has none,
  /// DELTA_INTERNAL for all else.
  Status check(const char *call, CudaResult result) const;
};

/// Calls an entry point: DELTA_CUDA_CALL(symbols, memAlloc, (&out, size)) is a
/// Status whose text begins with cuMemAlloc.
#define DELTA_CUDA_CALL(symbols, member, arguments)                            \
  ((symbols).check(::delta::runtime::CudaNames::member,                        \
                   (symbols).member arguments))

/// What cuda.h calls the entry points.
struct CudaNames {
#define DELTA_CUDA_SYMBOL(member, name, symbol, parameters)                    \
  static constexpr const char *member = #name;
#include "runtime/device/CudaSymbols.def"
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_CUDASYMBOLS_H

//===- CudaHeaderTest.cpp - Our declarations beside cuda.h ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Built where cuda.h is: it says which version of an entry point it means, and
/// what it takes.
///
//===----------------------------------------------------------------------===//

#include "runtime/device/CudaSymbols.h"

// Macros in cuda.h, so taken before it.
namespace ours {
constexpr unsigned portable = delta::runtime::cuda::CU_MEMHOSTALLOC_PORTABLE;
constexpr unsigned deviceMap = delta::runtime::cuda::CU_MEMHOSTALLOC_DEVICEMAP;
} // namespace ours

#include <cuda.h>
#include <gtest/gtest.h>
#include <type_traits>

using namespace delta::runtime;

#define SAME(name) static_assert(int(cuda::name) == int(::name), #name)
SAME(CUDA_SUCCESS);
SAME(CUDA_ERROR_OUT_OF_MEMORY);
SAME(CUDA_ERROR_NOT_FOUND);
SAME(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
SAME(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
SAME(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(CU_MEMORYTYPE_HOST);
SAME(CU_MEMORYTYPE_DEVICE);
SAME(CU_STREAM_NON_BLOCKING);
SAME(CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(CU_EVENT_DISABLE_TIMING);
#undef SAME
static_assert(ours::portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(ours::deviceMap == CU_MEMHOSTALLOC_DEVICEMAP);
static_assert(sizeof(CudaResult) == sizeof(CUresult));
static_assert(std::is_same_v<CudaAddress, CUdeviceptr>);
static_assert(std::is_same_v<CudaOrdinal, CUdevice>);

/// Pointers for pointers and numbers of the same size for numbers: the same
/// registers.
template <typename... Ours, typename... Theirs>
static constexpr bool sameShape(CudaResult (*)(Ours...),
                                CUresult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs))
    return false;
  else
    return ((sizeof(Ours) == sizeof(Theirs) &&
             std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
            ...);
}

#define DELTA_CUDA_SYMBOL(member, name, symbol, parameters)                    \
  static_assert(                                                               \
      sameShape(decltype(CudaSymbols::member)(), decltype (&::name)()),        \
      #name);
#include "runtime/device/CudaSymbols.def"

/// cuda.h maps cuMemAlloc to cuMemAlloc_v2, and so on.
#define SPELLED(name) SPELLED_AS(name)
#define SPELLED_AS(name) #name

TEST(CudaHeaderTest, EntryPointsAreThoseOfTheHeader) {
#define DELTA_CUDA_SYMBOL(member, name, symbol, parameters)                    \
  EXPECT_STREQ(SPELLED(name), SPELLED_AS(symbol));
#include "runtime/device/CudaSymbols.def"
}

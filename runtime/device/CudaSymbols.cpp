//===- CudaSymbols.cpp - The CUDA driver, found at run time ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/CudaSymbols.h"

#include <cstdlib>
#include <dlfcn.h>

using namespace delta::runtime;

namespace {
/// The table, or why there is none.
struct Driver {
  CudaSymbols symbols;
  void *handle = nullptr;
  Status status;

  Driver() { status = open(); }

private:
  Status open() {
    const char *chosen = std::getenv("DELTA_CUDA_DRIVER");
    const char *library = chosen && *chosen ? chosen : "libcuda.so.1";
    // Stays open: the driver does not survive being closed.
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      return Status::error(DELTA_NO_DEVICE,
                           "no NVIDIA driver: %s cannot be opened", library);
#define DELTA_CUDA_SYMBOL(member, name, symbol, parameters)                    \
  symbols.member =                                                             \
      reinterpret_cast<CudaResult(*) parameters>(dlsym(handle, #symbol));      \
  if (!symbols.member)                                                         \
    return Status::error(DELTA_NO_DEVICE,                                      \
                         "no usable NVIDIA driver: %s has no " #symbol         \
                         ", required is a driver for CUDA 12 or later",        \
                         library);
#include "runtime/device/CudaSymbols.def"
    Status status = DELTA_CUDA_CALL(symbols, init, (0));
    if (status.failed())
      return Status::error(DELTA_NO_DEVICE, "no usable NVIDIA GPU: %s",
                           status.getText().c_str());
    return {};
  }
};
} // namespace

static const Driver &theDriver() {
  static const Driver driver;
  return driver;
}

Status CudaSymbols::get(const CudaSymbols *&out) {
  out = &theDriver().symbols;
  return theDriver().status;
}

void *CudaSymbols::find(const char *symbol) {
  void *handle = theDriver().handle;
  return handle ? dlsym(handle, symbol) : nullptr;
}

Status CudaSymbols::check(const char *call, CudaResult result) const {
  if (result == cuda::CUDA_SUCCESS)
    return {};
  delta_status_t code = result == cuda::CUDA_ERROR_OUT_OF_MEMORY
                            ? DELTA_NO_MEMORY
                            : DELTA_INTERNAL;
  const char *text = nullptr;
  if (getErrorString(result, &text) == cuda::CUDA_SUCCESS && text)
    return Status::error(code, "%s: %s", call, text);
  return Status::error(code, "%s: error %d", call, result);
}

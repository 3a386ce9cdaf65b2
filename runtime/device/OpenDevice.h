//===- OpenDevice.h - The device of a plan ----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the run time of a host plan does not have. The two archives differ in
/// who answers: device/NoDevice.cpp in delta_runtime, all other files of this
/// folder in delta_runtime_cuda.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_OPENDEVICE_H
#define DELTA_RUNTIME_DEVICE_OPENDEVICE_H

#include "codegen/device/Kernels.h"
#include "runtime/device/Device.h"

namespace delta::runtime {

/// DELTA_OK where a plan with these kernels can run: always, if it has no code
/// for GPUs. Else DELTA_NO_DEVICE and one sentence. Takes nothing.
Status checkDevice(const delta_kernels_t &kernels);

/// The device of the caller's current context with the plan's code loaded, the
/// same for all who ask in that context; null for a plan of the host. Where no
/// context is current, the primary context of device 0 is taken, as the CUDA
/// run time does. Fails as checkDevice does, or names the call of the driver.
Status openDevice(const delta_kernels_t &kernels, std::shared_ptr<Device> &out);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_OPENDEVICE_H

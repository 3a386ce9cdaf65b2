//===- Api.h - The parts of a plan's table ----------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Thin wrappers of the classes, over the tables and kernels of the plan that
/// they are linked into. No exception leaves them.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_API_H
#define DELTA_RUNTIME_API_H

#include "runtime/Status.h"
#include "runtime/device/Device.h"

namespace delta::runtime {

/// Sets the functions of a sender, or of a receiver.
void fillSender(delta_plan_api_t &api);
void fillReceiver(delta_plan_api_t &api);

/// The device that the plan's handles of `rank` work on; null for a plan of the
/// host.
Status openDevice(uint32_t rank, std::shared_ptr<Device> &out);

inline Status missing(const char *call) {
  return Status::error(DELTA_INVALID_ARGUMENT, "%s: a pointer is null", call);
}

} // namespace delta::runtime

#endif // DELTA_RUNTIME_API_H

//===- NoDevice.cpp - The answers of a run time for the host --------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// In delta_runtime this file stands for all others of the folder.
///
//===----------------------------------------------------------------------===//

#include "runtime/device/Handles.h"
#include "runtime/device/OpenDevice.h"

using namespace delta::runtime;

Status delta::runtime::checkDevice(const delta_kernels_t &kernels) {
  if (kernels.num_cubins == 0)
    return {};
  return Status::error(DELTA_NO_DEVICE, "the plan has code for GPUs, and was "
                                        "linked with the run time of the host");
}

Status delta::runtime::openDevice(const delta_kernels_t &kernels,
                                  std::shared_ptr<Device> &out) {
  out = nullptr;
  return checkDevice(kernels);
}

Sender::PackingMaker delta::runtime::packingOn(const std::shared_ptr<Device> &,
                                               const delta_tables_t &) {
  return Sender::onHost();
}

std::unique_ptr<Intake>
delta::runtime::intakeOn(const std::shared_ptr<Device> &,
                         const delta_tables_t &) {
  return nullptr;
}

Status delta::runtime::messagesOn(const std::shared_ptr<Device> &,
                                  std::shared_ptr<MessageMemory> &out) {
  out = nullptr;
  return {};
}

//===- Handles.cpp - What handles of a plan use on a device ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Handles.h"

#include "runtime/device/DeviceIntake.h"
#include "runtime/device/DeviceMessages.h"
#include "runtime/device/DevicePacking.h"

using namespace delta::runtime;

Sender::PackingMaker
delta::runtime::packingOn(const std::shared_ptr<Device> &device,
                          const delta_tables_t &tables) {
  return device ? onDevice(device, tables) : Sender::onHost();
}

std::unique_ptr<Intake>
delta::runtime::intakeOn(const std::shared_ptr<Device> &device,
                         const delta_tables_t &tables) {
  if (!device)
    return nullptr;
  return std::make_unique<DeviceIntake>(device, tables);
}

Status delta::runtime::messagesOn(const std::shared_ptr<Device> &device,
                                  std::shared_ptr<MessageMemory> &out) {
  out = nullptr;
  return device ? DeviceMessages::create(device, out) : Status();
}

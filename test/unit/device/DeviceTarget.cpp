//===- DeviceTarget.cpp - Receivers of an emulated device -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/emulator/EmulatedDevice.h"
#include "test/unit/runtime/Target.h"

#include "runtime/device/DeviceIntake.h"

using namespace delta::runtime;

std::shared_ptr<Device>
delta::test::makeTargetDevice(const delta_tables_t &tables) {
  return std::make_shared<EmulatedDevice>(tables);
}

std::unique_ptr<Intake>
delta::test::makeTargetIntake(const std::shared_ptr<Device> &device,
                              const delta_tables_t &tables) {
  return std::make_unique<DeviceIntake>(device, tables);
}

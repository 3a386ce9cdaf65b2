//===- DeviceTarget.cpp - Receivers of an emulated device -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "DeviceTarget.h"

#include "runtime/device/DeviceIntake.h"
#include "test/emulator/EmulatedDevice.h"

using namespace delta::runtime;

static bool isHost = false;

delta::test::HostTargets::HostTargets() { isHost = true; }
delta::test::HostTargets::~HostTargets() { isHost = false; }

std::shared_ptr<Device>
delta::test::makeTargetDevice(const delta_tables_t &tables) {
  if (isHost)
    return nullptr;
  return std::make_shared<EmulatedDevice>(tables);
}

std::unique_ptr<Intake>
delta::test::makeTargetIntake(const std::shared_ptr<Device> &device,
                              const delta_tables_t &tables) {
  if (!device)
    return nullptr;
  return std::make_unique<DeviceIntake>(device, tables);
}

//===- Target.h - What the receivers of a test run on -----------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The tests of the run time are built twice: HostTarget.cpp makes receivers of
/// the host, test/unit/device/DeviceTarget.cpp receivers of an emulated device.
/// So whatever holds for one is asked of the other, texts of refusals included.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_TARGET_H
#define DELTA_TEST_UNIT_RUNTIME_TARGET_H

#include "runtime/Intake.h"
#include "runtime/device/Device.h"

namespace delta::test {

/// A device whose memory the host reads too; null: the target is the host.
std::shared_ptr<runtime::Device> makeTargetDevice(const delta_tables_t &tables);

/// What a receiver of the device is made with; null: the host's.
std::unique_ptr<runtime::Intake>
makeTargetIntake(const std::shared_ptr<runtime::Device> &device,
                 const delta_tables_t &tables);

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_TARGET_H

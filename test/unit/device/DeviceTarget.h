//===- DeviceTarget.h - Receivers of an emulated device ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Targets of the tests of devices, which compare them with those of the host.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_DEVICE_DEVICETARGET_H
#define DELTA_TEST_UNIT_DEVICE_DEVICETARGET_H

#include "test/unit/runtime/Target.h"

namespace delta::test {

/// While one lives, new targets are those of the host.
struct HostTargets {
  HostTargets();
  ~HostTargets();
};

} // namespace delta::test

#endif // DELTA_TEST_UNIT_DEVICE_DEVICETARGET_H

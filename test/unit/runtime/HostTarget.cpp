//===- HostTarget.cpp - Receivers of the host -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Target.h"

using namespace delta::runtime;

std::shared_ptr<Device> delta::test::makeTargetDevice(const delta_tables_t &) {
  return nullptr;
}

std::unique_ptr<Intake>
delta::test::makeTargetIntake(const std::shared_ptr<Device> &,
                              const delta_tables_t &) {
  return nullptr;
}

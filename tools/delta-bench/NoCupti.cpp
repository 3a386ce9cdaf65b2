//===- NoCupti.cpp - A build without cupti.h ------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchCounter.h"

std::unique_ptr<delta::bench::LaunchCounter>
delta::bench::LaunchCounter::open(std::string &why) {
  why = "delta-bench was built without cupti.h";
  return nullptr;
}

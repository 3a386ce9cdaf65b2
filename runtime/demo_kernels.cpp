//===- demo_kernels.cpp - Kernels of the plan written by hand -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The other half of demo_plan.c: instantiations for the two types it uses.
///
//===----------------------------------------------------------------------===//

#include "codegen/device/HostKernels.h"

extern "C" const delta_kernels_t delta_plan_kernels = {
    sizeof(delta_kernels_t),
    DELTA_ABI_VERSION,
    {/*unused*/ {}, delta::device::hostKernels<delta::device::Bf16>(),
     /*fp16*/ {}, delta::device::hostKernels<delta::device::Fp32>(),
     /*int64*/ {}}};

/*===- other_plan.c - A plan of another ABI version ---------------*- C -*-===*
 *
 * Part of the delta project, under the Apache License v2.0 with LLVM
 * Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Offers one table, of DELTA_OTHER_VERSION and DELTA_OTHER_SIZE bytes, whatever
 * was asked for if that version is 0.
 *
 *===----------------------------------------------------------------------===*/

#include "runtime/delta_abi.h"

const delta_plan_api_t *delta_plan_query(uint32_t max_version) {
  static delta_plan_api_t api;
  api.version = DELTA_OTHER_VERSION;
  api.size = DELTA_OTHER_SIZE;
  return max_version < DELTA_OTHER_VERSION ? NULL : &api;
}

/*===- AbiLayout.c - The contract as C sees it --------------------*- C -*-===*
 *
 * Part of the delta project, under the Apache License v2.0 with LLVM
 * Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * Compiled as strict C11. Sizes and offsets are asserted here, so that a field
 * that moves breaks the build, and handed to the C++ test, which compares.
 *
 *===----------------------------------------------------------------------===*/

#include "runtime/delta_abi.h"

#define SAME(condition) _Static_assert(condition, #condition)

SAME(sizeof(delta_status_t) == 4);
SAME(sizeof(delta_side_id_t) == 4);
SAME(sizeof(delta_placement_t) == 16);
SAME(sizeof(delta_expert_t) == 8);
SAME(sizeof(delta_layer_kind_t) == 8);
SAME(sizeof(delta_slots_t) == 24);
SAME(sizeof(delta_refresh_t) == 16);
SAME(sizeof(delta_class_t) == 120);
SAME(offsetof(delta_class_t, shape) == 16);
SAME(offsetof(delta_class_t, layer_kind) == 64);
SAME(offsetof(delta_class_t, expert_stride) == 80);
SAME(offsetof(delta_class_t, copy_of) == 96);
SAME(offsetof(delta_class_t, order) == 112);
SAME(sizeof(delta_side_t) == 88);
SAME(offsetof(delta_side_t, classes) == 56);
SAME(sizeof(delta_image_t) == 88);
SAME(offsetof(delta_image_t, offset) == 16);
SAME(sizeof(delta_box_t) == 176);
SAME(offsetof(delta_box_t, num_tiles) == 32);
SAME(offsetof(delta_box_t, source_stride) == 112);
SAME(sizeof(delta_tables_t) == 504);
SAME(offsetof(delta_tables_t, source) == 40);
SAME(offsetof(delta_tables_t, destination_is_hf) == 304);
SAME(offsetof(delta_tables_t, engine) == 448);
SAME(offsetof(delta_tables_t, slots) == 464);
SAME(offsetof(delta_tables_t, refreshes) == 496);
SAME(offsetof(delta_param_info_t, stride) == 600);
SAME(sizeof(delta_param_info_t) == 648);
SAME(sizeof(delta_tile_info_t) == 24);
SAME(sizeof(delta_place_t) == 24);
SAME(sizeof(delta_param_t) == 128);
SAME(sizeof(delta_version_t) == 24);
SAME(sizeof(delta_sync_stats_t) == 64);
SAME(sizeof(delta_transport_t) == 32);
SAME(offsetof(delta_plan_api_t, tables) == 32);
SAME(offsetof(delta_plan_api_t, index_create) == 40);
SAME(offsetof(delta_plan_api_t, inproc_transport) == 256);
SAME(offsetof(delta_plan_api_t, sender_set_capacity) == 264);
SAME(sizeof(delta_replica_sum_t) == 24);
SAME(offsetof(delta_plan_api_t, sender_replica_sums) == 312);
SAME(sizeof(delta_refresh_call_t) == 8);
SAME(offsetof(delta_plan_api_t, sender_set_placement) == 320);
SAME(offsetof(delta_plan_api_t, check_device) == 360);
SAME(offsetof(delta_plan_api_t, sender_read) == 416);
SAME(offsetof(delta_plan_api_t, sender_marks) == 448);
SAME(sizeof(delta_plan_api_t) == 464);

size_t delta_test_sizes(size_t *out) {
  size_t count = 0;
  out[count++] = sizeof(delta_class_t);
  out[count++] = sizeof(delta_side_t);
  out[count++] = sizeof(delta_image_t);
  out[count++] = sizeof(delta_box_t);
  out[count++] = sizeof(delta_tables_t);
  out[count++] = sizeof(delta_param_info_t);
  out[count++] = sizeof(delta_param_t);
  out[count++] = sizeof(delta_plan_api_t);
  out[count++] = offsetof(delta_plan_api_t, inproc_transport);
  return count;
}

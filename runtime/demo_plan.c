/*===- demo_plan.c - A plan written by hand -----------------------*- C -*-===*
 *
 * Part of the delta project, under the Apache License v2.0 with LLVM
 * Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * The ABI by example: the tables that a compiler would emit for a model of two
 * parameters, trained on two ranks (TP 2) and received by one (TP 1).
 *
 *   source, rank r     words      [3, 4] bf16, rows 3r..3r+2 of [6, 4], of
 *                                 which row 5 is padding
 *                      norm       [4]    fp32, whole on both ranks
 *   neutral            words      [5, 4] bf16
 *                      norm       [4]    fp32, one more than trained
 *   destination        words      [8, 4] bf16, rows 5..7 are padding
 *                      norm       [4]    fp32, one more than trained
 *
 * Linked with the run time and with demo_kernels.cpp this is a whole plan; a
 * test builds it, loads it and syncs.
 *
 *===----------------------------------------------------------------------===*/

#include "codegen/device/Kernels.h"
#include "runtime/delta_abi.h"

/* Class numbers of all three sides. */
enum { Words = 0, Norm = 1, NumClasses = 2 };

/*===--- source: two ranks -----------------------------------------------===*/

static const char *const source_names[] = {
    "words.weight",
    "norm.weight",
    "old_norm.weight", /* what older trainers call it */
};

static const delta_class_t source_classes[NumClasses] = {
    [Words] = {.first_name = 0,
               .num_names = 1,
               .dtype = DELTA_BF16,
               .rank = 2,
               .shape = {3, 4, 1, 1, 1, 1},
               .layer_kind = DELTA_NONE, /* outside layers: stage 0, chunk 0 */
               .axis = DELTA_AXIS_TP,
               .ways = 2,
               .copy_of = DELTA_NONE,
               .part_of = DELTA_NONE},
    [Norm] = {.first_name = 1,
              .num_names = 2,
              .dtype = DELTA_FP32,
              .rank = 1,
              .shape = {4, 1, 1, 1, 1, 1},
              .layer_kind = DELTA_NONE,
              .axis = DELTA_AXIS_NONE,
              .ways = 1,
              .copy_of = DELTA_NONE,
              .part_of = DELTA_NONE},
};

/*===--- neutral layout ---------------------------------------------------===*/

static const char *const hf_names[] = {
    "model.words.weight",
    "model.norm.weight",
};

static const delta_class_t hf_classes[NumClasses] = {
    [Words] = {.first_name = 0,
               .num_names = 1,
               .dtype = DELTA_BF16,
               .rank = 2,
               .shape = {5, 4, 1, 1, 1, 1},
               .layer_kind = DELTA_NONE,
               .ways = 1,
               .copy_of = DELTA_NONE,
               .part_of = DELTA_NONE},
    [Norm] = {.first_name = 1,
              .num_names = 1,
              .dtype = DELTA_FP32,
              .rank = 1,
              .shape = {4, 1, 1, 1, 1, 1},
              .layer_kind = DELTA_NONE,
              .ways = 1,
              .copy_of = DELTA_NONE,
              .part_of = DELTA_NONE},
};

/*===--- destination: one rank --------------------------------------------===*/

static const char *const destination_names[] = {
    "words.weight",
    "norm.weight",
};

static const delta_class_t destination_classes[NumClasses] = {
    [Words] = {.first_name = 0,
               .num_names = 1,
               .dtype = DELTA_BF16,
               .rank = 2,
               .shape = {8, 4, 1, 1, 1, 1},
               .layer_kind = DELTA_NONE,
               .axis = DELTA_AXIS_TP,
               .ways = 1,
               .copy_of = DELTA_NONE,
               .part_of = DELTA_NONE},
    [Norm] = {.first_name = 1,
              .num_names = 1,
              .dtype = DELTA_FP32,
              .rank = 1,
              .shape = {4, 1, 1, 1, 1, 1},
              .layer_kind = DELTA_NONE,
              .ways = 1,
              .copy_of = DELTA_NONE,
              .part_of = DELTA_NONE},
};

/*===--- maps -------------------------------------------------------------===*/

/* One image serves as destination and as neutral place where both have the
 * same offsets, and here they do. */
static const delta_image_t images[] = {
    /* 0: rows 0..2 of words */
    {.class_index = Words, .way_end = 1, .offset = 0, .stride = {4, 1}},
    /* 1: rows 3..4 of words */
    {.class_index = Words, .way_end = 1, .offset = 12, .stride = {4, 1}},
    /* 2: norm + 1 */
    {.class_index = Norm,
     .way_end = 1,
     .value_op = DELTA_VALUE_ADD_ONE,
     .offset = 0,
     .stride = {1}},
};

/* Sorted by (source_class, source_way). */
static const delta_box_t boxes[] = {
    /* words, rank 0: source[4*i + j] -> [0 + 4*i + j], i < 3, j < 4; tiles of
     * two rows, the second one cut to one */
    {.source_class = Words,
     .source_way = 0,
     .num_loops = 2,
     .first_image = 0,
     .num_images = 1,
     .hf_image = 0,
     .tile_runs = 2,
     .tile_columns = 4,
     .num_tiles = 2,
     .source_offset = 0,
     .extent = {3, 4},
     .source_stride = {4, 1}},
    /* words, rank 1: its third row is padding and in no box */
    {.source_class = Words,
     .source_way = 1,
     .num_loops = 2,
     .first_image = 1,
     .num_images = 1,
     .hf_image = 1,
     .tile_runs = 2,
     .tile_columns = 4,
     .num_tiles = 1,
     .source_offset = 0,
     .extent = {2, 4},
     .source_stride = {4, 1}},
    /* norm: both ranks hold it, so each owns one of its two tiles */
    {.source_class = Norm,
     .source_way = 0,
     .num_loops = 1,
     .first_image = 2,
     .num_images = 1,
     .hf_image = 2,
     .tile_runs = 1,
     .tile_columns = 2,
     .num_tiles = 2,
     .source_offset = 0,
     .extent = {4},
     .source_stride = {1}},
};

const delta_tables_t delta_plan_tables = {
    .size = sizeof(delta_tables_t),
    .abi_version = DELTA_ABI_VERSION,
    .fingerprint = {0x64656d6f00000000u, 0x706c616e00000001u},
    .model = "demo TP2 -> TP1",
    .compiler = "written by hand",
    .source = {.tp = 2,
               .cp = 1,
               .dp = 1,
               .ep = 1,
               .etp = 1,
               .edp = 2,
               .pp = 1,
               .vpp = 1,
               .replicas = 1,
               .ranks_per_replica = 2,
               .num_classes = NumClasses,
               .num_names = 3,
               .classes = source_classes,
               .names = source_names},
    .destination = {.tp = 1,
                    .cp = 1,
                    .dp = 1,
                    .ep = 1,
                    .etp = 1,
                    .edp = 1,
                    .pp = 1,
                    .vpp = 1,
                    .replicas = 1,
                    .ranks_per_replica = 1,
                    .num_classes = NumClasses,
                    .num_names = 2,
                    .classes = destination_classes,
                    .names = destination_names},
    .hf = {.tp = 1,
           .cp = 1,
           .dp = 1,
           .ep = 1,
           .etp = 1,
           .edp = 1,
           .pp = 1,
           .vpp = 1,
           .replicas = 1,
           .ranks_per_replica = 1,
           .num_classes = NumClasses,
           .num_names = 2,
           .classes = hf_classes,
           .names = hf_names},
    .num_boxes = 3,
    .num_images = 3,
    .boxes = boxes,
    .images = images,
};

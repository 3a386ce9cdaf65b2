/*===- Kernels.h - The table of kernels of a plan -----------------*- C -*-===*
 *
 * Part of the delta project, under the Apache License v2.0 with LLVM
 * Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 *===----------------------------------------------------------------------===*
 *
 * What the emitted text of a plan hands to the run time: one set of host
 * kernels for each element type, each of which works on one tile. The run time
 * owns threads, order and memory. A plan defines `delta_plan_tables` and
 * `delta_plan_kernels`; nothing else links the two.
 *
 * Pointers to parameters are those of element 0 of the parameter, or of the
 * expert's slice where experts are stacked. Values are aligned to their size;
 * offsets to two bytes.
 *
 *===----------------------------------------------------------------------===*/

#ifndef DELTA_CODEGEN_DEVICE_KERNELS_H
#define DELTA_CODEGEN_DEVICE_KERNELS_H

#include "runtime/delta_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The neutral position of the elements of a box instance, for fingerprints:
 * element `offset + sum of index * stride` of a tensor with `num_columns`
 * columns. */
typedef struct delta_position {
  int64_t offset;
  const int64_t *stride;
  int64_t num_columns;
  uint64_t row_key;
  uint64_t column_key;
} delta_position_t;

typedef struct delta_host_kernels {
  /* Bytes of an element that is sent; 0: the plan has none of this row. */
  uint32_t element_size;
  uint32_t source_size; /* bytes of an element at the source */
  /* Copies the tile from `source` to `out` in tile order, after the op. */
  void (*gather)(const delta_box_t *box, int64_t tile, const void *source,
                 delta_value_op_t op, void *out);
  /* Compares the tile, bit by bit, with its snapshot (in tile order, after the
   * op); returns the number of changed elements. Writes place and value of each
   * to `offsets` and `values`, which hold a whole tile, unless more than half
   * changed: then the list is not complete. */
  uint32_t (*diff)(const delta_box_t *box, int64_t tile, const void *source,
                   delta_value_op_t op, const void *snapshot, uint16_t *offsets,
                   void *values);
  /* Writes `count` values to their places in tile order; offsets == null:
   * a whole tile. */
  void (*advance)(void *snapshot, const uint16_t *offsets, const void *values,
                  uint32_t count);
  /* Writes `count` values of a tile into an image of the box. */
  void (*scatter)(const delta_box_t *box, int64_t tile,
                  const delta_image_t *image, const uint16_t *offsets,
                  const void *values, uint32_t count, void *destination);
  /* Number of values that differ from the image; *out_first is the index of
   * the first in `values`. */
  uint32_t (*compare)(const delta_box_t *box, int64_t tile,
                      const delta_image_t *image, const uint16_t *offsets,
                      const void *values, uint32_t count,
                      const void *destination, uint32_t *out_first);
  /* Sum of bits x a(row) x b(column) of a tile mod 2^64; image == null: `data`
   * is the source and the op is applied. */
  uint64_t (*fingerprint)(const delta_box_t *box, int64_t tile,
                          const delta_image_t *image, const void *data,
                          delta_value_op_t op,
                          const delta_position_t *position);
} delta_host_kernels_t;

/* Rows of elements that keep their type are numbered by delta_dtype_t; row 0 is
 * unused. The others cast. */
enum {
  DELTA_KERNELS_BF16_TO_FP32 = DELTA_INT64 + 1,
  DELTA_KERNELS_FP16_TO_FP32,
  DELTA_KERNELS_FP32_TO_BF16,
  DELTA_KERNELS_FP32_TO_FP16,
  DELTA_NUM_KERNELS
};

/* The row from a type at the source to one at the receiver; 0: no cast leads
 * from one to the other. */
static inline uint32_t delta_kernel_row(delta_dtype_t from, delta_dtype_t to) {
  if (from == to)
    return from;
  if (to == DELTA_FP32)
    return from == DELTA_BF16   ? DELTA_KERNELS_BF16_TO_FP32
           : from == DELTA_FP16 ? DELTA_KERNELS_FP16_TO_FP32
                                : 0;
  if (from != DELTA_FP32)
    return 0;
  return to == DELTA_BF16   ? DELTA_KERNELS_FP32_TO_BF16
         : to == DELTA_FP16 ? DELTA_KERNELS_FP32_TO_FP16
                            : 0;
}

/* Device code for GPUs of compute capability major.x, x at least minor. It has
 * the kernels of DeviceKernels.def, and `delta_boxes` and `delta_images`. */
typedef struct delta_cubin {
  uint32_t major;
  uint32_t minor;
  const unsigned char *image;
  uint64_t size;
} delta_cubin_t;

typedef struct delta_kernels {
  uint32_t size;        /* sizeof(delta_kernels_t) */
  uint32_t abi_version; /* DELTA_ABI_VERSION */
  delta_host_kernels_t host[DELTA_NUM_KERNELS];
  uint32_t num_cubins; /* 0: a plan for the host */
  uint32_t reserved;
  const delta_cubin_t *cubins;
} delta_kernels_t;

/* Both are defined by the emitted text of a plan. */
extern const delta_tables_t delta_plan_tables;
extern const delta_kernels_t delta_plan_kernels;

#ifdef __cplusplus
}
#endif

#endif /* DELTA_CODEGEN_DEVICE_KERNELS_H */

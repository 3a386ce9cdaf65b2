/*===- delta_abi.h - The contract of a compiled plan --------------*- C -*-===*
 *
 * Part of the delta project, under the Apache License v2.0 with LLVM
 * Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A plan is one shared object for one model and one pair of geometries. It
 * exports `delta_plan_query` and nothing else. The constant table that it
 * returns holds the index maps as data and the functions that run them.
 *
 * Words. *Source*: a trainer rank's parameter shard. *Destination*: where its
 * elements go. *Class*: parameters that differ only in layer, expert and rank.
 * *Instance*: one (layer, expert) of a class. *Way*: one distinct shard of a
 * split. All offsets, extents and strides count elements, never bytes.
 *
 * Fields are only appended; anything else bumps DELTA_ABI_VERSION. Functions
 * return delta_status_t; error text goes to the caller's buffer and names
 * rank, parameter and call. Nothing here throws or allocates for the caller.
 *
 *===----------------------------------------------------------------------===*/

#ifndef DELTA_ABI_H
#define DELTA_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DELTA_ABI_VERSION 2u
/* "No such index": a class outside layers, a class that copies no other. */
#define DELTA_NONE 0xffffffffu
/* Loops of a box at most, its contiguous run included. */
#define DELTA_MAX_LOOPS 8
/* Dimensions of a parameter at most. */
#define DELTA_MAX_RANK 6
/* Elements of a tile at most: offsets in a tile are 16-bit. */
#define DELTA_MAX_TILE 65536u

typedef int32_t delta_status_t;
enum {
  DELTA_OK = 0,
  DELTA_INVALID_ARGUMENT = 1, /* a null pointer, a rank out of range */
  DELTA_BIND_MISMATCH = 2,    /* a parameter that does not fit the plan */
  DELTA_REFUSED = 3,          /* a message of another run, plan or version */
  DELTA_CORRUPT = 4,          /* a message that does not check */
  DELTA_NO_MEMORY = 5,
  DELTA_NOT_SEEDED = 6, /* a delta before the first full sync */
  DELTA_INTERNAL = 7,
  DELTA_NO_DEVICE = 8 /* no driver, or no GPU that the plan was compiled for */
};

typedef uint32_t delta_dtype_t;
enum { DELTA_BF16 = 1, DELTA_FP16 = 2, DELTA_FP32 = 3, DELTA_INT64 = 4 };

/* What happens to a value on its way, once, at the sender. Steps, in this
 * order, each where its bit is set:
 *   ADD_ONE  x + 1 in the type of the source, rounded to it;
 *   VIA(t)   rounded to the neutral layout's type t, where that is neither the
 *            first type nor the last;
 *   NEG_EXP  -exp(x) of the value widened to fp32 (an engine's form);
 *   PLUS_ONE x + 1 in the type reached so far (an engine's form);
 * and then it is converted to the type of the class. */
typedef uint32_t delta_value_op_t;
enum {
  DELTA_VALUE_ID = 0,
  DELTA_VALUE_ADD_ONE = 1,
  DELTA_VALUE_NEG_EXP = 2,
  DELTA_VALUE_PLUS_ONE = 4
};
#define DELTA_VALUE_VIA(dtype) ((delta_value_op_t)(dtype) << 8)
#define DELTA_VALUE_VIA_TYPE(op) ((delta_dtype_t)((op) >> 8 & 0xffu))

/* STAGE: all ranks of a pipeline stage, in their order. */
typedef uint32_t delta_axis_t;
enum {
  DELTA_AXIS_NONE = 0,
  DELTA_AXIS_TP = 1,
  DELTA_AXIS_ETP = 2,
  DELTA_AXIS_STAGE = 3
};

/* What a plan's kernels run on, and where its parameters lie. */
typedef uint32_t delta_target_t;
enum { DELTA_TARGET_HOST = 0, DELTA_TARGET_CUDA = 1 };

/* Where a sender of a CUDA plan keeps what the receivers hold: memory of the
 * device; pinned host memory, which the compare reads in place; ordinary host
 * memory, uploaded in chunks; or nowhere: one bit an element says what was
 * written since (sender_cast, sender_mark). A host plan has its own memory. */
typedef uint32_t delta_snapshot_t;
enum {
  DELTA_SNAPSHOT_DEVICE = 0,
  DELTA_SNAPSHOT_PINNED = 1,
  DELTA_SNAPSHOT_PAGEABLE = 2,
  DELTA_SNAPSHOT_BITMAP = 3
};

/*===--- tables ----------------------------------------------------------===*/

/* Where a layer lives on one side. Row = layer number over all layers of the
 * model; `local` restarts in every chunk; `number` is the one printed in the
 * names of the neutral layout. */
typedef struct delta_placement {
  uint32_t stage;
  uint32_t chunk;
  uint32_t local;
  uint32_t number;
} delta_placement_t;

/* Where an expert lives: its expert-parallel coordinate and local number. */
typedef struct delta_expert {
  uint32_t ep;
  uint32_t local;
} delta_expert_t;

/* Where an engine's experts live. Its ranks of expert-parallel coordinate p
 * have the slots [first[p], first[p + 1]); a slot holds one expert, an expert
 * lies in one slot or in several. An engine that moves experts (EPLB) makes
 * this table anew: it is data of its own, with a fingerprint of its own, which
 * each message carries. */
typedef struct delta_slots {
  uint32_t num_slots;    /* of all coordinates; 0: as delta_side.experts says */
  uint32_t num_tables;   /* 1: alike in all layers; else one for each layer */
  const uint32_t *first; /* ep + 1 numbers */
  const uint32_t *expert; /* num_tables x num_slots */
} delta_slots_t;

/* Layers that hold the same parameters: `count` rows of `layer_ids` from
 * `first`, ascending. */
typedef struct delta_layer_kind {
  uint32_t first;
  uint32_t count;
} delta_layer_kind_t;

/* One class of parameters (trainer or engine side) or tensors (neutral side).
 *
 * Names are templates: `{layer}` and `{expert}` stand for local numbers on a
 * trainer side and for global ones on the others; `{layer+61}` adds. The first
 * name is the usual one, further ones are alternatives of which exactly one is
 * bound.
 *
 * Experts. num_experts == 0: the class has none. expert_stride == 0: an
 * instance for each expert. expert_stride > 0: the experts of a rank are
 * stacked in one parameter, `expert_stride` elements apart; shape[0] counts
 * them. On an engine side shape[0] is that of the rank with the most slots, and
 * a rank's own is its number of slots plus `extra_slots`.
 *
 * Part of another. part_of != DELTA_NONE: the class has no parameter of its
 * own. Its values, of the shape given here, lie in one parameter of the class
 * part_of, in extra slot `part_slot` of it: behind the slots of the rank's
 * experts.
 *
 * Memory. order == 0: row-major. Else memory is row-major over the dimensions
 * order & 15, order >> 4 & 15, ... of the shape, and all offsets and strides of
 * images count in memory. */
typedef struct delta_class {
  uint32_t first_name; /* row of delta_side.names */
  uint32_t num_names;
  delta_dtype_t dtype;
  uint32_t rank;                 /* number of dimensions */
  int64_t shape[DELTA_MAX_RANK]; /* of one rank's shard; unused ones are 1 */
  uint32_t layer_kind;           /* DELTA_NONE: outside layers, then ... */
  uint32_t stage;                /* ... it lives on this stage and chunk */
  uint32_t chunk;
  uint32_t num_experts;
  int64_t expert_stride;
  delta_axis_t axis; /* the axis that shards it */
  uint32_t ways;     /* distinct shards; divides the size of the axis */
  uint32_t copy_of;  /* class of this side whose values it repeats: it is
                      * bound and received, never sent */
  uint32_t part_of;  /* DELTA_NONE: a parameter of its own */
  uint32_t part_slot;
  uint32_t extra_slots;
  uint32_t order;
  uint32_t reserved;
} delta_class_t;

/* One side of the plan. For the neutral (Hugging Face) layout every size is 1
 * and every instance lives on stage 0, chunk 0, under its global number.
 *
 * Ranks: rank = tp + TP*(cp + CP*(dp + DP*pp)), and for experts the same ranks
 * as etp + ETP*(ep + EP*(edp + EDP*pp)). Receivers of replica q have ranks
 * q*ranks_per_replica + rank. A shard with fewer ways than its axis has ranks
 * is held k-fold: way = coordinate / (axis size / ways). */
typedef struct delta_side {
  uint32_t tp, cp, dp, ep, etp, edp, pp, vpp;
  uint32_t replicas;          /* 1 on the source side */
  uint32_t ranks_per_replica; /* tp*cp*dp*pp */
  uint32_t num_classes;
  uint32_t num_layers;
  uint32_t num_experts;
  uint32_t num_names;
  const delta_class_t *classes;
  const delta_placement_t *layers; /* num_layers rows */
  const delta_expert_t *experts;   /* num_experts rows */
  const char *const *names;        /* num_names templates */
} delta_side_t;

/* Where the elements of a box go in one class of a side. All ways in
 * [way_begin, way_end) hold them, at the same place. All images of a box have
 * one op and one type, but for its place in the neutral layout. A box without
 * images goes nowhere: an engine does not hold its tensor.
 * `stride` follows the loops of the box. Where the class stacks its experts,
 * `offset` is inside the slice of the element's expert. */
typedef struct delta_image {
  uint32_t class_index;
  uint32_t way_begin;
  uint32_t way_end;
  delta_value_op_t value_op;
  int64_t offset;
  int64_t stride[DELTA_MAX_LOOPS];
} delta_image_t;

/* A route box: a strided box of the shards `way` of one source class, all of
 * whose elements go to the same destinations. Loops are outermost first; the
 * last one is the run: source stride 1. With run number u (over the outer
 * loops, last one fastest) and column c, tile (i, j) of a box holds runs
 * [i*tile_runs, (i+1)*tile_runs) and columns [j*tile_columns, ...), cut at the
 * ends; tiles are numbered row by row. The offset of an element in its tile is
 * (u - first run) * (columns of the tile) + (c - first column).
 *
 * Worked row. Box: source_class 3, way 0, loops {64, 2048}, tile_runs 32,
 * tile_columns 2048, 2 tiles. Instance (layer 7, no expert) on a rank whose
 * earlier rows hold 10 tiles: the row {box, layer 7} has first tile 10, tile 11
 * holds runs 32..63, and its element 5000 is run 34, column 904. */
typedef struct delta_box {
  uint32_t source_class;
  uint32_t source_way;
  uint32_t num_loops;
  uint32_t first_image; /* rows of delta_tables.images: destinations */
  uint32_t num_images;
  uint32_t hf_image; /* row of delta_tables.images: place in the neutral
                      * layout, by which elements are named and checked */
  uint32_t tile_runs;
  uint32_t tile_columns;
  int64_t num_tiles;
  int64_t source_offset;
  int64_t extent[DELTA_MAX_LOOPS];
  int64_t source_stride[DELTA_MAX_LOOPS];
} delta_box_t;

/* What an engine recomputes when a parameter of a class changed: a method of
 * the module that the parameter belongs to (its name up to the last dot). */
typedef struct delta_refresh {
  uint32_t class_index; /* of the destination */
  uint32_t reserved;
  const char *method;
} delta_refresh_t;

/* Everything a plan knows. Boxes are sorted by (source_class, source_way). */
typedef struct delta_tables {
  uint32_t size;        /* sizeof(delta_tables_t) of the compiler */
  uint32_t abi_version; /* DELTA_ABI_VERSION of the compiler */
  uint64_t fingerprint[2];
  const char *model;    /* family and geometry, for people */
  const char *compiler; /* name and version */
  delta_side_t source;
  delta_side_t destination;
  delta_side_t hf;
  uint32_t destination_is_hf; /* destination and hf are the same classes */
  uint32_t num_layer_kinds;
  uint32_t num_layer_ids;
  uint32_t num_boxes;
  uint32_t num_images;
  uint32_t reserved;
  const delta_layer_kind_t *layer_kinds;
  const uint32_t *layer_ids;
  const delta_box_t *boxes;
  const delta_image_t *images;

  /* Appended later; `size` says whether a table has it. */

  /* Tensors of the neutral layout that the trainer does not hold: a complete
   * checkpoint copies them from its base, and nothing is sent for them. No
   * classes: there is none, and the rest of the side is zero. */
  delta_side_t copied;

  /* An engine destination: its name, its version, or null. Its layers have
   * global numbers in names, and delta_placement.local is that number. */
  const char *engine;
  const char *engine_version;
  delta_slots_t slots;
  uint32_t num_refreshes;
  delta_snapshot_t snapshot;
  const delta_refresh_t *refreshes;
} delta_tables_t;

/*===--- introspection ----------------------------------------------------===*/

typedef enum delta_side_id {
  DELTA_SOURCE = 0,
  DELTA_DESTINATION = 1,
  DELTA_HF = 2,
  DELTA_COPIED = 3 /* has no ranks where no tensor is copied */
} delta_side_id_t;

/* One parameter of one rank, expanded. `names` are joined by '\n', the usual
 * one first. `layer` is the row of the layer table and `expert` the global
 * expert, DELTA_NONE where the class has none (or stacks them). */
typedef struct delta_param_info {
  char name[512];
  uint32_t chunk;
  delta_dtype_t dtype;
  uint32_t rank;
  uint32_t class_index;
  int64_t shape[DELTA_MAX_RANK];
  int64_t num_elements;
  uint32_t layer;
  uint32_t expert;
  uint32_t is_copy; /* repeats another parameter of this side */
  uint32_t reserved;
  int64_t stride[DELTA_MAX_RANK]; /* of memory, in elements */
} delta_param_info_t;

/* One tile of one source rank. `param` counts the rank's parameters as
 * param_info does. */
typedef struct delta_tile_info {
  uint32_t param;
  uint32_t box;
  uint32_t row;
  uint32_t num_destinations;
  uint32_t num_elements;
  uint32_t reserved;
} delta_tile_info_t;

/* Place of one element on a side. */
typedef struct delta_place {
  uint32_t rank;
  uint32_t param;
  int64_t element; /* in the order of memory in the rank's shard */
  delta_value_op_t value_op;
  uint32_t reserved;
} delta_place_t;

/*===--- run time ---------------------------------------------------------===*/

/* A parameter to bind. `data` is borrowed until the handle is destroyed or
 * bound again; for a CUDA plan it is memory of the device that is current where
 * the handle is created. */
typedef struct delta_param {
  const char *name; /* local name */
  uint32_t chunk;
  delta_dtype_t dtype;
  uint32_t rank;
  uint32_t reserved;
  int64_t shape[DELTA_MAX_RANK];
  int64_t stride[DELTA_MAX_RANK]; /* elements; as param_info says */
  void *data;
} delta_param_t;

typedef struct delta_index delta_index_t;
typedef struct delta_sender delta_sender_t;
typedef struct delta_receiver delta_receiver_t;
typedef struct delta_inproc delta_inproc_t;

typedef struct delta_error {
  char *text; /* caller's buffer, may be null */
  size_t size;
} delta_error_t;

/* Identity of a delta: a chain, never a guess. A full sync has base 0. */
typedef struct delta_version {
  uint64_t run;
  uint64_t base;
  uint64_t version;
} delta_version_t;

typedef struct delta_sync_stats {
  uint64_t elements; /* compared by this rank */
  uint64_t changed;
  uint64_t tiles; /* with changes, dense ones included */
  uint64_t dense_tiles;
  uint64_t message_bytes; /* summed over destinations, headers included */
  uint64_t launches;      /* kernels started, those of `send` included */
  double diff_seconds;
  double pack_seconds; /* of several rounds: without what `send` does */
} delta_sync_stats_t;

/* Blocking point-to-point messages between a source and a destination rank.
 * `send` may return before delivery, but not before it has taken the bytes.
 * `receive` lends the message until `release`. Implementations return
 * DELTA_REFUSED and a text on time-out or when closed.
 * Of a CUDA plan, the parts that are sent lie in memory of the device and are
 * complete when `send` is called; each begins at a multiple of 16 bytes. A
 * message that is received lies there too, or in host memory. */
typedef struct delta_bytes {
  const void *data;
  uint64_t size;
} delta_bytes_t;

typedef struct delta_transport {
  void *context;
  delta_status_t (*send)(void *context, uint32_t source, uint32_t destination,
                         const delta_bytes_t *parts, uint32_t num_parts,
                         delta_error_t error);
  delta_status_t (*receive)(void *context, uint32_t source,
                            uint32_t destination, delta_bytes_t *out_message,
                            delta_error_t error);
  void (*release)(void *context, uint32_t source, uint32_t destination,
                  delta_bytes_t message);
} delta_transport_t;

/* The sum of one row of a source rank that has other holders. (box, layer,
 * expert) is the same for all of them: the box of the class and way, or of the
 * class that theirs copies, and the layer of that class; DELTA_NONE where it
 * has none. */
typedef struct delta_replica_sum {
  uint32_t box;
  uint32_t layer;
  uint32_t expert;
  uint32_t param; /* of this rank, counted as param_info does */
  uint64_t sum;
} delta_replica_sum_t;

/* A method to call, as a commit asks for: on the module that the parameter
 * belongs to. */
typedef struct delta_refresh_call {
  uint32_t param;   /* of this rank, counted as param_info does */
  uint32_t refresh; /* row of delta_tables.refreshes */
} delta_refresh_call_t;

typedef struct delta_plan_api {
  uint32_t version; /* DELTA_ABI_VERSION */
  uint32_t size;    /* sizeof(delta_plan_api_t) */
  const char *name; /* = tables->model */
  uint64_t fingerprint[2];
  const delta_tables_t *tables;

  /* An index: the expanded rows of every rank of both sides, for tools. */
  delta_status_t (*index_create)(delta_index_t **out_index,
                                 delta_error_t error);
  void (*index_destroy)(delta_index_t *index);
  /* Number of ranks of a side, replicas included. */
  uint32_t (*num_ranks)(delta_side_id_t side);
  uint32_t (*param_count)(delta_index_t *index, delta_side_id_t side,
                          uint32_t rank);
  delta_status_t (*param_info)(delta_index_t *index, delta_side_id_t side,
                               uint32_t rank, uint32_t param,
                               delta_param_info_t *out_info);
  /* Tiles that this source rank compares and sends. Replicas of a shard share
   * its tiles out among them: each tile has one owner. */
  uint64_t (*tile_count)(delta_index_t *index, uint32_t source_rank);
  delta_status_t (*tile_info)(delta_index_t *index, uint32_t source_rank,
                              uint64_t tile, delta_tile_info_t *out_info);
  /* Source place, neutral place (rank 0) and the destination places of one
   * element. `capacity` places at most are written; *out_count is the whole
   * number. */
  delta_status_t (*tile_element)(delta_index_t *index, uint32_t source_rank,
                                 uint64_t tile, uint32_t offset,
                                 delta_place_t *out_source,
                                 delta_place_t *out_hf,
                                 delta_place_t *out_destinations,
                                 uint32_t capacity, uint32_t *out_count);

  /* Sender: one trainer rank. `num_threads` threads share its tiles. */
  delta_status_t (*sender_create)(uint32_t rank, const delta_param_t *params,
                                  uint32_t num_params, uint64_t run,
                                  uint32_t num_threads,
                                  delta_sender_t **out_sender,
                                  delta_error_t error);
  void (*sender_destroy)(delta_sender_t *sender);
  /* Packs every element (a full sync). The snapshot is taken when it is
   * acknowledged, so that an aborted full sync leaves the old one. `version`
   * may be the current one: the replay sweep sends it again and aborts. */
  delta_status_t (*sender_seed)(delta_sender_t *sender, uint64_t version,
                                delta_sync_stats_t *out_stats,
                                delta_error_t error);
  /* Compares and packs what changed since the snapshot. The snapshot stays. */
  delta_status_t (*sender_diff)(delta_sender_t *sender, uint64_t version,
                                delta_sync_stats_t *out_stats,
                                delta_error_t error);
  /* Sends the packed message of every destination rank, an empty one too. What
   * has several rounds is compared again and packed here, round by round: the
   * parameters must not change from sender_diff or sender_seed until this
   * returns. A change in the number of elements is refused, others are not
   * seen; the receivers then hold what was read here, and so does the
   * snapshot. */
  delta_status_t (*sender_send)(delta_sender_t *sender,
                                const delta_transport_t *transport,
                                delta_error_t error);
  /* All receivers committed `version`: the snapshot advances to it. */
  delta_status_t (*sender_acknowledge)(delta_sender_t *sender, uint64_t version,
                                       delta_error_t error);
  /* The sync failed: the packed delta is dropped, the snapshot stays. Tiles
   * whose rounds were sent are sent whole by the next sync. */
  void (*sender_abort)(delta_sender_t *sender);

  /* Receiver: one destination rank. */
  delta_status_t (*receiver_create)(uint32_t rank, const delta_param_t *params,
                                    uint32_t num_params, uint64_t run,
                                    uint32_t num_threads,
                                    delta_receiver_t **out_receiver,
                                    delta_error_t error);
  void (*receiver_destroy)(delta_receiver_t *receiver);
  /* Takes one message, checks all of it, writes nothing. The rounds of a source
   * come in order and once each. */
  delta_status_t (*receiver_stage)(delta_receiver_t *receiver,
                                   delta_bytes_t message, delta_error_t error);
  /* Receives and stages all rounds of every source that sends here. When one
   * does not fit, the others are still taken from the transport, and nothing
   * stays staged. */
  delta_status_t (*receiver_receive)(delta_receiver_t *receiver,
                                     const delta_transport_t *transport,
                                     delta_error_t error);
  /* Writes the staged delta. Refused unless all rounds of every source are
   * there; after that it cannot fail. */
  delta_status_t (*receiver_commit)(delta_receiver_t *receiver,
                                    delta_error_t error);
  void (*receiver_discard)(delta_receiver_t *receiver);
  /* Version of the weights that the receiver holds, 0 before the seed. */
  uint64_t (*receiver_version)(const delta_receiver_t *receiver);
  /* Compares the staged messages with memory instead of writing them, and
   * drops them; counts elements that differ and describes the first. For the
   * replay sweep. */
  delta_status_t (*receiver_compare)(delta_receiver_t *receiver,
                                     uint64_t *out_mismatches,
                                     delta_error_t first);

  /* Fingerprints: for each row (box, instance) that source rank `source_rank`
   * sends to receiver rank `destination_rank`, the sum over its elements of
   * bits x a(row) x b(column) mod 2^64, row and column in the neutral tensor,
   * keyed by `key` and the tensor's name. Both sides give the same list when
   * they hold the same values. Call with out == null for the count. */
  delta_status_t (*sender_fingerprints)(delta_sender_t *sender,
                                        uint32_t destination_rank, uint64_t key,
                                        uint64_t *out, uint64_t capacity,
                                        uint64_t *out_count,
                                        delta_error_t error);
  delta_status_t (*receiver_fingerprints)(delta_receiver_t *receiver,
                                          uint32_t source_rank, uint64_t key,
                                          uint64_t *out, uint64_t capacity,
                                          uint64_t *out_count,
                                          delta_error_t error);

  /* In-process ranks: mailboxes between all ranks of both sides. */
  delta_status_t (*inproc_create)(delta_inproc_t **out_inproc,
                                  delta_error_t error);
  void (*inproc_destroy)(delta_inproc_t *inproc);
  delta_transport_t (*inproc_transport)(delta_inproc_t *inproc);

  /* Appended later; `size` says whether a table has them. */

  /* Memory of a sync. With a capacity, two buffers for `elements` changed
   * elements are allocated here and none later; a sync that changes more runs
   * in rounds of tile ranges (runtime/Wire.h), exactly, and whatever the number
   * of threads, with the same bytes. A tile is sent in one piece, so less than
   * the largest tile is refused with DELTA_INVALID_ARGUMENT and the number
   * required. 0, as created: one round, and buffers that grow to the largest
   * sync, which for a full sync are given back after it. A sender of a CUDA
   * plan always has a capacity: as created, and for 0, 1/16 of its elements,
   * the largest tile at least. Not while something is packed. */
  delta_status_t (*sender_set_capacity)(delta_sender_t *sender,
                                        uint64_t elements, delta_error_t error);
  /* Rounds of what is packed, 0 when nothing is. Each destination rank gets one
   * message in each. */
  uint32_t (*sender_rounds)(const delta_sender_t *sender);
  /* Binds the same parameters at other addresses, after the checks of a bind;
   * on failure the old ones stay. Snapshot and version are kept: the next delta
   * holds what differs from them in the new memory. A receiver's caller has
   * moved the values; where it has not, a full sync is needed. */
  delta_status_t (*sender_rebind)(delta_sender_t *sender,
                                  const delta_param_t *params,
                                  uint32_t num_params, delta_error_t error);
  delta_status_t (*receiver_rebind)(delta_receiver_t *receiver,
                                    const delta_param_t *params,
                                    uint32_t num_params, delta_error_t error);
  /* Are these, in the same order, the addresses that are bound? One comparison
   * a parameter; DELTA_BIND_MISMATCH names the first that moved. */
  delta_status_t (*sender_check_bound)(const delta_sender_t *sender,
                                       const delta_param_t *params,
                                       uint32_t num_params,
                                       delta_error_t error);
  delta_status_t (*receiver_check_bound)(const delta_receiver_t *receiver,
                                         const delta_param_t *params,
                                         uint32_t num_params,
                                         delta_error_t error);
  /* Replicas. Each tile has one owner among the ranks that hold it; what the
   * others hold is sent by nobody, and must be the same. For each row that
   * another source rank, or another parameter of this one, holds too: the sum
   * of bits x a(row) x b(column) mod 2^64 over all of its tiles, owned or not,
   * as for fingerprints but without value ops. Rows are in ascending order of
   * (box, layer, expert, param). Ranks that hold the same values give the same
   * sum for the same `key`; unequal ones are an error of the trainer, and no
   * copy is right (runtime/Replicas.h compares and names them). Reads the
   * parameters as they are now. Call with out == null for the count. */
  delta_status_t (*sender_replica_sums)(delta_sender_t *sender, uint64_t key,
                                        delta_replica_sum_t *out,
                                        uint64_t capacity, uint64_t *out_count,
                                        delta_error_t error);
  /* The engine's experts are elsewhere from now on. `experts` is the map as the
   * engine holds it: num_tables rows, one or one for each layer, of num_slots
   * logical experts, as many as delta_tables.slots has. A map of another size,
   * or one that misses an expert, is refused and the old one stays. Each rank
   * of both sides is told, while nothing is packed or staged; messages of
   * another placement are refused. The parameters stay those that are bound;
   * an engine that re-allocates them binds again. After the first full sync,
   * what moved has to be sent before the next delta: by sender_begin_moved on
   * all senders, or by a full sync. Until then the senders refuse to compare,
   * and receivers that miss something refuse deltas. */
  delta_status_t (*sender_set_placement)(delta_sender_t *sender,
                                         const uint32_t *experts,
                                         uint32_t num_tables,
                                         uint32_t num_slots,
                                         delta_error_t error);
  delta_status_t (*receiver_set_placement)(delta_receiver_t *receiver,
                                           const uint32_t *experts,
                                           uint32_t num_tables,
                                           uint32_t num_slots,
                                           delta_error_t error);
  /* Packs the experts that newly lie in a slot, whole and with the values of
   * the snapshot: the version that the receivers hold elsewhere. Then
   * sender_send, receiver_receive and receiver_commit, which leave the version
   * as it is, and sender_acknowledge of that version. Every receiver gets a
   * message, an empty one too. */
  delta_status_t (*sender_begin_moved)(delta_sender_t *sender,
                                       delta_sync_stats_t *out_stats,
                                       delta_error_t error);
  /* Before a staged full sync is committed: compares a few elements of each
   * parameter, ends and seeded ones, with memory, where the engine has loaded
   * the same weights. A parameter of which more than `share` of them differ is
   * refused by name with DELTA_BIND_MISMATCH: its layout is not the plan's.
   * What is staged stays. */
  delta_status_t (*receiver_check_layout)(delta_receiver_t *receiver,
                                          double share, delta_error_t error);
  /* What the last commit asks for: delta_tables.refreshes whose class it wrote
   * to, with the parameters, by refresh and parameter. Call with out == null
   * for the count. */
  delta_status_t (*receiver_refreshes)(const delta_receiver_t *receiver,
                                       delta_refresh_call_t *out,
                                       uint64_t capacity, uint64_t *out_count,
                                       delta_error_t error);

  /* DELTA_OK where the plan can run: always for the host. For CUDA, where there
   * are a driver and a current device that the plan has code for; else
   * DELTA_NO_DEVICE and one sentence. *out_target is set in any case. */
  delta_status_t (*check_device)(delta_target_t *out_target,
                                 delta_error_t error);
  /* The stream (cudaStream_t, CUstream) that work of the handle's calls is
   * enqueued on from now on; null, as created: the default stream. Borrowed.
   * Calls wait for it only where they give something to the host. A host plan
   * takes null alone. */
  delta_status_t (*sender_set_stream)(delta_sender_t *sender, void *stream,
                                      delta_error_t error);
  delta_status_t (*receiver_set_stream)(delta_receiver_t *receiver,
                                        void *stream, delta_error_t error);
  /* The two halves of sender_diff. `compare` enqueues the compare and the
   * packing and waits for nothing; a caller may capture it in a graph and
   * launch that instead. The parameters may change when the stream has passed
   * it. `pack` waits for the last compare, reads its counts and makes the
   * messages; where the changes exceed the capacity, it compares again, as
   * sender_diff does. On the host the first half compares at once. */
  delta_status_t (*sender_compare)(delta_sender_t *sender, delta_error_t error);
  delta_status_t (*sender_pack)(delta_sender_t *sender, uint64_t version,
                                delta_sync_stats_t *out_stats,
                                delta_error_t error);
  /* For a plan with DELTA_SNAPSHOT_BITMAP. `cast` is the optimizer's copy of
   * its fp32 values to elements [first, first + count) of a parameter, rounded
   * to nearest even: it writes those whose bits change, and marks them. `mark`
   * marks a whole parameter that someone else has written. A change that is
   * neither cast nor marked is not sent. Parameters are counted as param_info
   * does. Enqueued on the sender's stream.
   *
   * A tile is sent by its owner (tile_info), which needs the mark: where
   * replicas share a parameter out, each of them casts or marks what it owns
   * tiles of, or the replicas share their marks (sender_marks).
   *
   * A compare, or a full sync, takes over what is marked; what is cast or
   * marked after that is of the next sync. An acknowledgement forgets what was
   * taken over. What is not acknowledged is marked again; of tiles that were
   * sent whole, in several rounds or by a full sync, the whole tile. A full
   * sync to the current version takes nothing over.
   *
   * Parameters of other types than bf16 and fp16 are not cast; they count as
   * marked always. sender_rebind marks all. Experts cannot be sent as the
   * receivers hold them: sender_begin_moved is refused, a full sync is
   * required. */
  delta_status_t (*sender_cast)(delta_sender_t *sender, uint32_t param,
                                const float *values, int64_t first,
                                int64_t count, delta_error_t error);
  delta_status_t (*sender_mark)(delta_sender_t *sender, uint32_t param,
                                delta_error_t error);
  /* CUDA graphs. sender_pack and sender_acknowledge in two halves each: what
   * the host does, and what it enqueues for the device.
   *
   *   sender_diff        = sender_compare, sender_pack
   *   sender_pack        = sender_read, sender_seal
   *   sender_acknowledge = sender_confirm, sender_advance
   *
   * `compare`, `seal` and `advance` only enqueue. Their arguments are the same
   * at every sync; what changes is read from memory that `read` and `confirm`
   * have written. Each may be called while the sender's stream is captured,
   * after the first full sync, and its graph be launched instead of the call,
   * any number of times, in order on the sender's stream:
   *
   *   graph of compare   before `read`, which waits for it
   *   graph of seal      after `read`, before `send`
   *   graph of advance   after `confirm`, before the next graph of compare; in
   *                      one graph with it, too
   *
   * Graphs stay right over all syncs, full ones too, and over sender_rebind.
   * They have to be captured again after sender_set_capacity,
   * sender_set_placement and sender_begin_moved, which take other memory, and
   * must not be launched after sender_destroy.
   * sender_set_stream to a stream that is captured does not wait for the one
   * before; afterwards it is called with the stream of the launches.
   *
   * What is no part of a graph:
   * - a sync of more than one round (sender_rounds): `send` compares, seals and
   *   advances, and graphs of seal and advance that are launched do nothing;
   * - a full sync is compared and sealed by sender_seed; its advance may be one
   *   of a graph;
   * - `confirm` advances a pageable snapshot at once, on the host; with a
   *   bitmap, and after a failed sync of several rounds, it clears by a fill
   *   which tiles are sent whole. For a pageable snapshot and a bitmap
   *   `advance` enqueues nothing;
   * - the compare of a pageable snapshot copies from ordinary memory, which
   *   drivers may refuse to capture.
   *
   * Without its confirm an advance does nothing, so a graph that has one may be
   * launched after a sync that was aborted. `send` is refused where nothing was
   * sealed, `read` where what was confirmed was not advanced, until a full
   * sync. Where a graph of compare is launched while something is packed, what
   * was packed is gone: `send`, `acknowledge` and `confirm` are refused once
   * that compare is done, and sender_abort is required. On the host `seal` and
   * `confirm` do all at once, and `advance` nothing.
   *
   * With a bitmap a graph of compare first marks again what was packed and is
   * not confirmed, and takes the marks of what it packs: so no mark is lost
   * where it is launched twice, too early, or after an abort. */
  delta_status_t (*sender_read)(delta_sender_t *sender, uint64_t version,
                                delta_sync_stats_t *out_stats,
                                delta_error_t error);
  delta_status_t (*sender_seal)(delta_sender_t *sender, delta_error_t error);
  delta_status_t (*sender_confirm)(delta_sender_t *sender, uint64_t version,
                                   delta_error_t error);
  delta_status_t (*sender_advance)(delta_sender_t *sender, delta_error_t error);
  /* Where a distributed optimizer casts a part of each parameter on each
   * replica: the marks of the rank, those of parameters with experts where
   * `of_experts` is 1, else those of all others. Memory of the device, owned by
   * the sender and the same as long as that lives; replicas of these parameters
   * have the same bits at the same places. *out_bytes may be 0. The caller
   * combines them over the replicas with a bitwise OR, in place, on the
   * sender's stream (NCCL has no such sum; a maximum of bytes loses marks), and
   * calls `drop_marks` after it: this clears what other replicas send. Enqueued
   * as well. What is cast later is handed over by the next exchange. */
  delta_status_t (*sender_marks)(delta_sender_t *sender, uint32_t of_experts,
                                 void **out_marks, uint64_t *out_bytes,
                                 delta_error_t error);
  delta_status_t (*sender_drop_marks)(delta_sender_t *sender,
                                      delta_error_t error);
} delta_plan_api_t;

/* The newest table with version <= max_version, or null. */
const delta_plan_api_t *delta_plan_query(uint32_t max_version);

#ifdef __cplusplus
}
#endif

#endif /* DELTA_ABI_H */

# ===- _abi.py - runtime/delta_abi.h for ctypes ---------------------------=== #
#
# Part of the delta project, under the Apache License v2.0 with LLVM
# Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===----------------------------------------------------------------------=== #
"""The contract of a compiled plan: the same names in the same order.

What a field means is said in the header. A test compares every size and offset
with the header, and every prototype with its text.
"""

import ctypes as c
import enum

ABI_VERSION = 2
NONE = 0xFFFFFFFF
MAX_LOOPS = 8
MAX_RANK = 6
MAX_TILE = 65536


class Status(enum.IntEnum):
    OK = 0
    INVALID_ARGUMENT = 1
    BIND_MISMATCH = 2
    REFUSED = 3
    CORRUPT = 4
    NO_MEMORY = 5
    NOT_SEEDED = 6
    INTERNAL = 7
    NO_DEVICE = 8


class Dtype(enum.IntEnum):
    BF16 = 1
    FP16 = 2
    FP32 = 3
    INT64 = 4


class ValueOp(enum.IntFlag):
    ID = 0
    ADD_ONE = 1
    NEG_EXP = 2
    PLUS_ONE = 4


class Axis(enum.IntEnum):
    NONE = 0
    TP = 1
    ETP = 2
    STAGE = 3


class Target(enum.IntEnum):
    HOST = 0
    CUDA = 1


class Snapshot(enum.IntEnum):
    DEVICE = 0
    PINNED = 1
    PAGEABLE = 2
    BITMAP = 3


class Side(enum.IntEnum):
    SOURCE = 0
    DESTINATION = 1
    HF = 2
    COPIED = 3


# --- tables ------------------------------------------------------------------


class delta_placement_t(c.Structure):
    _fields_ = [
        ("stage", c.c_uint32),
        ("chunk", c.c_uint32),
        ("local", c.c_uint32),
        ("number", c.c_uint32),
    ]


class delta_expert_t(c.Structure):
    _fields_ = [("ep", c.c_uint32), ("local", c.c_uint32)]


class delta_slots_t(c.Structure):
    _fields_ = [
        ("num_slots", c.c_uint32),
        ("num_tables", c.c_uint32),
        ("first", c.POINTER(c.c_uint32)),
        ("expert", c.POINTER(c.c_uint32)),
    ]


class delta_layer_kind_t(c.Structure):
    _fields_ = [("first", c.c_uint32), ("count", c.c_uint32)]


class delta_class_t(c.Structure):
    _fields_ = [
        ("first_name", c.c_uint32),
        ("num_names", c.c_uint32),
        ("dtype", c.c_uint32),
        ("rank", c.c_uint32),
        ("shape", c.c_int64 * MAX_RANK),
        ("layer_kind", c.c_uint32),
        ("stage", c.c_uint32),
        ("chunk", c.c_uint32),
        ("num_experts", c.c_uint32),
        ("expert_stride", c.c_int64),
        ("axis", c.c_uint32),
        ("ways", c.c_uint32),
        ("copy_of", c.c_uint32),
        ("part_of", c.c_uint32),
        ("part_slot", c.c_uint32),
        ("extra_slots", c.c_uint32),
        ("order", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class delta_side_t(c.Structure):
    _fields_ = [
        ("tp", c.c_uint32),
        ("cp", c.c_uint32),
        ("dp", c.c_uint32),
        ("ep", c.c_uint32),
        ("etp", c.c_uint32),
        ("edp", c.c_uint32),
        ("pp", c.c_uint32),
        ("vpp", c.c_uint32),
        ("replicas", c.c_uint32),
        ("ranks_per_replica", c.c_uint32),
        ("num_classes", c.c_uint32),
        ("num_layers", c.c_uint32),
        ("num_experts", c.c_uint32),
        ("num_names", c.c_uint32),
        ("classes", c.POINTER(delta_class_t)),
        ("layers", c.POINTER(delta_placement_t)),
        ("experts", c.POINTER(delta_expert_t)),
        ("names", c.POINTER(c.c_char_p)),
    ]


class delta_image_t(c.Structure):
    _fields_ = [
        ("class_index", c.c_uint32),
        ("way_begin", c.c_uint32),
        ("way_end", c.c_uint32),
        ("value_op", c.c_uint32),
        ("offset", c.c_int64),
        ("stride", c.c_int64 * MAX_LOOPS),
    ]


class delta_box_t(c.Structure):
    _fields_ = [
        ("source_class", c.c_uint32),
        ("source_way", c.c_uint32),
        ("num_loops", c.c_uint32),
        ("first_image", c.c_uint32),
        ("num_images", c.c_uint32),
        ("hf_image", c.c_uint32),
        ("tile_runs", c.c_uint32),
        ("tile_columns", c.c_uint32),
        ("num_tiles", c.c_int64),
        ("source_offset", c.c_int64),
        ("extent", c.c_int64 * MAX_LOOPS),
        ("source_stride", c.c_int64 * MAX_LOOPS),
    ]


class delta_refresh_t(c.Structure):
    _fields_ = [
        ("class_index", c.c_uint32),
        ("reserved", c.c_uint32),
        ("method", c.c_char_p),
    ]


class delta_tables_t(c.Structure):
    _fields_ = [
        ("size", c.c_uint32),
        ("abi_version", c.c_uint32),
        ("fingerprint", c.c_uint64 * 2),
        ("model", c.c_char_p),
        ("compiler", c.c_char_p),
        ("source", delta_side_t),
        ("destination", delta_side_t),
        ("hf", delta_side_t),
        ("destination_is_hf", c.c_uint32),
        ("num_layer_kinds", c.c_uint32),
        ("num_layer_ids", c.c_uint32),
        ("num_boxes", c.c_uint32),
        ("num_images", c.c_uint32),
        ("reserved", c.c_uint32),
        ("layer_kinds", c.POINTER(delta_layer_kind_t)),
        ("layer_ids", c.POINTER(c.c_uint32)),
        ("boxes", c.POINTER(delta_box_t)),
        ("images", c.POINTER(delta_image_t)),
        ("copied", delta_side_t),
        ("engine", c.c_char_p),
        ("engine_version", c.c_char_p),
        ("slots", delta_slots_t),
        ("num_refreshes", c.c_uint32),
        ("snapshot", c.c_uint32),
        ("refreshes", c.POINTER(delta_refresh_t)),
    ]


# --- introspection -----------------------------------------------------------


class delta_param_info_t(c.Structure):
    _fields_ = [
        ("name", c.c_char * 512),
        ("chunk", c.c_uint32),
        ("dtype", c.c_uint32),
        ("rank", c.c_uint32),
        ("class_index", c.c_uint32),
        ("shape", c.c_int64 * MAX_RANK),
        ("num_elements", c.c_int64),
        ("layer", c.c_uint32),
        ("expert", c.c_uint32),
        ("is_copy", c.c_uint32),
        ("reserved", c.c_uint32),
        ("stride", c.c_int64 * MAX_RANK),
    ]


class delta_tile_info_t(c.Structure):
    _fields_ = [
        ("param", c.c_uint32),
        ("box", c.c_uint32),
        ("row", c.c_uint32),
        ("num_destinations", c.c_uint32),
        ("num_elements", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


class delta_place_t(c.Structure):
    _fields_ = [
        ("rank", c.c_uint32),
        ("param", c.c_uint32),
        ("element", c.c_int64),
        ("value_op", c.c_uint32),
        ("reserved", c.c_uint32),
    ]


# --- run time ----------------------------------------------------------------


class delta_param_t(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("chunk", c.c_uint32),
        ("dtype", c.c_uint32),
        ("rank", c.c_uint32),
        ("reserved", c.c_uint32),
        ("shape", c.c_int64 * MAX_RANK),
        ("stride", c.c_int64 * MAX_RANK),
        ("data", c.c_void_p),
    ]


class delta_error_t(c.Structure):
    _fields_ = [("text", c.c_void_p), ("size", c.c_size_t)]


class delta_version_t(c.Structure):
    _fields_ = [
        ("run", c.c_uint64),
        ("base", c.c_uint64),
        ("version", c.c_uint64),
    ]


class delta_sync_stats_t(c.Structure):
    _fields_ = [
        ("elements", c.c_uint64),
        ("changed", c.c_uint64),
        ("tiles", c.c_uint64),
        ("dense_tiles", c.c_uint64),
        ("message_bytes", c.c_uint64),
        ("launches", c.c_uint64),
        ("diff_seconds", c.c_double),
        ("pack_seconds", c.c_double),
    ]


class delta_replica_sum_t(c.Structure):
    _fields_ = [
        ("box", c.c_uint32),
        ("layer", c.c_uint32),
        ("expert", c.c_uint32),
        ("param", c.c_uint32),
        ("sum", c.c_uint64),
    ]


class delta_refresh_call_t(c.Structure):
    _fields_ = [("param", c.c_uint32), ("refresh", c.c_uint32)]


class delta_bytes_t(c.Structure):
    _fields_ = [("data", c.c_void_p), ("size", c.c_uint64)]


# Short words for the table below.
_status = c.c_int32
_u32 = c.c_uint32
_u64 = c.c_uint64
_side = c.c_uint  # an enum of C
_handle = c.c_void_p  # delta_index_t *, delta_sender_t *, ...
_handles = c.POINTER(c.c_void_p)
_void = c.c_void_p
_error = delta_error_t
_bytes = delta_bytes_t
_params = c.POINTER(delta_param_t)
_info = c.POINTER(delta_param_info_t)
_tile = c.POINTER(delta_tile_info_t)
_place = c.POINTER(delta_place_t)
_stats = c.POINTER(delta_sync_stats_t)
_p_bytes = c.POINTER(delta_bytes_t)
_p_u32 = c.POINTER(c.c_uint32)
_p_u64 = c.POINTER(c.c_uint64)

# Name, result and argument types, prototype.
TRANSPORT = (
    ("send", _status, (_void, _u32, _u32, _p_bytes, _u32, _error),
     "delta_status_t (*send)(void *context, uint32_t source, "
     "uint32_t destination, const delta_bytes_t *parts, uint32_t num_parts, "
     "delta_error_t error)"),
    ("receive", _status, (_void, _u32, _u32, _p_bytes, _error),
     "delta_status_t (*receive)(void *context, uint32_t source, "
     "uint32_t destination, delta_bytes_t *out_message, delta_error_t error)"),
    ("release", None, (_void, _u32, _u32, _bytes),
     "void (*release)(void *context, uint32_t source, uint32_t destination, "
     "delta_bytes_t message)"),
)  # fmt: skip


class delta_transport_t(c.Structure):
    _fields_ = [
        ("context", c.c_void_p),
        *(
            (name, c.CFUNCTYPE(result, *arguments))
            for name, result, arguments, _ in TRANSPORT
        ),
    ]


_transport = c.POINTER(delta_transport_t)

FUNCTIONS = (
    ("index_create", _status, (_handles, _error),
     "delta_status_t (*index_create)(delta_index_t **out_index, "
     "delta_error_t error)"),
    ("index_destroy", None, (_handle,),
     "void (*index_destroy)(delta_index_t *index)"),
    ("num_ranks", _u32, (_side,),
     "uint32_t (*num_ranks)(delta_side_id_t side)"),
    ("param_count", _u32, (_handle, _side, _u32),
     "uint32_t (*param_count)(delta_index_t *index, delta_side_id_t side, "
     "uint32_t rank)"),
    ("param_info", _status, (_handle, _side, _u32, _u32, _info),
     "delta_status_t (*param_info)(delta_index_t *index, "
     "delta_side_id_t side, uint32_t rank, uint32_t param, "
     "delta_param_info_t *out_info)"),
    ("tile_count", _u64, (_handle, _u32),
     "uint64_t (*tile_count)(delta_index_t *index, uint32_t source_rank)"),
    ("tile_info", _status, (_handle, _u32, _u64, _tile),
     "delta_status_t (*tile_info)(delta_index_t *index, uint32_t source_rank, "
     "uint64_t tile, delta_tile_info_t *out_info)"),
    ("tile_element", _status,
     (_handle, _u32, _u64, _u32, _place, _place, _place, _u32, _p_u32),
     "delta_status_t (*tile_element)(delta_index_t *index, "
     "uint32_t source_rank, uint64_t tile, uint32_t offset, "
     "delta_place_t *out_source, delta_place_t *out_hf, "
     "delta_place_t *out_destinations, uint32_t capacity, "
     "uint32_t *out_count)"),
    ("sender_create", _status,
     (_u32, _params, _u32, _u64, _u32, _handles, _error),
     "delta_status_t (*sender_create)(uint32_t rank, "
     "const delta_param_t *params, uint32_t num_params, uint64_t run, "
     "uint32_t num_threads, delta_sender_t **out_sender, "
     "delta_error_t error)"),
    ("sender_destroy", None, (_handle,),
     "void (*sender_destroy)(delta_sender_t *sender)"),
    ("sender_seed", _status, (_handle, _u64, _stats, _error),
     "delta_status_t (*sender_seed)(delta_sender_t *sender, "
     "uint64_t version, delta_sync_stats_t *out_stats, delta_error_t error)"),
    ("sender_diff", _status, (_handle, _u64, _stats, _error),
     "delta_status_t (*sender_diff)(delta_sender_t *sender, "
     "uint64_t version, delta_sync_stats_t *out_stats, delta_error_t error)"),
    ("sender_send", _status, (_handle, _transport, _error),
     "delta_status_t (*sender_send)(delta_sender_t *sender, "
     "const delta_transport_t *transport, delta_error_t error)"),
    ("sender_acknowledge", _status, (_handle, _u64, _error),
     "delta_status_t (*sender_acknowledge)(delta_sender_t *sender, "
     "uint64_t version, delta_error_t error)"),
    ("sender_abort", None, (_handle,),
     "void (*sender_abort)(delta_sender_t *sender)"),
    ("receiver_create", _status,
     (_u32, _params, _u32, _u64, _u32, _handles, _error),
     "delta_status_t (*receiver_create)(uint32_t rank, "
     "const delta_param_t *params, uint32_t num_params, uint64_t run, "
     "uint32_t num_threads, delta_receiver_t **out_receiver, "
     "delta_error_t error)"),
    ("receiver_destroy", None, (_handle,),
     "void (*receiver_destroy)(delta_receiver_t *receiver)"),
    ("receiver_stage", _status, (_handle, _bytes, _error),
     "delta_status_t (*receiver_stage)(delta_receiver_t *receiver, "
     "delta_bytes_t message, delta_error_t error)"),
    ("receiver_receive", _status, (_handle, _transport, _error),
     "delta_status_t (*receiver_receive)(delta_receiver_t *receiver, "
     "const delta_transport_t *transport, delta_error_t error)"),
    ("receiver_commit", _status, (_handle, _error),
     "delta_status_t (*receiver_commit)(delta_receiver_t *receiver, "
     "delta_error_t error)"),
    ("receiver_discard", None, (_handle,),
     "void (*receiver_discard)(delta_receiver_t *receiver)"),
    ("receiver_version", _u64, (_handle,),
     "uint64_t (*receiver_version)(const delta_receiver_t *receiver)"),
    ("receiver_compare", _status, (_handle, _p_u64, _error),
     "delta_status_t (*receiver_compare)(delta_receiver_t *receiver, "
     "uint64_t *out_mismatches, delta_error_t first)"),
    ("sender_fingerprints", _status,
     (_handle, _u32, _u64, _p_u64, _u64, _p_u64, _error),
     "delta_status_t (*sender_fingerprints)(delta_sender_t *sender, "
     "uint32_t destination_rank, uint64_t key, uint64_t *out, "
     "uint64_t capacity, uint64_t *out_count, delta_error_t error)"),
    ("receiver_fingerprints", _status,
     (_handle, _u32, _u64, _p_u64, _u64, _p_u64, _error),
     "delta_status_t (*receiver_fingerprints)(delta_receiver_t *receiver, "
     "uint32_t source_rank, uint64_t key, uint64_t *out, uint64_t capacity, "
     "uint64_t *out_count, delta_error_t error)"),
    ("inproc_create", _status, (_handles, _error),
     "delta_status_t (*inproc_create)(delta_inproc_t **out_inproc, "
     "delta_error_t error)"),
    ("inproc_destroy", None, (_handle,),
     "void (*inproc_destroy)(delta_inproc_t *inproc)"),
    ("inproc_transport", delta_transport_t, (_handle,),
     "delta_transport_t (*inproc_transport)(delta_inproc_t *inproc)"),
    ("sender_set_capacity", _status, (_handle, _u64, _error),
     "delta_status_t (*sender_set_capacity)(delta_sender_t *sender, "
     "uint64_t elements, delta_error_t error)"),
    ("sender_rounds", _u32, (_handle,),
     "uint32_t (*sender_rounds)(const delta_sender_t *sender)"),
    ("sender_rebind", _status, (_handle, _params, _u32, _error),
     "delta_status_t (*sender_rebind)(delta_sender_t *sender, "
     "const delta_param_t *params, uint32_t num_params, "
     "delta_error_t error)"),
    ("receiver_rebind", _status, (_handle, _params, _u32, _error),
     "delta_status_t (*receiver_rebind)(delta_receiver_t *receiver, "
     "const delta_param_t *params, uint32_t num_params, "
     "delta_error_t error)"),
    ("sender_check_bound", _status, (_handle, _params, _u32, _error),
     "delta_status_t (*sender_check_bound)(const delta_sender_t *sender, "
     "const delta_param_t *params, uint32_t num_params, "
     "delta_error_t error)"),
    ("receiver_check_bound", _status, (_handle, _params, _u32, _error),
     "delta_status_t (*receiver_check_bound)(const delta_receiver_t "
     "*receiver, const delta_param_t *params, uint32_t num_params, "
     "delta_error_t error)"),
    ("sender_replica_sums", _status,
     (_handle, _u64, c.POINTER(delta_replica_sum_t), _u64,
      c.POINTER(c.c_uint64), _error),
     "delta_status_t (*sender_replica_sums)(delta_sender_t *sender, "
     "uint64_t key, delta_replica_sum_t *out, uint64_t capacity, "
     "uint64_t *out_count, delta_error_t error)"),
    ("sender_set_placement", _status, (_handle, _p_u32, _u32, _u32, _error),
     "delta_status_t (*sender_set_placement)(delta_sender_t *sender, "
     "const uint32_t *experts, uint32_t num_tables, uint32_t num_slots, "
     "delta_error_t error)"),
    ("receiver_set_placement", _status, (_handle, _p_u32, _u32, _u32, _error),
     "delta_status_t (*receiver_set_placement)(delta_receiver_t *receiver, "
     "const uint32_t *experts, uint32_t num_tables, uint32_t num_slots, "
     "delta_error_t error)"),
    ("sender_begin_moved", _status, (_handle, _stats, _error),
     "delta_status_t (*sender_begin_moved)(delta_sender_t *sender, "
     "delta_sync_stats_t *out_stats, delta_error_t error)"),
    ("receiver_check_layout", _status, (_handle, c.c_double, _error),
     "delta_status_t (*receiver_check_layout)(delta_receiver_t *receiver, "
     "double share, delta_error_t error)"),
    ("receiver_refreshes", _status,
     (_handle, c.POINTER(delta_refresh_call_t), _u64, _p_u64, _error),
     "delta_status_t (*receiver_refreshes)(const delta_receiver_t *receiver, "
     "delta_refresh_call_t *out, uint64_t capacity, uint64_t *out_count, "
     "delta_error_t error)"),
    ("check_device", _status, (c.POINTER(c.c_uint32), _error),
     "delta_status_t (*check_device)(delta_target_t *out_target, "
     "delta_error_t error)"),
    ("sender_set_stream", _status, (_handle, c.c_void_p, _error),
     "delta_status_t (*sender_set_stream)(delta_sender_t *sender, "
     "void *stream, delta_error_t error)"),
    ("receiver_set_stream", _status, (_handle, c.c_void_p, _error),
     "delta_status_t (*receiver_set_stream)(delta_receiver_t *receiver, "
     "void *stream, delta_error_t error)"),
    ("sender_compare", _status, (_handle, _error),
     "delta_status_t (*sender_compare)(delta_sender_t *sender, "
     "delta_error_t error)"),
    ("sender_pack", _status, (_handle, _u64, _stats, _error),
     "delta_status_t (*sender_pack)(delta_sender_t *sender, "
     "uint64_t version, delta_sync_stats_t *out_stats, "
     "delta_error_t error)"),
    ("sender_cast", _status,
     (_handle, _u32, c.POINTER(c.c_float), c.c_int64, c.c_int64, _error),
     "delta_status_t (*sender_cast)(delta_sender_t *sender, uint32_t param, "
     "const float *values, int64_t first, int64_t count, "
     "delta_error_t error)"),
    ("sender_mark", _status, (_handle, _u32, _error),
     "delta_status_t (*sender_mark)(delta_sender_t *sender, "
     "uint32_t param, delta_error_t error)"),
    ("sender_read", _status, (_handle, _u64, _stats, _error),
     "delta_status_t (*sender_read)(delta_sender_t *sender, "
     "uint64_t version, delta_sync_stats_t *out_stats, "
     "delta_error_t error)"),
    ("sender_seal", _status, (_handle, _error),
     "delta_status_t (*sender_seal)(delta_sender_t *sender, "
     "delta_error_t error)"),
    ("sender_confirm", _status, (_handle, _u64, _error),
     "delta_status_t (*sender_confirm)(delta_sender_t *sender, "
     "uint64_t version, delta_error_t error)"),
    ("sender_advance", _status, (_handle, _error),
     "delta_status_t (*sender_advance)(delta_sender_t *sender, "
     "delta_error_t error)"),
    ("sender_marks", _status,
     (_handle, _u32, c.POINTER(c.c_void_p), _p_u64, _error),
     "delta_status_t (*sender_marks)(delta_sender_t *sender, "
     "uint32_t of_experts, void **out_marks, uint64_t *out_bytes, "
     "delta_error_t error)"),
    ("sender_drop_marks", _status, (_handle, _error),
     "delta_status_t (*sender_drop_marks)(delta_sender_t *sender, "
     "delta_error_t error)"),
)  # fmt: skip


class delta_plan_api_t(c.Structure):
    _fields_ = [
        ("version", c.c_uint32),
        ("size", c.c_uint32),
        ("name", c.c_char_p),
        ("fingerprint", c.c_uint64 * 2),
        ("tables", c.POINTER(delta_tables_t)),
        *(
            (name, c.CFUNCTYPE(result, *arguments))
            for name, result, arguments, _ in FUNCTIONS
        ),
    ]


# The one symbol of a plan.
QUERY = (
    "delta_plan_query",
    c.POINTER(delta_plan_api_t),
    (c.c_uint32,),
    "const delta_plan_api_t *delta_plan_query(uint32_t max_version)",
)


def has_field(api: delta_plan_api_t, name: str) -> bool:
    """Whether the table of a plan is long enough to hold the field."""
    field = getattr(delta_plan_api_t, name)
    return field.offset + field.size <= api.size

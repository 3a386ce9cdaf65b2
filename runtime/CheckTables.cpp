//===- CheckTables.cpp - Does a plan fit this run time? -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/device/IndexFunctions.h"
#include "codegen/device/Kernels.h"
#include "runtime/Expand.h"

#include <algorithm>

using namespace delta::runtime;
namespace device = delta::device;

#define REQUIRE(condition, ...)                                                \
  if (!(condition))                                                            \
  return Status::error(DELTA_INTERNAL, "plan tables: " __VA_ARGS__)

/// Elements of a parameter at most. Bytes, and sums over its tiles, fit 64 bits
/// with room to spare.
static constexpr int64_t MaxElements = int64_t(1) << 44;
/// Ranks of a side at most, replicas included.
static constexpr uint64_t MaxRanks = uint64_t(1) << 24;
/// Tiles of a rank at most.
static constexpr int64_t MaxTiles = int64_t(1) << 60;

/// Product of sizes that are not negative; -1 beyond `limit`.
static int64_t product(const int64_t *sizes, uint32_t count, int64_t limit) {
  int64_t total = 1;
  for (uint32_t i = 0; i < count; ++i)
    if (sizes[i] < 0 || __builtin_mul_overflow(total, sizes[i], &total) ||
        total > limit)
      return -1;
  return total;
}

/// True for the side that may have what an engine has: slots, parts of other
/// classes, an order of memory.
static bool isEngine(const delta_tables_t &tables, const delta_side_t &side) {
  return tables.engine && &side == &tables.destination;
}

/// A rank has as many slices as slots, and `extra_slots` behind them.
static Status checkStack(const delta_tables_t &tables, const delta_side_t &side,
                         uint32_t index) {
  const delta_class_t &type = side.classes[index];
  uint32_t most = 0;
  for (uint32_t ep = 0; ep < side.ep; ++ep)
    most = std::max(most, tables.slots.first[ep + 1] - tables.slots.first[ep]);
  REQUIRE(type.rank > 0 &&
              uint64_t(type.shape[0]) == uint64_t(most) + type.extra_slots,
          "class %u: shape %s, required are %u slots and %u extra ones", index,
          shapeText(type.shape, type.rank).c_str(), most, type.extra_slots);
  REQUIRE(type.expert_stride > 0 &&
              numElements(type) / type.expert_stride == type.shape[0] &&
              numElements(type) % type.expert_stride == 0,
          "class %u: experts are %lld elements apart", index,
          static_cast<long long>(type.expert_stride));
  REQUIRE(dimensionAt(type, 0) == 0,
          "class %u: slots do not follow each other in memory", index);
  REQUIRE(type.layer_kind != DELTA_NONE || tables.slots.num_tables == 1,
          "class %u: no layer says where its experts are", index);
  return {};
}

static Status checkExperts(const delta_tables_t &tables,
                           const delta_side_t &side, uint32_t index) {
  const delta_class_t &type = side.classes[index];
  const bool slots = &side == &tables.destination && tables.slots.num_slots;
  REQUIRE(type.num_experts <= side.num_experts, "class %u: %u experts of %u",
          index, type.num_experts, side.num_experts);
  REQUIRE(type.expert_stride >= 0 && type.expert_stride <= MaxElements &&
              (type.expert_stride == 0 || type.num_experts != 0),
          "class %u: experts are %lld elements apart", index,
          static_cast<long long>(type.expert_stride));
  REQUIRE(!slots || type.num_experts == 0 || type.expert_stride,
          "class %u: experts that lie in no slots", index);
  REQUIRE(type.extra_slots == 0 || (slots && type.expert_stride),
          "class %u: %u extra slots", index, type.extra_slots);
  if (type.expert_stride == 0)
    return {};
  if (slots)
    return checkStack(tables, side, index);
  int64_t slices = numElements(type) / type.expert_stride;
  for (uint32_t i = 0; i < type.num_experts; ++i)
    REQUIRE(side.experts[i].local < slices,
            "class %u: expert %u is slice %u of %lld", index, i,
            side.experts[i].local, static_cast<long long>(slices));
  return {};
}

/// Memory is ordered by a permutation of the dimensions.
static Status checkOrder(const delta_tables_t &tables, const delta_side_t &side,
                         uint32_t index) {
  const delta_class_t &type = side.classes[index];
  if (type.order == 0)
    return {};
  uint32_t seen = 0;
  for (uint32_t i = 0; i < type.rank; ++i)
    seen |= 1u << (type.order >> 4 * i & 15);
  REQUIRE(isEngine(tables, side) && seen == (1u << type.rank) - 1 &&
              type.order >> 4 * type.rank == 0,
          "class %u: memory in order 0x%x of %u dimensions", index, type.order,
          type.rank);
  return {};
}

/// Every layer of `inner` is one of `outer`, or both are outside layers on the
/// same stage.
static bool hasLayersOf(const delta_tables_t &tables,
                        const delta_class_t &outer,
                        const delta_class_t &inner) {
  if (outer.layer_kind == DELTA_NONE || inner.layer_kind == DELTA_NONE)
    return outer.layer_kind == inner.layer_kind && outer.stage == inner.stage;
  if (outer.layer_kind >= tables.num_layer_kinds)
    return false;
  auto layers = [&](const delta_class_t &type) {
    const delta_layer_kind_t &kind = tables.layer_kinds[type.layer_kind];
    const uint32_t *begin = tables.layer_ids + kind.first;
    return std::make_pair(begin, begin + kind.count);
  };
  auto [outerBegin, outerEnd] = layers(outer);
  auto [begin, end] = layers(inner);
  return std::includes(outerBegin, outerEnd, begin, end);
}

/// A part fits into an extra slot of a stacked class.
static Status checkPart(const delta_tables_t &tables, const delta_side_t &side,
                        uint32_t index) {
  const delta_class_t &type = side.classes[index];
  if (type.part_of == DELTA_NONE)
    return {};
  REQUIRE(isEngine(tables, side) && type.part_of < side.num_classes,
          "class %u: part of class %u", index, type.part_of);
  const delta_class_t &whole = side.classes[type.part_of];
  REQUIRE(whole.part_of == DELTA_NONE && whole.copy_of == DELTA_NONE &&
              type.copy_of == DELTA_NONE && whole.expert_stride > 0 &&
              type.num_experts == 0 && whole.dtype == type.dtype &&
              numElements(type) <= whole.expert_stride &&
              hasLayersOf(tables, whole, type),
          "class %u: does not fit into class %u, of which it is part", index,
          type.part_of);
  REQUIRE(type.part_slot < whole.extra_slots,
          "class %u: extra slot %u of %u of class %u", index, type.part_slot,
          whole.extra_slots, type.part_of);
  return {};
}

/// A copy has the elements of its class at the same places: the boxes of the
/// class are those of the copy too.
static Status checkCopy(const delta_side_t &side, uint32_t index) {
  const delta_class_t &type = side.classes[index];
  if (type.copy_of == DELTA_NONE)
    return {};
  REQUIRE(type.copy_of < side.num_classes, "class %u: copy of class %u", index,
          type.copy_of);
  const delta_class_t &owner = side.classes[type.copy_of];
  REQUIRE(owner.copy_of == DELTA_NONE && owner.dtype == type.dtype &&
              owner.axis == type.axis && owner.ways == type.ways &&
              owner.num_experts == type.num_experts &&
              owner.expert_stride == type.expert_stride &&
              (owner.layer_kind == DELTA_NONE ||
               owner.layer_kind == type.layer_kind) &&
              owner.rank <= DELTA_MAX_RANK &&
              product(owner.shape, owner.rank, MaxElements) ==
                  numElements(type),
          "class %u: unlike class %u, which it copies", index, type.copy_of);
  return {};
}

static Status checkClass(const delta_tables_t &tables, const delta_side_t &side,
                         uint32_t index) {
  const delta_class_t &type = side.classes[index];
  REQUIRE(elementSize(type.dtype) != 0, "class %u: dtype %u", index,
          type.dtype);
  REQUIRE(type.rank <= DELTA_MAX_RANK, "class %u: rank %u", index, type.rank);
  REQUIRE(product(type.shape, type.rank, MaxElements) >= 0,
          "class %u: shape %s, at most %lld elements are allowed", index,
          shapeText(type.shape, type.rank).c_str(),
          static_cast<long long>(MaxElements));
  REQUIRE(type.num_names > 0 && type.first_name < side.num_names &&
              type.num_names <= side.num_names - type.first_name,
          "class %u: names", index);
  REQUIRE(type.layer_kind == DELTA_NONE ||
              type.layer_kind < tables.num_layer_kinds,
          "class %u: layer kind %u", index, type.layer_kind);
  REQUIRE(type.layer_kind != DELTA_NONE || type.stage < side.pp,
          "class %u: stage %u of %u", index, type.stage, side.pp);
  if (Status status = checkExperts(tables, side, index); status.failed())
    return status;
  if (Status status = checkOrder(tables, side, index); status.failed())
    return status;
  REQUIRE(type.axis <= DELTA_AXIS_STAGE, "class %u: axis %u", index, type.axis);
  uint32_t axisSize = type.axis == DELTA_AXIS_TP    ? side.tp
                      : type.axis == DELTA_AXIS_ETP ? side.etp
                      : type.axis == DELTA_AXIS_STAGE
                          ? side.tp * side.cp * side.dp
                          : 1;
  REQUIRE(type.ways > 0 && axisSize % type.ways == 0,
          "class %u: %u ways of %u ranks", index, type.ways, axisSize);
  return checkCopy(side, index);
}

static Status checkSide(const delta_tables_t &tables, const delta_side_t &side,
                        const char *name) {
  REQUIRE(side.tp && side.cp && side.dp && side.ep && side.etp && side.edp &&
              side.pp,
          "%s: a size is 0", name);
  const int64_t dense[] = {side.tp, side.cp, side.dp, side.pp};
  const int64_t sparse[] = {side.etp, side.ep, side.edp, side.pp};
  int64_t numRanks = product(dense, 4, MaxRanks);
  REQUIRE(numRanks > 0, "%s: more than %llu ranks", name,
          static_cast<unsigned long long>(MaxRanks));
  REQUIRE(numRanks == product(sparse, 4, MaxRanks),
          "%s: tp*cp*dp is not etp*ep*edp", name);
  REQUIRE(side.ranks_per_replica == numRanks, "%s: %u ranks a replica", name,
          side.ranks_per_replica);
  REQUIRE((side.classes || !side.num_classes) &&
              (side.layers || !side.num_layers) &&
              (side.experts || !side.num_experts) &&
              (side.names || !side.num_names),
          "%s: a table is null", name);
  for (uint32_t i = 0; i < side.num_names; ++i)
    REQUIRE(side.names[i], "%s: name %u is null", name, i);
  for (uint32_t i = 0; i < side.num_layers; ++i)
    REQUIRE(side.layers[i].stage < side.pp, "%s: layer %u on stage %u", name, i,
            side.layers[i].stage);
  for (uint32_t i = 0; i < side.num_experts; ++i)
    REQUIRE(side.experts[i].ep < side.ep, "%s: expert %u on ep %u", name, i,
            side.experts[i].ep);
  for (uint32_t i = 0; i < tables.num_layer_ids; ++i)
    REQUIRE(tables.layer_ids[i] < side.num_layers, "%s: layer %u of %u", name,
            tables.layer_ids[i], side.num_layers);
  for (uint32_t i = 0; i < side.num_classes; ++i)
    if (Status status = checkClass(tables, side, i); status.failed())
      return status;
  for (uint32_t i = 0; i < side.num_classes; ++i)
    if (Status status = checkPart(tables, side, i); status.failed())
      return status;
  return {};
}

static bool hasNegative(const int64_t *strides, uint32_t count) {
  return std::any_of(strides, strides + count,
                     [](int64_t stride) { return stride < 0; });
}

/// True if all elements of a box lie in a parameter of the class, or in the
/// slice of an expert. Extents are positive and strides are not negative.
static bool staysInside(const delta_box_t &box, int64_t offset,
                        const int64_t *strides, const delta_class_t &type) {
  int64_t limit = type.expert_stride ? type.expert_stride : numElements(type);
  int64_t last = offset;
  for (uint32_t loop = 0; loop < box.num_loops; ++loop) {
    int64_t reach;
    if (__builtin_mul_overflow(box.extent[loop] - 1, strides[loop], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  return offset >= 0 && last < limit;
}

/// Two trainers hold the same form; the neutral layout may have another type
/// and values that are shifted by one, and an engine a form of its own.
static Status checkForm(const delta_tables_t &tables, uint32_t index,
                        const delta_class_t &from, const delta_side_t &side,
                        const delta_class_t &to, delta_value_op_t op) {
  const bool engine = isEngine(tables, side);
  REQUIRE(engine || &side == &tables.hf
              ? delta_kernel_row(from.dtype, to.dtype) != 0
              : to.dtype == from.dtype,
          "box %u: an image has another dtype", index);
  const delta_dtype_t via = DELTA_VALUE_VIA_TYPE(op);
  const delta_value_op_t forms =
      DELTA_VALUE_ADD_ONE | DELTA_VALUE_NEG_EXP | DELTA_VALUE_PLUS_ONE;
  REQUIRE((op & ~(forms | DELTA_VALUE_VIA(0xffu))) == 0 &&
              (engine || op <= DELTA_VALUE_ADD_ONE) && via <= DELTA_FP32 &&
              (from.dtype != DELTA_INT64 || op == DELTA_VALUE_ID),
          "box %u: value op %u", index, op);
  return {};
}

static Status checkImage(const delta_tables_t &tables, const delta_box_t &box,
                         uint32_t index, const delta_class_t &from,
                         const delta_side_t &side, const delta_image_t &image,
                         delta_value_op_t required) {
  REQUIRE(image.class_index < side.num_classes, "box %u: image of class %u",
          index, image.class_index);
  const delta_class_t &to = side.classes[image.class_index];
  if (Status status = checkForm(tables, index, from, side, to, image.value_op);
      status.failed())
    return status;
  // The sender applies the op once, so all destinations must want the same.
  REQUIRE(image.value_op == required, "box %u: images differ in value op",
          index);
  REQUIRE(image.way_begin < image.way_end && image.way_end <= to.ways,
          "box %u: ways [%u, %u) of %u", index, image.way_begin, image.way_end,
          to.ways);
  REQUIRE(to.num_experts == 0 || from.num_experts != 0,
          "box %u: image with experts of a class without", index);
  REQUIRE(to.num_experts == 0 || from.num_experts <= to.num_experts,
          "box %u: image has %u experts of %u", index, to.num_experts,
          from.num_experts);
  // An image that could fall outside its parameter would write anywhere.
  REQUIRE(!hasNegative(image.stride, box.num_loops), "box %u: negative stride",
          index);
  REQUIRE(staysInside(box, image.offset, image.stride, to),
          "box %u: image leaves class %u", index, image.class_index);
  return {};
}

/// Every instance of a box has a place in the neutral layout.
static Status checkNeutralLayers(const delta_tables_t &tables, uint32_t index) {
  const delta_box_t &box = tables.boxes[index];
  const delta_class_t &from = tables.source.classes[box.source_class];
  uint32_t hfClass = tables.images[box.hf_image].class_index;
  const delta_class_t &to = tables.hf.classes[hfClass];
  if (to.layer_kind == DELTA_NONE || to.layer_kind == from.layer_kind)
    return {};
  REQUIRE(from.layer_kind != DELTA_NONE, "box %u: has no layer", index);
  Side hf(tables, DELTA_HF);
  const delta_layer_kind_t &kind = tables.layer_kinds[from.layer_kind];
  for (uint32_t i = kind.first; i < kind.first + kind.count; ++i)
    REQUIRE(hf.stageOf(to, tables.layer_ids[i]) != DELTA_NONE,
            "box %u: layer %u has no neutral place", index,
            tables.layer_ids[i]);
  return {};
}

static Status checkBox(const delta_tables_t &tables, uint32_t index) {
  const delta_box_t &box = tables.boxes[index];
  REQUIRE(box.source_class < tables.source.num_classes, "box %u: class %u",
          index, box.source_class);
  const delta_class_t &from = tables.source.classes[box.source_class];
  REQUIRE(box.source_way < from.ways, "box %u: way %u of %u", index,
          box.source_way, from.ways);
  REQUIRE(box.num_loops > 0 && box.num_loops <= DELTA_MAX_LOOPS,
          "box %u: %u loops", index, box.num_loops);
  for (uint32_t loop = 0; loop < box.num_loops; ++loop)
    REQUIRE(box.extent[loop] > 0, "box %u: empty loop", index);
  REQUIRE(!hasNegative(box.source_stride, box.num_loops),
          "box %u: negative stride", index);
  REQUIRE(staysInside(box, box.source_offset, box.source_stride, from),
          "box %u: leaves its class", index);
  REQUIRE(product(box.extent, box.num_loops, MaxElements) > 0,
          "box %u: more than %lld elements", index,
          static_cast<long long>(MaxElements));
  REQUIRE(box.source_stride[box.num_loops - 1] == 1,
          "box %u: run is not contiguous", index);
  REQUIRE(box.tile_runs > 0 && box.tile_columns > 0 &&
              uint64_t(box.tile_runs) * box.tile_columns <= DELTA_MAX_TILE,
          "box %u: tile of %u x %u", index, box.tile_runs, box.tile_columns);
  int64_t bands = (device::numRuns(box) + box.tile_runs - 1) / box.tile_runs;
  int64_t across =
      (device::numColumns(box) + box.tile_columns - 1) / box.tile_columns;
  REQUIRE(box.num_tiles == bands * across, "box %u: %lld tiles", index,
          static_cast<long long>(box.num_tiles));
  REQUIRE(box.first_image <= tables.num_images &&
              box.num_images <= tables.num_images - box.first_image &&
              (box.num_images > 0 || tables.engine) &&
              box.hf_image < tables.num_images,
          "box %u: images", index);
  const delta_side_t &side =
      tables.destination_is_hf ? tables.hf : tables.destination;
  const delta_image_t *images = tables.images + box.first_image;
  for (uint32_t i = 0; i < box.num_images; ++i)
    if (Status status = checkImage(tables, box, index, from, side, images[i],
                                   images[0].value_op);
        status.failed())
      return status;
  for (uint32_t i = 1; i < box.num_images; ++i)
    REQUIRE(side.classes[images[i].class_index].dtype ==
                side.classes[images[0].class_index].dtype,
            "box %u: images differ in dtype", index);
  const delta_image_t &hf = tables.images[box.hf_image];
  Status status =
      checkImage(tables, box, index, from, tables.hf, hf, hf.value_op);
  return status.failed() ? status : checkNeutralLayers(tables, index);
}

static Status checkLayerKinds(const delta_tables_t &tables) {
  REQUIRE((tables.layer_kinds || !tables.num_layer_kinds) &&
              (tables.layer_ids || !tables.num_layer_ids) &&
              (tables.boxes || !tables.num_boxes) &&
              (tables.images || !tables.num_images),
          "a table is null");
  for (uint32_t i = 0; i < tables.num_layer_kinds; ++i) {
    const delta_layer_kind_t &kind = tables.layer_kinds[i];
    REQUIRE(kind.first <= tables.num_layer_ids &&
                kind.count <= tables.num_layer_ids - kind.first,
            "layer kind %u: layers", i);
    for (uint32_t j = 1; j < kind.count; ++j)
      REQUIRE(tables.layer_ids[kind.first + j - 1] <
                  tables.layer_ids[kind.first + j],
              "layer kind %u: layers do not ascend", i);
  }
  return {};
}

/// An engine, its slots, and what it recomputes.
static Status checkEngine(const delta_tables_t &tables) {
  if (!tables.engine) {
    REQUIRE(!tables.engine_version && !tables.slots.num_slots &&
                !tables.num_refreshes,
            "an engine without a name");
    return {};
  }
  REQUIRE(!tables.destination_is_hf, "%s: the destination is neutral",
          tables.engine);
  REQUIRE(tables.refreshes || !tables.num_refreshes, "%s: a table is null",
          tables.engine);
  for (uint32_t i = 0; i < tables.num_refreshes; ++i)
    REQUIRE(tables.refreshes[i].class_index < tables.destination.num_classes &&
                tables.refreshes[i].method,
            "refresh %u: class %u", i, tables.refreshes[i].class_index);
  if (!tables.slots.num_slots)
    return {};
  REQUIRE(tables.destination.ep && tables.destination.ep <= MaxRanks,
          "destination: ep %u", tables.destination.ep);
  if (Status status = checkSlots(tables, tables.slots); status.failed())
    return Status::error(DELTA_INTERNAL, "plan tables: slots: %s",
                         status.getText().c_str());
  return {};
}

/// Tiles of all instances of a box, -1 beyond the limit.
static int64_t instanceTiles(const delta_tables_t &tables,
                             const delta_box_t &box) {
  const delta_class_t &type = tables.source.classes[box.source_class];
  int64_t sizes[] = {box.num_tiles,
                     type.layer_kind == DELTA_NONE
                         ? 1
                         : tables.layer_kinds[type.layer_kind].count,
                     std::max(type.num_experts, 1u)};
  return product(sizes, 3, MaxTiles);
}

Status delta::runtime::checkTables(const delta_tables_t &tables) {
  REQUIRE(tables.size == sizeof(delta_tables_t), "size %u, this is %zu",
          tables.size, sizeof(delta_tables_t));
  REQUIRE(tables.abi_version == DELTA_ABI_VERSION, "ABI version %u, this is %u",
          tables.abi_version, DELTA_ABI_VERSION);
  Status status = checkLayerKinds(tables);
  if (!status.failed())
    status = checkEngine(tables);
  if (!status.failed())
    status = checkSide(tables, tables.source, "source");
  if (!status.failed())
    status = checkSide(tables, tables.hf, "neutral side");
  if (!status.failed() && !tables.destination_is_hf)
    status = checkSide(tables, tables.destination, "destination");
  if (!status.failed() && tables.copied.num_classes)
    status = checkSide(tables, tables.copied, "copied tensors");
  if (status.failed())
    return status;
  REQUIRE(tables.hf.ranks_per_replica == 1, "neutral side: %u ranks",
          tables.hf.ranks_per_replica);
  uint64_t perReplica =
      tables.destination_is_hf ? 1 : tables.destination.ranks_per_replica;
  REQUIRE(tables.destination.replicas * perReplica <= MaxRanks,
          "destination: more than %llu ranks",
          static_cast<unsigned long long>(MaxRanks));
  int64_t numTiles = 0;
  for (uint32_t i = 0; i < tables.num_boxes; ++i) {
    const delta_box_t *box = tables.boxes + i;
    auto key = [](const delta_box_t &b) {
      return uint64_t(b.source_class) << 32 | b.source_way;
    };
    REQUIRE(i == 0 || key(box[-1]) <= key(*box), "box %u: out of order", i);
    status = checkBox(tables, i);
    if (status.failed())
      return status;
    int64_t more = instanceTiles(tables, *box);
    REQUIRE(more >= 0 && more <= MaxTiles - numTiles, "more than %lld tiles",
            static_cast<long long>(MaxTiles));
    numTiles += more;
  }
  return {};
}

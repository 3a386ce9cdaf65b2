//===- EmitTables.cpp - Tables as C++ constants ---------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Prints the rows of Tables.h, one a line, each under the name or the formula
/// that it stands for. Fields follow the order of delta_abi.h; the heading of
/// a table names them.
///
//===----------------------------------------------------------------------===//

#include "codegen/EmitParts.h"

#include <cassert>
#include <cstdio>
#include <iterator>
#include <map>

using namespace delta;

static std::string number(int64_t value) { return std::to_string(value); }

/// A row number, or the word for "no such row".
static std::string rowNumber(uint32_t value) {
  return value == DELTA_NONE ? "none" : number(value);
}

namespace {
/// An element type or axis under the short name that the file gives it.
struct ShortName {
  const char *name;
  const char *constant;
};
} // namespace

static constexpr ShortName dtypeNames[] = {{"", ""},
                                           {"bf16", "DELTA_BF16"},
                                           {"fp16", "DELTA_FP16"},
                                           {"fp32", "DELTA_FP32"},
                                           {"int64", "DELTA_INT64"}};
static constexpr ShortName axisNames[] = {{"whole", "DELTA_AXIS_NONE"},
                                          {"tp", "DELTA_AXIS_TP"},
                                          {"etp", "DELTA_AXIS_ETP"},
                                          {"stage", "DELTA_AXIS_STAGE"}};

static const char *dtypeName(delta_dtype_t dtype) {
  assert(dtype >= DELTA_BF16 && dtype <= DELTA_INT64 && "type not in the ABI");
  return dtypeNames[dtype].name;
}

static const char *axisName(delta_axis_t axis) {
  assert(axis <= DELTA_AXIS_STAGE && "axis not in the ABI");
  return axisNames[axis].name;
}

/// The steps of an op, in their order.
static std::string valueOpName(delta_value_op_t op) {
  std::string text;
  auto add = [&](const std::string &step) {
    text += (text.empty() ? "" : " | ") + step;
  };
  if (op & DELTA_VALUE_ADD_ONE)
    add("DELTA_VALUE_ADD_ONE");
  if (delta_dtype_t via = DELTA_VALUE_VIA_TYPE(op)) {
    assert(via <= DELTA_INT64 && "type not in the ABI");
    add(std::string("DELTA_VALUE_VIA(") + dtypeNames[via].constant + ")");
  }
  if (op & DELTA_VALUE_NEG_EXP)
    add("DELTA_VALUE_NEG_EXP");
  if (op & DELTA_VALUE_PLUS_ONE)
    add("DELTA_VALUE_PLUS_ONE");
  return text.empty() ? "DELTA_VALUE_ID" : text;
}

/// Opens `constexpr T name[] = {`.
static void openTable(SourceText &out, const std::string &qualifiers,
                      const std::string &type, const std::string &name) {
  out.line(qualifiers + " " + type + " " + name + "[] = {");
}

static void closeTable(SourceText &out) {
  out.line("};");
  out.line();
}

//===--- boxes ------------------------------------------------------------===//

static std::vector<std::string> imageRow(const delta_image_t &image) {
  return {number(image.class_index),
          number(image.way_begin),
          number(image.way_end),
          valueOpName(image.value_op),
          number(image.offset),
          bracedWithoutTail(image.stride, DELTA_MAX_LOOPS)};
}

static void emitImages(SourceText &out, const delta_tables_t &tables,
                       const std::string &qualifiers,
                       const std::string &prefix) {
  // An image is introduced by the first box that uses it.
  std::vector<std::string> firstUse(tables.num_images);
  auto introduce = [&](uint32_t row, const delta_side_t &side, uint32_t box) {
    const delta_class_t &cls = side.classes[tables.images[row].class_index];
    if (firstUse[row].empty())
      firstUse[row] = number(row) + ": box " + number(box) + " in " +
                      side.names[cls.first_name];
  };
  for (uint32_t i = 0; i < tables.num_boxes; ++i) {
    const delta_box_t &box = tables.boxes[i];
    for (uint32_t k = 0; k < box.num_images; ++k)
      introduce(box.first_image + k, tables.destination, i);
    introduce(box.hf_image, tables.hf, i);
  }
  out.comment("Where the elements of a box go: class, ways from and to, value "
              "op, offset, strides of the loops of the box.");
  openTable(out, qualifiers, "delta_image_t", prefix + "images");
  for (uint32_t i = 0; i < tables.num_images; ++i) {
    out.comment(firstUse[i], 4);
    out.row(imageRow(tables.images[i]));
  }
  closeTable(out);
}

static std::vector<std::string> boxRow(const delta_box_t &box) {
  return {number(box.source_class),
          number(box.source_way),
          number(box.num_loops),
          number(box.first_image),
          number(box.num_images),
          number(box.hf_image),
          number(box.tile_runs),
          number(box.tile_columns),
          number(box.num_tiles),
          number(box.source_offset),
          bracedWithoutTail(box.extent, DELTA_MAX_LOOPS),
          bracedWithoutTail(box.source_stride, DELTA_MAX_LOOPS)};
}

void delta::emitBoxTables(SourceText &out, const LoweredPlan &plan,
                          const delta_tables_t &tables,
                          const std::string &qualifiers,
                          const std::string &prefix) {
  if (tables.num_images)
    emitImages(out, tables, qualifiers, prefix);
  if (!tables.num_boxes)
    return;
  out.comment("The map: source class, way, loops, first image, images, neutral "
              "image, runs and columns of a tile, tiles, source offset, "
              "extents, source strides.");
  openTable(out, qualifiers, "delta_box_t", prefix + "boxes");
  for (uint32_t i = 0; i < tables.num_boxes; ++i) {
    out.comment(number(i) + ": " + plan.boxes[i].formula, 4);
    out.row(boxRow(tables.boxes[i]));
  }
  closeTable(out);
}

//===--- sides ------------------------------------------------------------===//

static void emitNames(SourceText &out, const delta_side_t &side,
                      const std::string &name) {
  openTable(out, "constexpr", "const char *const", name);
  for (uint32_t i = 0; i < side.num_names; ++i)
    out.line("    " + stringLiteral(side.names[i]) + ",");
  closeTable(out);
}

/// Whether the class has what only an engine's have.
static bool isOfEngine(const delta_class_t &cls) {
  return cls.part_slot || cls.extra_slots || cls.order;
}

/// One digit a dimension, the outermost last: 0x102. 0 is row-major.
static std::string orderText(uint32_t order) {
  if (order == 0)
    return "0";
  char digits[16];
  std::snprintf(digits, sizeof(digits), "0x%x", order);
  return digits;
}

/// Without the reserved field, which is zero, and those before it where all are
/// zero.
static std::vector<std::string> classRow(const delta_class_t &cls) {
  std::vector<std::string> shape;
  for (int64_t extent : cls.shape)
    shape.push_back(number(extent));
  std::vector<std::string> row = {
      number(cls.first_name),  number(cls.num_names),
      dtypeName(cls.dtype),    number(cls.rank),
      braced(shape),           rowNumber(cls.layer_kind),
      rowNumber(cls.stage),    rowNumber(cls.chunk),
      number(cls.num_experts), number(cls.expert_stride),
      axisName(cls.axis),      number(cls.ways),
      rowNumber(cls.copy_of),  rowNumber(cls.part_of)};
  if (isOfEngine(cls))
    row.insert(row.end(), {number(cls.part_slot), number(cls.extra_slots),
                           orderText(cls.order)});
  return row;
}

static void emitClasses(SourceText &out, const delta_side_t &side,
                        const std::string &name) {
  bool engine = false;
  for (uint32_t i = 0; i < side.num_classes; ++i)
    engine |= isOfEngine(side.classes[i]);
  out.comment(std::string("First name, names, type, dimensions, shape of a "
                          "shard, layer kind, stage, chunk, experts, expert "
                          "stride, axis, ways, copy of, part of") +
              (engine ? "; where there are some, the extra slot that a part "
                        "has, extra slots, order of memory."
                      : "."));
  openTable(out, "constexpr", "delta_class_t", name);
  for (uint32_t i = 0; i < side.num_classes; ++i) {
    const delta_class_t &cls = side.classes[i];
    out.comment(number(i) + ": " + side.names[cls.first_name], 4);
    out.row(classRow(cls));
  }
  closeTable(out);
}

static void emitLayers(SourceText &out, const delta_side_t &side,
                       const std::string &name) {
  std::vector<std::string> rows;
  for (uint32_t i = 0; i < side.num_layers; ++i) {
    const delta_placement_t &row = side.layers[i];
    rows.push_back(braced({number(row.stage), number(row.chunk),
                           number(row.local), number(row.number)}));
  }
  out.comment("Each layer: stage, chunk, local number, printed number.");
  openTable(out, "constexpr", "delta_placement_t", name);
  out.fill(rows);
  closeTable(out);
}

static void emitExperts(SourceText &out, const delta_side_t &side,
                        const std::string &name) {
  std::vector<std::string> rows;
  for (uint32_t i = 0; i < side.num_experts; ++i)
    rows.push_back(
        braced({number(side.experts[i].ep), number(side.experts[i].local)}));
  out.comment("Each expert: expert-parallel coordinate, local number.");
  openTable(out, "constexpr", "delta_expert_t", name);
  out.fill(rows);
  closeTable(out);
}

namespace {
/// Prints the sides one after the other; a table that is already there is
/// named again, not printed again.
class SideEmitter {
public:
  explicit SideEmitter(SourceText &out) : out(out) {}

  void emit(const delta_side_t &side, const std::string &name) {
    std::string names = nameOf(side.names, name + "Names", side, emitNames);
    std::string classes =
        nameOf(side.classes, name + "Classes", side, emitClasses);
    std::string layers = nameOf(side.layers, name + "Layers", side, emitLayers);
    std::string experts =
        nameOf(side.experts, name + "Experts", side, emitExperts);
    out.line("constexpr delta_side_t " + name + " = {");
    out.fill({"/*tp=*/" + number(side.tp), "/*cp=*/" + number(side.cp),
              "/*dp=*/" + number(side.dp), "/*ep=*/" + number(side.ep),
              "/*etp=*/" + number(side.etp), "/*edp=*/" + number(side.edp),
              "/*pp=*/" + number(side.pp), "/*vpp=*/" + number(side.vpp),
              "/*replicas=*/" + number(side.replicas),
              "/*ranks_per_replica=*/" + number(side.ranks_per_replica),
              "/*num_classes=*/" + number(side.num_classes),
              "/*num_layers=*/" + number(side.num_layers),
              "/*num_experts=*/" + number(side.num_experts),
              "/*num_names=*/" + number(side.num_names), classes, layers,
              experts, names});
    closeTable(out);
  }

private:
  template <typename Emit>
  std::string nameOf(const void *table, const std::string &name,
                     const delta_side_t &side, Emit emitTable) {
    if (!table)
      return "nullptr";
    auto [it, isNew] = printed.try_emplace(table, name);
    if (isNew)
      emitTable(out, side, name);
    return it->second;
  }

  SourceText &out;
  std::map<const void *, std::string> printed;
};
} // namespace

static void emitLayerKinds(SourceText &out, const delta_tables_t &tables) {
  if (tables.num_layer_ids) {
    std::vector<std::string> ids;
    for (uint32_t i = 0; i < tables.num_layer_ids; ++i)
      ids.push_back(number(tables.layer_ids[i]));
    out.comment("Rows of the layer tables, kind after kind.");
    openTable(out, "constexpr", "uint32_t", "layerIds");
    out.fill(ids);
    closeTable(out);
  }
  if (tables.num_layer_kinds) {
    std::vector<std::string> kinds;
    for (uint32_t i = 0; i < tables.num_layer_kinds; ++i)
      kinds.push_back(braced({number(tables.layer_kinds[i].first),
                              number(tables.layer_kinds[i].count)}));
    out.comment("Layers that hold the same parameters: first, count.");
    openTable(out, "constexpr", "delta_layer_kind_t", "layerKinds");
    out.fill(kinds);
    closeTable(out);
  }
}

/// Short names for the words of the class tables, those that occur.
static void emitShortNames(SourceText &out, const delta_tables_t &tables) {
  bool hasType[std::size(dtypeNames)] = {};
  bool hasAxis[std::size(axisNames)] = {};
  for (const delta_side_t *side :
       {&tables.source, &tables.destination, &tables.hf, &tables.copied})
    for (uint32_t i = 0; i < side->num_classes; ++i) {
      hasType[side->classes[i].dtype] = true;
      hasAxis[side->classes[i].axis] = true;
    }
  auto define = [&](const char *type, const ShortName &word) {
    out.line(std::string("constexpr ") + type + " " + word.name + " = " +
             word.constant + ";");
  };
  for (size_t i = 0; i < std::size(dtypeNames); ++i)
    if (hasType[i])
      define("delta_dtype_t", dtypeNames[i]);
  for (size_t i = 0; i < std::size(axisNames); ++i)
    if (hasAxis[i])
      define("delta_axis_t", axisNames[i]);
  define("uint32_t", {"none", "DELTA_NONE"});
  out.line();
}

/// What an engine has besides its side.
static void emitEngine(SourceText &out, const delta_tables_t &tables) {
  const delta_slots_t &slots = tables.slots;
  auto numbers = [&](const char *name, const uint32_t *begin, size_t count) {
    std::vector<std::string> items;
    for (size_t i = 0; i < count; ++i)
      items.push_back(number(begin[i]));
    openTable(out, "constexpr", "uint32_t", name);
    out.fill(items);
    closeTable(out);
  };
  if (slots.num_slots) {
    out.comment("Slots of each expert-parallel coordinate, from and to the "
                "next.");
    numbers("slotFirst", slots.first, tables.destination.ep + 1);
    out.comment("The expert in each slot.");
    numbers("slotExperts", slots.expert,
            size_t(slots.num_tables) * slots.num_slots);
  }
  if (!tables.num_refreshes)
    return;
  out.comment("Methods to call when a parameter changed: class, -, method.");
  openTable(out, "constexpr", "delta_refresh_t", "refreshes");
  for (uint32_t i = 0; i < tables.num_refreshes; ++i)
    out.row({number(tables.refreshes[i].class_index), "0",
             stringLiteral(tables.refreshes[i].method)});
  closeTable(out);
}

void delta::emitSideTables(SourceText &out, const delta_tables_t &tables) {
  emitShortNames(out, tables);
  emitLayerKinds(out, tables);
  SideEmitter sides(out);
  sides.emit(tables.source, "source");
  sides.emit(tables.hf, "neutral");
  sides.emit(tables.destination, "destination");
  if (tables.engine)
    emitEngine(out, tables);
  if (tables.copied.num_classes)
    sides.emit(tables.copied, "copied");
}

void delta::emitPlanTables(SourceText &out, const delta_tables_t &tables) {
  auto tableName = [](const void *table, const char *name) {
    return std::string(table ? name : "nullptr");
  };
  std::vector<std::string> fields = {
      std::string("sizeof(delta_tables_t)"),
      std::string("DELTA_ABI_VERSION"),
      braced({hexLiteral(tables.fingerprint[0]),
              hexLiteral(tables.fingerprint[1])}),
      stringLiteral(tables.model),
      stringLiteral(tables.compiler),
      std::string("source"),
      std::string("destination"),
      std::string("neutral"),
      "/*destination_is_hf=*/" + number(tables.destination_is_hf),
      "/*num_layer_kinds=*/" + number(tables.num_layer_kinds),
      "/*num_layer_ids=*/" + number(tables.num_layer_ids),
      "/*num_boxes=*/" + number(tables.num_boxes),
      "/*num_images=*/" + number(tables.num_images),
      "/*reserved=*/" + number(tables.reserved),
      tableName(tables.layer_kinds, "layerKinds"),
      tableName(tables.layer_ids, "layerIds"),
      tableName(tables.boxes, "boxes"),
      tableName(tables.images, "images"),
      std::string(tables.copied.num_classes ? "copied" : "{}")};
  if (tables.engine || tables.snapshot) {
    const bool hasSlots = tables.slots.num_slots != 0;
    fields.insert(
        fields.end(),
        {tables.engine ? stringLiteral(tables.engine) : "nullptr",
         tables.engine ? stringLiteral(tables.engine_version) : "nullptr",
         hasSlots ? braced({number(tables.slots.num_slots),
                            number(tables.slots.num_tables), "slotFirst",
                            "slotExperts"})
                  : "{}",
         "/*num_refreshes=*/" + number(tables.num_refreshes),
         "/*snapshot=*/" + number(tables.snapshot),
         tableName(tables.refreshes, "refreshes")});
  }
  out.line("const delta_tables_t delta_plan_tables = {");
  for (const std::string &field : fields)
    out.line("    " + field + ",");
  closeTable(out);
}

//===- Checker.cpp - A second look at a proof -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/certificate/Checker.h"

#include "tools/certificate/Boxes.h"
#include "tools/certificate/PlanJson.h"
#include "tools/certificate/Sides.h"

#include <algorithm>
#include <map>
#include <set>

using namespace delta::certificate;
using nlohmann::json;

namespace {

int64_t number(const json &value, const std::string &what) {
  if (!value.is_number_integer())
    wrong(what + " is " + value.dump() + ", required an integer");
  return value.get<int64_t>();
}

/// A number in [0, count).
uint32_t indexIn(const json &value, const std::string &what, uint32_t count) {
  int64_t i = number(value, what);
  if (i < 0 || i >= count)
    wrong(what + " is " + std::to_string(i) + " of " + std::to_string(count));
  return uint32_t(i);
}

/// Throws where there is none.
const json::array_t &list(const json &node, const std::string &key) {
  return node.at(key).get_ref<const json::array_t &>();
}

class Check {
public:
  explicit Check(const delta_tables_t &tables) : tables(tables) {}

  std::string run(const std::string &certificate) {
    root = json::parse(certificate, nullptr, false);
    if (!root.is_object())
      wrong("the certificate is no JSON object");
    json plan = planJson(tables);
    if (root.value("plan", json()) != plan["plan"])
      wrong("the certificate is for plan " + root.value("plan", json()).dump() +
            ", this is plan " + plan["plan"].dump());
    requireSame(root, plan);
    bool neutral = tables.destination_is_hf;
    checkSide("source", tables, tables.source);
    checkSide("hf", tables, tables.hf);
    if (!neutral) {
      checkSide("destination", tables, tables.destination);
      readMaps();
      readDrops("destination", tables.destination, true, destinationBoxes);
    }
    checkBoxes();
    readDrops("source", tables.source, false, sourceBoxes);
    covers("source", tables.source, sourceBoxes);
    covers("hf", tables.hf, hfBoxes);
    covers("destination", neutral ? tables.hf : tables.destination,
           destinationBoxes);
    return std::to_string(tables.num_boxes) + " boxes, " +
           std::to_string(tables.source.num_classes) + " parameter and " +
           std::to_string(tables.hf.num_classes) + " tensor classes";
  }

private:
  using Shard = std::pair<uint32_t, uint32_t>; ///< class, way
  using Claims = std::map<Shard, std::vector<Box>>;
  /// Where a shard has elements of a tensor, for which of its producers.
  struct Piece {
    Track track;
    int64_t producer;
  };

  //===--- boxes ----------------------------------------------------------===//

  /// A box of the plan, in an array of its own and in its tensor.
  static Track trackOf(const delta_box_t &row, int64_t offset,
                       const int64_t *strides, const delta_image_t &hf) {
    Track track{offset, hf.offset, {}};
    for (uint32_t i = 0; i < row.num_loops; ++i)
      track.loops.push_back({row.extent[i], strides[i], hf.stride[i]});
    return track;
  }

  void checkBoxes() {
    std::vector<bool> used(tables.num_images, false);
    for (uint32_t b = 0; b < tables.num_boxes; ++b) {
      const delta_box_t &row = tables.boxes[b];
      const delta_box_t &last = tables.boxes[b ? b - 1 : 0];
      std::string what = "box " + std::to_string(b);
      if (Shard(row.source_class, row.source_way) <
          Shard(last.source_class, last.source_way))
        wrong(what + " is out of order");
      checkTiles(what, row);
      if (row.source_class >= tables.source.num_classes)
        wrong(what + " has no class");
      const delta_class_t &from = tables.source.classes[row.source_class];
      if (from.copy_of != DELTA_NONE || row.source_way >= from.ways)
        wrong(what + " sends what it must not");
      const delta_image_t &hf = tables.images[row.hf_image];
      used[row.hf_image] = true;
      checkImage(what + " hf", hf, from, tables.hf, row.num_loops);
      if (hf.value_op > DELTA_VALUE_ADD_ONE)
        wrong(what + " has no value op");
      Track track = trackOf(row, row.source_offset, row.source_stride, hf);
      sourceBoxes[{row.source_class, row.source_way}].push_back(
          side(track, false, what));
      hfBoxes[{hf.class_index, 0}].push_back(side(track, true, what));
      std::set<int64_t> reached;
      for (uint32_t i = 0; i < row.num_images; ++i) {
        const delta_image_t &image = tables.images[row.first_image + i];
        used[row.first_image + i] = true;
        checkImage(what + " image", image, from,
                   tables.destination_is_hf ? tables.hf : tables.destination,
                   row.num_loops);
        checkOp(what, tables.images[row.first_image], image, hf, from);
        track = trackOf(row, image.offset, image.stride, hf);
        for (uint32_t way = image.way_begin; way < image.way_end; ++way)
          destinationBoxes[{image.class_index, way}].push_back(
              side(track, false, what));
        checkPlace(what, track, hf, image, reached);
      }
      if (reached != producers[hf.class_index])
        wrong(what + " does not go everywhere where its tensor is held");
    }
    if (std::count(used.begin(), used.end(), false))
      wrong("an image of the plan belongs to no box");
  }

  /// Tiles fill the runs and columns of a box with whole runs while they fit,
  /// else with parts of one.
  static void checkTiles(const std::string &what, const delta_box_t &row) {
    __int128 runs = 1;
    if (row.num_loops < 1 || row.num_loops > DELTA_MAX_LOOPS)
      wrong(what + " has no loops");
    for (uint32_t i = 0; i < DELTA_MAX_LOOPS; ++i)
      if ((i < row.num_loops ? row.extent[i] < 1
                             : row.extent[i] || row.source_stride[i]) ||
          runs > INT64_MAX)
        wrong(what + " has an empty or a loose loop");
      else if (i + 1 < row.num_loops)
        runs *= row.extent[i];
    int64_t columns = row.extent[row.num_loops - 1];
    int64_t wide = std::min<int64_t>(columns, DELTA_MAX_TILE);
    __int128 high = std::min<__int128>(runs, DELTA_MAX_TILE / wide);
    if (row.source_stride[row.num_loops - 1] != 1 || row.tile_columns != wide ||
        row.tile_runs != high ||
        row.num_tiles !=
            (runs + high - 1) / high * ((columns + wide - 1) / wide))
      wrong(what + " has tiles that do not fill it");
  }

  /// Equal types, or floats of which one is fp32.
  static bool leads(delta_dtype_t from, delta_dtype_t to) {
    return from == to || std::max(from, to) == DELTA_FP32;
  }

  /// A class that can take the elements: same layers, experts and type, or in
  /// the neutral layout a float of another size; for engines see checkOp.
  void checkImage(const std::string &what, const delta_image_t &image,
                  const delta_class_t &from, const delta_side_t &side,
                  uint32_t loops) {
    if (image.class_index >= side.num_classes)
      wrong(what + " has no class");
    const delta_class_t &to = side.classes[image.class_index];
    if (image.way_begin >= image.way_end || image.way_end > to.ways)
      wrong(what + " has no ways");
    for (uint32_t i = loops; i < DELTA_MAX_LOOPS; ++i)
      if (image.stride[i])
        wrong(what + " has a loose stride");
    bool neutral = &side == &tables.hf;
    if ((to.copy_of == DELTA_NONE && to.layer_kind != from.layer_kind) ||
        to.num_experts != from.num_experts ||
        (neutral ? !leads(from.dtype, to.dtype)
                 : from.dtype != to.dtype && !tables.engine))
      wrong(what + " is of other layers, experts or type");
  }

  /// Another trainer holds the values as this one does, an engine those of the
  /// checkpoint, or one form of them, the same in all of a class.
  void checkOp(const std::string &what, const delta_image_t &first,
               const delta_image_t &image, const delta_image_t &hf,
               const delta_class_t &from) {
    delta_dtype_t middle = tables.hf.classes[hf.class_index].dtype;
    delta_value_op_t form = 0, op = tables.destination_is_hf ? hf.value_op : 0;
    if (tables.engine) {
      const delta_class_t *classes = tables.destination.classes;
      delta_dtype_t to = classes[image.class_index].dtype;
      form = image.value_op & (DELTA_VALUE_NEG_EXP | DELTA_VALUE_PLUS_ONE);
      bool via = from.dtype != middle && (form || to != middle);
      op = hf.value_op | form | (via ? DELTA_VALUE_VIA(middle) : 0);
      if (!leads(middle, to) || classes[first.class_index].dtype != to ||
          (form && middle == DELTA_INT64) ||
          forms.try_emplace(image.class_index, form).first->second != form)
        wrong(what + " has two types or forms");
    }
    if (image.value_op != op || first.value_op != op || (form & (form - 1)))
      wrong(what + " has two value ops");
  }

  /// The image is where the destination's own map has the tensor's element.
  void checkPlace(const std::string &what, const Track &part,
                  const delta_image_t &hf, const delta_image_t &image,
                  std::set<int64_t> &reached) {
    if (tables.destination_is_hf) {
      if (part.x != part.y ||
          std::any_of(part.loops.begin(), part.loops.end(),
                      [](auto &l) { return l.x != l.y; }) ||
          sliceSize(tables.hf.classes[image.class_index]) !=
              sliceSize(tables.hf.classes[hf.class_index]))
        wrong(what + " lands on another element than its tensor's");
      return;
    }
    uint32_t owner = tables.destination.classes[image.class_index].copy_of;
    owner = owner == DELTA_NONE ? image.class_index : owner;
    for (uint32_t way = image.way_begin; way < image.way_end; ++way) {
      const std::vector<Piece> &pieces = maps[{owner, way}][hf.class_index];
      auto piece =
          std::find_if(pieces.begin(), pieces.end(), [&](const Piece &whole) {
            return follows(part, whole.track);
          });
      if (piece == pieces.end())
        wrong(what + " lands where the destination holds another element");
      reached.insert(piece->producer);
    }
  }

  /// A row `[way, offset..., [extent, stride...], ...]` with `sides` strides.
  static std::pair<uint32_t, Track> pieceOf(const json &row,
                                            const delta_class_t &c, int sides) {
    if (!row.is_array() || int(row.size()) < 1 + sides)
      wrong("a piece has no way or offset");
    uint32_t way = indexIn(row[0], "way", c.ways);
    Track track{number(row[1], "offset"), number(row[sides], "offset"), {}};
    for (size_t i = 1 + sides; i < row.size(); ++i) {
      if (!row[i].is_array() || int(row[i].size()) != 1 + sides)
        wrong("a piece has a loop of another length");
      track.loops.push_back({number(row[i][0], "extent"),
                             number(row[i][1], "stride"),
                             number(row[i][sides], "stride")});
      const Track::Loop &loop = track.loops.back();
      if (loop.extent < 2 || loop.x < 1 || loop.y < 1)
        wrong("a piece has a loop that does not move");
    }
    return {way, track};
  }

  static Box side(const Track &track, bool y, std::string owner) {
    Box box{y ? track.y : track.x, {}, std::move(owner)};
    for (const Track::Loop &loop : track.loops)
      box.loops.push_back({loop.extent, y ? loop.y : loop.x});
    return box;
  }

  /// The destination's own maps, to each tensor from one producer, or in an
  /// engine from several. They give every element of a shard its tensor's; and
  /// a trainer's shards hold every element of a tensor once.
  void readMaps() {
    Claims shards, tensors;
    for (const json &node : list(root["destination"], "maps")) {
      uint32_t c =
          indexIn(node.at("class"), "class", tables.destination.num_classes);
      uint32_t t = indexIn(node.at("tensor"), "tensor", tables.hf.num_classes);
      int64_t producer = number(node.at("producer"), "producer");
      producers[t].insert(producer);
      std::string owner = "map of class " + std::to_string(c);
      for (const json &row : list(node, "pieces")) {
        auto [way, track] = pieceOf(row, tables.destination.classes[c], 2);
        maps[{c, way}][t].push_back({track, producer});
        shards[{c, way}].push_back(side(track, false, owner));
        tensors[{t, 0}].push_back(side(track, true, owner));
      }
    }
    readDrops("destination", tables.destination, false, shards);
    covers("map", tables.destination, shards);
    for (const auto &[t, numbers] : producers)
      if (*numbers.begin() != 0 ||
          *numbers.rbegin() + 1 != int64_t(numbers.size()) ||
          (!tables.engine && numbers.size() > 1))
        wrong("hf class " + std::to_string(t) + " has producers out of order");
    if (tables.engine)
      checkUnheld();
    else
      covers("hf", tables.hf, tensors);
  }

  /// Tensors that no map speaks of are those that the engine is said not to
  /// hold.
  void checkUnheld() {
    const json::array_t &prefixes = list(root["destination"], "unheld");
    for (uint32_t t = 0; t < tables.hf.num_classes; ++t) {
      const std::string name = tables.hf.names[tables.hf.classes[t].first_name];
      auto begins = [&](const json &prefix) {
        return prefix.is_string() && prefix != "" &&
               name.rfind(prefix.get<std::string>(), 0) == 0;
      };
      if (producers[t].empty() &&
          std::none_of(prefixes.begin(), prefixes.end(), begins))
        wrong("the engine has no place for \"" + name + "\"");
    }
  }

  /// What a side's shards leave out; where asked, their copies do too.
  void readDrops(const std::string &name, const delta_side_t &onSide,
                 bool copies, Claims &claims) {
    for (const json &node : list(root[name], "drops")) {
      uint32_t c = indexIn(node.at("class"), "class", onSide.num_classes);
      if (!node.value("reason", json()).is_string() || node["reason"] == "")
        wrong("a drop has no reason");
      for (const json &row : list(node, "boxes")) {
        auto [way, track] = pieceOf(row, onSide.classes[c], 1);
        Box box = side(track, false, "drop of class " + std::to_string(c));
        claims[{c, way}].push_back(box);
        for (uint32_t copy = 0; copy < onSide.num_classes; ++copy)
          if (copies && onSide.classes[copy].copy_of == c)
            claims[{copy, way}].push_back(box);
      }
    }
  }

  /// Every element of every shard is claimed once. A copy (a tied head) is
  /// nobody's to send and no map speaks of it; it is a destination only.
  static void covers(const std::string &name, const delta_side_t &onSide,
                     Claims &claims) {
    for (uint32_t c = 0; c < onSide.num_classes; ++c)
      for (uint32_t way = 0; way < onSide.classes[c].ways; ++way) {
        const std::vector<Box> &boxes = claims[{c, way}];
        if (boxes.empty() && name != "destination" &&
            onSide.classes[c].copy_of != DELTA_NONE)
          continue;
        std::string error = partition(boxes, sliceSize(onSide.classes[c]));
        if (!error.empty())
          wrong(name + " class " + std::to_string(c) + " way " +
                std::to_string(way) + ": " + error);
      }
  }

  const delta_tables_t &tables;
  json root;
  Claims sourceBoxes, hfBoxes, destinationBoxes;
  std::map<Shard, std::map<uint32_t, std::vector<Piece>>> maps;
  std::map<uint32_t, std::set<int64_t>> producers; ///< of each tensor
  std::map<uint32_t, delta_value_op_t> forms;      ///< of an engine's classes
};

} // namespace

std::string delta::certificate::check(const std::string &certificate,
                                      const delta_tables_t &tables,
                                      std::string &error) {
  try {
    return Check(tables).run(certificate);
  } catch (const std::exception &caught) {
    error = caught.what();
    return {};
  }
}

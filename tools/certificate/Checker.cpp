//===- Checker.cpp - A second look at a proof -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/certificate/Checker.h"

#include "tools/certificate/Boxes.h"
#include "tools/certificate/PlanJson.h"

#include <algorithm>
#include <map>

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

int64_t product(const delta_class_t &c) {
  __int128 n = 1;
  for (uint32_t i = 0; i < c.rank; ++i)
    if ((n *= c.shape[i]) > INT64_MAX)
      wrong("a shape overflows 64 bits");
  return int64_t(n);
}

/// Elements of one expert's slice of a class.
int64_t sliceSize(const delta_class_t &c) {
  return c.expert_stride ? c.expert_stride : product(c);
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
    checkSide("source", tables.source, 1);
    checkSide("hf", tables.hf, 1);
    if (!neutral) {
      checkSide("destination", tables.destination, tables.destination.replicas);
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

  void checkSide(const std::string &name, const delta_side_t &side,
                 int64_t replicas) {
    for (int64_t size : {side.tp, side.cp, side.dp, side.ep, side.etp, side.edp,
                         side.pp, side.vpp, side.replicas})
      if (size < 1)
        wrong(name + " has an axis of size 0");
    int64_t stage = int64_t(side.tp) * side.cp * side.dp;
    if (stage != int64_t(side.etp) * side.ep * side.edp ||
        stage * side.pp != side.ranks_per_replica || side.replicas != replicas)
      wrong(name + ": ranks of dense and expert axes differ");
    bool neutral = &side == &tables.hf;
    if (neutral && (side.ranks_per_replica != 1 || side.vpp != 1))
      wrong("the neutral layout has more than one rank");
    if (side.num_layers != tables.source.num_layers ||
        side.num_experts != tables.source.num_experts)
      wrong(name + " has other layers or experts than the source");
    // Layers: chunk outermost, local numbers from 0, then stacks on the first
    // or the last chunk, of which no class has layers of two; experts: in
    // order.
    for (uint32_t i = 0; i < side.num_layers; ++i) {
      const delta_placement_t &row = side.layers[i];
      const delta_placement_t &last = side.layers[i ? i - 1 : 0];
      std::pair here(row.chunk, row.stage), before(last.chunk, last.stage);
      uint32_t local = neutral ? i : i && here == before ? last.local + 1 : 0;
      bool atEnd = row.stage + row.chunk == 0 ||
                   (row.stage + 1 == side.pp && row.chunk + 1 == side.vpp);
      bool stack = !neutral && row.local == 0 && atEnd && !spansKind(i);
      if (row.stage >= side.pp || row.chunk >= side.vpp || row.number != i ||
          !((row.local == local && here >= before) || stack))
        wrong(name + " layer " + std::to_string(i) + " is out of place");
    }
    for (uint32_t e = 0; e < side.num_experts; ++e) {
      uint32_t each = side.num_experts / side.ep;
      if (side.num_experts % side.ep || side.experts[e].ep != e / each ||
          side.experts[e].local != e % each)
        wrong(name + " expert " + std::to_string(e) + " is out of place");
    }
    for (uint32_t i = 0; i < side.num_classes; ++i)
      checkClass(name + " class " + std::to_string(i), side, i, neutral);
  }

  /// Whether a layer kind has layers before `layer` and from it on.
  bool spansKind(uint32_t layer) const {
    const delta_layer_kind_t *kinds = tables.layer_kinds;
    return std::any_of(kinds, kinds + tables.num_layer_kinds, [&](auto &kind) {
      const uint32_t *ids = tables.layer_ids + kind.first;
      return kind.count && ids[0] < layer && ids[kind.count - 1] >= layer;
    });
  }

  void checkClass(const std::string &what, const delta_side_t &side,
                  uint32_t index, bool neutral) {
    const delta_class_t &c = side.classes[index];
    uint32_t axis = c.axis == DELTA_AXIS_TP    ? side.tp
                    : c.axis == DELTA_AXIS_ETP ? side.etp
                                               : 1;
    for (uint32_t d = 0; d < DELTA_MAX_RANK; ++d)
      if (d < c.rank ? c.shape[d] < 1 : c.shape[d] != 1)
        wrong(what + " has a size of " + std::to_string(c.shape[d]));
    if (c.reserved || c.dtype < DELTA_BF16 || c.dtype > DELTA_INT64 ||
        c.axis > DELTA_AXIS_ETP || c.ways < 1 || axis % c.ways)
      wrong(what + " has no type or ways that do not divide its axis");
    if (c.layer_kind == DELTA_NONE
            ? c.stage >= side.pp || c.chunk >= side.vpp
            : c.layer_kind >= tables.num_layer_kinds || c.stage || c.chunk)
      wrong(what + " lives nowhere");
    if (c.num_experts && c.num_experts != side.num_experts)
      wrong(what + " has another number of experts");
    int64_t local = c.num_experts ? c.num_experts / side.ep : 1;
    if (c.expert_stride && c.expert_stride * local != product(c))
      wrong(what + " has slices that do not fill it");
    if (neutral && c.axis != DELTA_AXIS_NONE)
      wrong(what + " is sharded");
    if (c.copy_of == DELTA_NONE)
      return;
    if (c.copy_of >= side.num_classes || c.copy_of == index)
      wrong(what + " copies no class");
    const delta_class_t &o = side.classes[c.copy_of];
    if (o.copy_of != DELTA_NONE || o.dtype != c.dtype || o.axis != c.axis ||
        product(o) != product(c) || o.ways != c.ways)
      wrong(what + " is unlike the class that it copies");
  }

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
      Track track = trackOf(row, row.source_offset, row.source_stride, hf);
      sourceBoxes[{row.source_class, row.source_way}].push_back(
          side(track, false, what));
      hfBoxes[{hf.class_index, 0}].push_back(side(track, true, what));
      for (uint32_t i = 0; i < row.num_images; ++i) {
        const delta_image_t &image = tables.images[row.first_image + i];
        used[row.first_image + i] = true;
        checkImage(what + " image", image, from,
                   tables.destination_is_hf ? tables.hf : tables.destination,
                   row.num_loops);
        // Another trainer holds the values as this one does.
        if (image.value_op != (tables.destination_is_hf ? hf.value_op : 0))
          wrong(what + " has two value ops");
        track = trackOf(row, image.offset, image.stride, hf);
        for (uint32_t way = image.way_begin; way < image.way_end; ++way)
          destinationBoxes[{image.class_index, way}].push_back(
              side(track, false, what));
        checkPlace(what, track, hf, image);
      }
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

  /// A class that can take the elements: same layers, experts and type, or in
  /// the neutral layout a float of another size.
  void checkImage(const std::string &what, const delta_image_t &image,
                  const delta_class_t &from, const delta_side_t &side,
                  uint32_t loops) {
    if (image.class_index >= side.num_classes ||
        image.value_op > DELTA_VALUE_ADD_ONE)
      wrong(what + " has no class");
    const delta_class_t &to = side.classes[image.class_index];
    if (image.way_begin >= image.way_end || image.way_end > to.ways)
      wrong(what + " has no ways");
    for (uint32_t i = loops; i < DELTA_MAX_LOOPS; ++i)
      if (image.stride[i])
        wrong(what + " has a loose stride");
    bool cast =
        &side == &tables.hf && std::max(to.dtype, from.dtype) == DELTA_FP32;
    if ((to.copy_of == DELTA_NONE && to.layer_kind != from.layer_kind) ||
        to.num_experts != from.num_experts || (to.dtype != from.dtype && !cast))
      wrong(what + " is of other layers, experts or type");
  }

  /// The image is where the destination's own map has the tensor's element.
  void checkPlace(const std::string &what, const Track &part,
                  const delta_image_t &hf, const delta_image_t &image) {
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
      const std::vector<Track> &pieces = maps[{owner, way}][hf.class_index];
      if (std::none_of(pieces.begin(), pieces.end(), [&](const Track &whole) {
            return follows(part, whole);
          }))
        wrong(what + " lands where the destination holds another element");
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

  /// The destination's own maps: one to one between shards and tensors.
  void readMaps() {
    Claims shards, tensors;
    for (const json &node : list(root["destination"], "maps")) {
      uint32_t c =
          indexIn(node.at("class"), "class", tables.destination.num_classes);
      uint32_t t = indexIn(node.at("tensor"), "tensor", tables.hf.num_classes);
      std::string owner = "map of class " + std::to_string(c);
      for (const json &row : list(node, "pieces")) {
        auto [way, track] = pieceOf(row, tables.destination.classes[c], 2);
        maps[{c, way}][t].push_back(track);
        shards[{c, way}].push_back(side(track, false, owner));
        tensors[{t, 0}].push_back(side(track, true, owner));
      }
    }
    readDrops("destination", tables.destination, false, shards);
    covers("map", tables.destination, shards);
    covers("hf", tables.hf, tensors);
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
  std::map<Shard, std::map<uint32_t, std::vector<Track>>> maps;
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

//===- Pull.cpp - Where one element comes from ----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/Pull.h"

namespace delta::reference {

using Indices = std::vector<int64_t>;

static Indices split(int64_t flat, const Indices &shape) {
  Indices index(shape.size());
  for (size_t i = shape.size(); i-- > 0; flat /= shape[i])
    index[i] = flat % shape[i];
  return index;
}

static int64_t flatten(const Indices &index, const Indices &shape) {
  int64_t flat = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    flat = flat * shape[i] + index[i];
  return flat;
}

/// Shape of result `number` of an op.
static Indices shapeOf(const Op &op, size_t number,
                       const std::vector<Indices> &in) {
  Indices shape = in[0];
  if (op.kind == "reshape")
    return op.shape;
  if (op.kind == "transpose")
    for (size_t i = 0; i < shape.size(); ++i)
      shape[i] = in[0][size_t(op.permutation[i])];
  if (op.kind == "split")
    shape[size_t(op.dim)] = op.sizes[number];
  if (op.kind == "take")
    shape[size_t(op.dim)] = op.size;
  if (op.kind == "concat" || op.kind == "interleave")
    for (size_t i = 1; i < in.size(); ++i)
      shape[size_t(op.dim)] += in[i][size_t(op.dim)];
  return shape;
}

Puller::Puller(const Side &side) : side(side) {
  for (size_t p = 0; p < side.params.size(); ++p)
    if (!side.params[p].copyOf) {
      shapes[side.params[p].value] = side.params[p].shape;
      paramOfValue[side.params[p].value] = int64_t(p);
    }
  for (const Op &op : side.ops) {
    std::vector<Indices> in;
    for (int64_t value : op.in)
      in.push_back(shapes.at(value));
    for (size_t i = 0; i < op.out.size(); ++i) {
      shapes[op.out[i]] = shapeOf(op, i, in);
      makers[op.out[i]] = {&op, i};
    }
  }
}

Origin Puller::pull(int64_t tensor, int64_t element) const {
  int64_t value = side.tensors[size_t(tensor)].value;
  Origin origin;
  while (true) {
    auto maker = makers.find(value);
    if (maker == makers.end())
      break;
    const Op &op = *maker->second.first;
    size_t dim = size_t(op.dim), operand = 0;
    if (op.kind == "unshard" || op.kind == "reshape" || op.kind == "cast") {
      // Neither moves an element of the whole.
    } else if (op.kind == "add_scalar") {
      origin.shifted = true;
    } else {
      Indices index = split(element, shapes.at(value));
      if (op.kind == "transpose") {
        Indices from(index.size());
        for (size_t i = 0; i < index.size(); ++i)
          from[size_t(op.permutation[i])] = index[i];
        index = from;
      } else if (op.kind == "split") {
        for (size_t i = 0; i < maker->second.second; ++i)
          index[dim] += op.sizes[i];
      } else if (op.kind == "concat") {
        while (index[dim] >= shapes.at(op.in[operand])[dim])
          index[dim] -= shapes.at(op.in[operand++])[dim];
      } else if (op.kind == "interleave") {
        operand = size_t(index[dim]) % op.in.size();
        index[dim] /= int64_t(op.in.size());
      }
      element = flatten(index, shapes.at(op.in[operand]));
    }
    value = op.in[operand];
  }
  origin.param = paramOfValue.at(value);
  origin.element = element;
  return origin;
}

const Op *Puller::unshardOf(int64_t param) const {
  const Param &record = side.params[size_t(param)];
  int64_t value =
      record.copyOf ? side.params[size_t(*record.copyOf)].value : record.value;
  for (const Op &op : side.ops)
    if (op.kind == "unshard" && op.in[0] == value)
      return &op;
  return nullptr;
}

int64_t Puller::ways(int64_t param) const {
  const Op *op = unshardOf(param);
  return op ? op->ways : 1;
}

const std::string &Puller::axis(int64_t param) const {
  static const std::string whole;
  const Op *op = unshardOf(param);
  return op ? op->axis : whole;
}

std::vector<Puller::Section> Puller::sectionsOf(const Op &op, int64_t size,
                                                int64_t way) const {
  if (op.sections.empty())
    return {{size, size / op.ways, way}};
  std::vector<Section> sections;
  for (size_t i = 0; i < op.sections.size(); ++i) {
    int64_t parts = op.sectionWays.empty() ? op.ways : op.sectionWays[i];
    // Neighboring ways have a part in common.
    sections.push_back(
        {op.sections[i], op.sections[i] / parts, way * parts / op.ways});
  }
  return sections;
}

int64_t Puller::unsharded(int64_t param, int64_t way, int64_t element) const {
  const Op *op = unshardOf(param);
  if (!op)
    return element;
  const Indices &shape = side.params[size_t(param)].shape;
  size_t dim = size_t(op->dim);
  std::vector<Section> sections = sectionsOf(*op, shape[dim], way);
  Indices local = shape;
  local[dim] = 0;
  for (const Section &section : sections)
    local[dim] += section.share;
  Indices index = split(element, local);
  // Row r of the shard lies in the section whose share it reaches.
  int64_t row = index[dim], base = 0;
  for (const Section &section : sections) {
    if (row < section.share) {
      index[dim] = base + section.part * section.share + row;
      break;
    }
    row -= section.share;
    base += section.size;
  }
  return flatten(index, shape);
}

bool Puller::isIn(int64_t param, int64_t way, int64_t element) const {
  const Op *op = unshardOf(param);
  if (!op)
    return true;
  const Indices &shape = side.params[size_t(param)].shape;
  int64_t row = split(element, shape)[size_t(op->dim)];
  for (const Section &section : sectionsOf(*op, shape[size_t(op->dim)], way)) {
    if (row < section.size)
      return row / section.share == section.part;
    row -= section.size;
  }
  return false;
}

} // namespace delta::reference

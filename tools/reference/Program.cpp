//===- Program.cpp - Print the reference program --------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The program as JSON text, one record a line. ProgramParser.cpp reads it.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Program.h"

#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace delta::reference {
namespace {

using Json = nlohmann::ordered_json;

const char *name(Stage stage) {
  switch (stage) {
  case Stage::Layers:
    return "layers";
  case Stage::First:
    return "first";
  case Stage::Last:
    return "last";
  }
  return "layers";
}

Json toJson(const Geometry &geometry) {
  Json record = {{"tp", geometry.tp},
                 {"cp", geometry.cp},
                 {"dp", geometry.dp},
                 {"ep", geometry.ep},
                 {"etp", geometry.etp},
                 {"edp", geometry.edp},
                 {"pp", geometry.pp},
                 {"vpp", geometry.vpp},
                 {"stageLayers", geometry.stageLayers}};
  if (!geometry.stackLayers.empty()) {
    record["stackLayers"] = geometry.stackLayers;
    for (Stage stage : geometry.stackStages)
      record["stackStages"].push_back(name(stage));
  }
  if (!geometry.slotBegins.empty()) {
    record["slotBegins"] = geometry.slotBegins;
    record["slots"] = geometry.slots;
  }
  return record;
}

Json toJson(const Param &param) {
  Json record = {{"names", param.names},   {"dtype", param.dtype},
                 {"shape", param.shape},   {"stage", name(param.stage)},
                 {"layers", param.layers}, {"expert", param.expert}};
  if (param.copyOf)
    record["copyOf"] = *param.copyOf;
  record["value"] = param.value;
  if (param.stack)
    record["stack"] = true;
  if (param.extra)
    record["extra"] = param.extra;
  if (param.slotOf) {
    record["slotOf"] = *param.slotOf;
    record["slot"] = param.slot;
  }
  if (!param.form.empty())
    record["form"] = param.form;
  if (!param.view.empty())
    record["view"] = param.view;
  return record;
}

bool hasDim(const std::string &kind) {
  return kind != "reshape" && kind != "transpose" && kind != "add_scalar" &&
         kind != "cast";
}

/// The fields that its kind uses, as Program.h lists them.
Json toJson(const Op &op) {
  Json record = {{"kind", op.kind}, {"in", op.in}, {"out", op.out}};
  if (hasDim(op.kind))
    record["dim"] = op.dim;
  if (op.kind == "unshard") {
    record["axis"] = op.axis;
    record["ways"] = op.ways;
    record["sections"] = op.sections;
    if (!op.sectionWays.empty())
      record["sectionWays"] = op.sectionWays;
  } else if (op.kind == "reshape") {
    record["shape"] = op.shape;
  } else if (op.kind == "transpose") {
    record["permutation"] = op.permutation;
  } else if (op.kind == "split") {
    record["sizes"] = op.sizes;
  } else if (op.kind == "take") {
    record["size"] = op.size;
    record["reason"] = op.reason;
  } else if (op.kind == "add_scalar") {
    record["scalar"] = op.scalar;
  } else if (op.kind == "cast") {
    record["dtype"] = op.dtype;
  }
  return record;
}

Json toJson(const Tensor &tensor) {
  Json record = {{"name", tensor.name},
                 {"dtype", tensor.dtype},
                 {"shape", tensor.shape},
                 {"value", tensor.value},
                 {"stack", tensor.stack}};
  if (tensor.also)
    record["also"] = true;
  return record;
}

template <class T>
void appendRecords(std::string &text, const char *key,
                   const std::vector<T> &records) {
  text += "    \"" + std::string(key) + "\": [";
  const char *separator = "\n";
  for (const T &record : records) {
    text += separator;
    text += "      " + toJson(record).dump();
    separator = ",\n";
  }
  text += records.empty() ? "]" : "\n    ]";
}

void appendSide(std::string &text, const char *key, const Side &side) {
  text += "  \"" + std::string(key) + "\": {\n";
  if (!side.engine.empty())
    text += "    \"engine\": " + Json(side.engine).dump() + ",\n";
  if (!side.unheld.empty())
    text += "    \"unheld\": " + Json(side.unheld).dump() + ",\n";
  text += "    \"geometry\": " + toJson(side.geometry).dump() + ",\n";
  text += "    \"numLayers\": " + std::to_string(side.numLayers) + ",\n";
  text += "    \"numExperts\": " + std::to_string(side.numExperts) + ",\n";
  appendRecords(text, "params", side.params);
  text += ",\n";
  appendRecords(text, "ops", side.ops);
  text += ",\n";
  appendRecords(text, "tensors", side.tensors);
  text += "\n  }";
}

} // namespace

std::string print(const Program &program) {
  char fingerprint[33];
  std::snprintf(fingerprint, sizeof(fingerprint), "%016" PRIx64 "%016" PRIx64,
                program.fingerprint[0], program.fingerprint[1]);
  std::string text = "{\n";
  text += "  \"model\": " + Json(program.model).dump() + ",\n";
  text += "  \"fingerprint\": \"" + std::string(fingerprint) + "\",\n";
  text += "  \"replicas\": " + std::to_string(program.replicas) + ",\n";
  appendSide(text, "source", program.source);
  if (program.destination) {
    text += ",\n";
    appendSide(text, "destination", *program.destination);
  }
  text += "\n}\n";
  return text;
}

} // namespace delta::reference

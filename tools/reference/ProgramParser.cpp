//===- ProgramParser.cpp - Read the reference program ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// JSON text to a Program. Every key is required unless Program.h calls it
/// optional, and no other key is allowed. What the records mean together
/// (shapes, uses of values) is checked by Interpreter::create.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Program.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace delta::reference {
namespace {

using Json = nlohmann::json;

bool read(const Json &json, int64_t &out) {
  if (!json.is_number_integer())
    return false;
  out = json.get<int64_t>();
  return true;
}

bool read(const Json &json, double &out) {
  if (!json.is_number())
    return false;
  out = json.get<double>();
  return true;
}

bool read(const Json &json, bool &out) {
  if (!json.is_boolean())
    return false;
  out = json.get<bool>();
  return true;
}

bool read(const Json &json, std::string &out) {
  if (!json.is_string())
    return false;
  out = json.get<std::string>();
  return true;
}

bool read(const Json &json, Stage &out) {
  if (json == "layers")
    out = Stage::Layers;
  else if (json == "first")
    out = Stage::First;
  else if (json == "last")
    out = Stage::Last;
  else
    return false;
  return true;
}

template <class T> bool read(const Json &json, std::vector<T> &out) {
  if (!json.is_array())
    return false;
  out.resize(json.size());
  for (size_t i = 0; i < out.size(); ++i)
    if (!read(json[i], out[i]))
      return false;
  return true;
}

const char *what(const int64_t *) { return "an integer"; }
const char *what(const double *) { return "a number"; }
const char *what(const bool *) { return "true or false"; }
const char *what(const std::string *) { return "a string"; }
const char *what(const Stage *) { return "\"layers\", \"first\" or \"last\""; }
const char *what(const std::vector<Stage> *) { return "a list of stages"; }
const char *what(const std::vector<int64_t> *) { return "a list of integers"; }
const char *what(const std::vector<std::string> *) {
  return "a list of strings";
}
const char *what(const std::vector<std::vector<int64_t>> *) {
  return "a list of lists of integers";
}

/// The value as it stands in a message, cut to a readable length.
std::string shown(const Json &json) {
  std::string text = json.dump();
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

/// One JSON object whose keys are taken one by one. The first error stays.
class Record {
public:
  Record(const Json &json, std::string path, std::string &error)
      : json(json), path(std::move(path)), error(error) {
    if (!json.is_object())
      fail(this->path + ": " + shown(json) + " is not an object");
  }

  bool has(const char *key) const {
    return json.is_object() && json.contains(key);
  }

  /// The value of a required key, null after an error.
  const Json *child(const char *key) {
    if (!error.empty())
      return nullptr;
    if (!json.contains(key)) {
      fail(path + ": key \"" + key + "\" is missing");
      return nullptr;
    }
    ++numTaken;
    return &json[key];
  }

  /// The value of a key that may be left out.
  template <class T> Record &optional(const char *key, T &out) {
    return has(key) ? field(key, out) : *this;
  }

  template <class T> Record &field(const char *key, T &out) {
    const Json *value = child(key);
    if (value && !read(*value, out))
      fail(pathOf(key) + ": " + shown(*value) + " is not " +
           what(static_cast<const T *>(nullptr)));
    return *this;
  }

  /// Calls `each(element, path of the element)` for a required list.
  template <class F> void list(const char *key, const F &each) {
    const Json *value = child(key);
    if (!value)
      return;
    if (!value->is_array())
      return fail(pathOf(key) + ": " + shown(*value) + " is not a list");
    for (size_t i = 0; i < value->size() && error.empty(); ++i)
      each((*value)[i], pathOf(key) + "[" + std::to_string(i) + "]");
  }

  /// To be called last: no key may be left over.
  void finish() {
    if (!error.empty() || numTaken == json.size())
      return;
    fail(path + ": has a key that this record does not use, in " + shown(json));
  }

  void fail(const std::string &message) {
    if (error.empty())
      error = message;
  }

  std::string pathOf(const char *key) const {
    return path.empty() ? key : path + "." + key;
  }

private:
  const Json &json;
  std::string path;
  std::string &error;
  size_t numTaken = 0;
};

void parseGeometry(const Json &json, const std::string &path, Geometry &out,
                   std::string &error) {
  Record record(json, path, error);
  record.field("tp", out.tp).field("cp", out.cp).field("dp", out.dp);
  record.field("ep", out.ep).field("etp", out.etp).field("edp", out.edp);
  record.field("pp", out.pp).field("vpp", out.vpp);
  record.field("stageLayers", out.stageLayers);
  if (record.has("stackLayers"))
    record.field("stackLayers", out.stackLayers)
        .field("stackStages", out.stackStages);
  if (record.has("slotBegins") || record.has("slots"))
    record.field("slotBegins", out.slotBegins).field("slots", out.slots);
  record.finish();
}

void parseParam(const Json &json, const std::string &path, Param &out,
                std::string &error) {
  Record record(json, path, error);
  record.field("names", out.names).field("dtype", out.dtype);
  record.field("shape", out.shape).field("stage", out.stage);
  record.field("layers", out.layers).field("expert", out.expert);
  record.field("value", out.value);
  if (record.has("copyOf")) {
    out.copyOf = 0;
    record.field("copyOf", *out.copyOf);
  }
  record.optional("stack", out.stack).optional("extra", out.extra);
  if (record.has("slotOf")) {
    out.slotOf = 0;
    record.field("slotOf", *out.slotOf).field("slot", out.slot);
  }
  record.optional("form", out.form).optional("view", out.view);
  record.finish();
}

void parseOp(const Json &json, const std::string &path, Op &out,
             std::string &error) {
  Record record(json, path, error);
  record.field("kind", out.kind).field("in", out.in).field("out", out.out);
  if (!error.empty())
    return;
  const std::string &kind = out.kind;
  if (kind == "unshard") {
    record.field("dim", out.dim).field("axis", out.axis);
    record.field("ways", out.ways).field("sections", out.sections);
    record.optional("sectionWays", out.sectionWays);
  } else if (kind == "reshape") {
    record.field("shape", out.shape);
  } else if (kind == "transpose") {
    record.field("permutation", out.permutation);
  } else if (kind == "split") {
    record.field("dim", out.dim).field("sizes", out.sizes);
  } else if (kind == "concat" || kind == "interleave") {
    record.field("dim", out.dim);
  } else if (kind == "take") {
    record.field("dim", out.dim).field("size", out.size);
    record.field("reason", out.reason);
  } else if (kind == "add_scalar") {
    record.field("scalar", out.scalar);
  } else if (kind == "cast") {
    record.field("dtype", out.dtype);
  } else {
    record.fail(path + ".kind: \"" + kind + "\" is not an op");
  }
  record.finish();
}

void parseTensor(const Json &json, const std::string &path, Tensor &out,
                 std::string &error) {
  Record record(json, path, error);
  record.field("name", out.name).field("dtype", out.dtype);
  record.field("shape", out.shape).field("value", out.value);
  record.field("stack", out.stack).optional("also", out.also);
  record.finish();
}

void parseSide(const Json &json, const std::string &path, Side &out,
               std::string &error) {
  Record record(json, path, error);
  record.optional("engine", out.engine).optional("unheld", out.unheld);
  if (const Json *geometry = record.child("geometry"))
    parseGeometry(*geometry, path + ".geometry", out.geometry, error);
  record.field("numLayers", out.numLayers);
  record.field("numExperts", out.numExperts);
  record.list("params", [&](const Json &element, const std::string &where) {
    parseParam(element, where, out.params.emplace_back(), error);
  });
  record.list("ops", [&](const Json &element, const std::string &where) {
    parseOp(element, where, out.ops.emplace_back(), error);
  });
  record.list("tensors", [&](const Json &element, const std::string &where) {
    parseTensor(element, where, out.tensors.emplace_back(), error);
  });
  record.finish();
}

bool parseFingerprint(const std::string &digits, uint64_t (&out)[2]) {
  if (digits.size() != 32 ||
      digits.find_first_not_of("0123456789abcdef") != std::string::npos)
    return false;
  out[0] = std::strtoull(digits.substr(0, 16).c_str(), nullptr, 16);
  out[1] = std::strtoull(digits.substr(16).c_str(), nullptr, 16);
  return true;
}

void parseProgram(const Json &json, Program &out, std::string &error) {
  Record record(json, "", error);
  std::string fingerprint;
  record.field("model", out.model).field("fingerprint", fingerprint);
  if (error.empty() && !parseFingerprint(fingerprint, out.fingerprint))
    record.fail("fingerprint: \"" + fingerprint + "\" is not 32 hex digits");
  record.field("replicas", out.replicas);
  if (const Json *source = record.child("source"))
    parseSide(*source, "source", out.source, error);
  if (record.has("destination"))
    if (const Json *destination = record.child("destination"))
      parseSide(*destination, "destination", out.destination.emplace(), error);
  record.finish();
}

} // namespace

std::optional<Program> parse(const std::string &text, std::string &error) {
  error.clear();
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::exception &exception) {
    error = exception.what();
    return std::nullopt;
  }
  Program program;
  parseProgram(json, program, error);
  if (!error.empty())
    return std::nullopt;
  return program;
}

} // namespace delta::reference

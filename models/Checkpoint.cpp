//===- Checkpoint.cpp - What a safetensors checkpoint holds ---------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/Checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

using namespace delta;
using nlohmann::json;
namespace fs = std::filesystem;

/// As the reference reader of the format: a larger header is refused.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

uint64_t delta::storedElementSize(const std::string &dtype) {
  static const std::map<std::string, uint64_t> sizes = {
      {"BOOL", 1},    {"U8", 1},      {"I8", 1},  {"F8_E4M3", 1},
      {"F8_E5M2", 1}, {"F8_E8M0", 1}, {"U16", 2}, {"I16", 2},
      {"F16", 2},     {"BF16", 2},    {"U32", 4}, {"I32", 4},
      {"F32", 4},     {"U64", 8},     {"I64", 8}, {"F64", 8}};
  auto it = sizes.find(dtype);
  return it == sizes.end() ? 0 : it->second;
}

std::string delta::plainTypeName(const std::string &dtype) {
  return dtype == "BF16"  ? "bf16"
         : dtype == "F16" ? "fp16"
         : dtype == "F32" ? "fp32"
         : dtype == "I64" ? "i64"
                          : "";
}

/// One entry of a header; an error text or nothing.
static std::optional<std::string> readTensor(const std::string &name,
                                             const json &entry,
                                             uint64_t dataBytes,
                                             StoredTensor &out) {
  auto wrong = [&](const std::string &what) {
    return "tensor \"" + name + "\": " + what;
  };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets"))
    return wrong("entry is not {dtype, shape, data_offsets}");
  const json &dtype = entry["dtype"], &shape = entry["shape"],
             &offsets = entry["data_offsets"];
  if (!dtype.is_string() || !storedElementSize(dtype.get<std::string>()))
    return wrong("dtype " + dtype.dump() + " is not known");
  out.dtype = dtype.get<std::string>();
  uint64_t bytes = storedElementSize(out.dtype);
  if (!shape.is_array() || shape.size() > 16)
    return wrong("shape " + shape.dump() + " is not a list of sizes");
  for (const json &size : shape) {
    if (!size.is_number_unsigned() ||
        size.get<uint64_t>() > uint64_t(INT64_MAX) ||
        __builtin_mul_overflow(bytes, size.get<uint64_t>(), &bytes))
      return wrong("shape " + shape.dump() + " has no size of 64 bits");
    out.shape.push_back(size.get<int64_t>());
  }
  if (!offsets.is_array() || offsets.size() != 2 ||
      !offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    return wrong("data_offsets " + offsets.dump() + " are not two numbers");
  out.begin = offsets[0];
  out.end = offsets[1];
  if (out.begin > out.end || out.end > dataBytes)
    return wrong("bytes " + std::to_string(out.begin) + " to " +
                 std::to_string(out.end) + " of " + std::to_string(dataBytes));
  if (out.end - out.begin != bytes)
    return wrong("shape " + shape.dump() + " of " + out.dtype + " has " +
                 std::to_string(bytes) + " bytes, data_offsets span " +
                 std::to_string(out.end - out.begin));
  return std::nullopt;
}

std::optional<std::string> delta::readHeader(const char *text,
                                             uint64_t textBytes,
                                             uint64_t fileBytes, size_t file,
                                             Checkpoint &out) {
  if (fileBytes < 8 || textBytes < 8)
    return "is truncated: " + std::to_string(fileBytes) +
           " bytes, a header length has 8";
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | static_cast<unsigned char>(text[i]);
  if (headerBytes > maxHeaderBytes)
    return "header of " + std::to_string(headerBytes) +
           " bytes, required at most " + std::to_string(maxHeaderBytes);
  if (headerBytes > fileBytes - 8 || headerBytes > textBytes - 8)
    return "is truncated: header of " + std::to_string(headerBytes) +
           " bytes in a file of " + std::to_string(fileBytes);

  std::set<std::string> names;
  std::string twice;
  auto noteKeys = [&](int depth, json::parse_event_t event, json &value) {
    if (depth == 1 && event == json::parse_event_t::key &&
        !names.insert(value.get<std::string>()).second)
      twice = value.get<std::string>();
    return true;
  };
  json header = json::parse(text + 8, text + 8 + headerBytes, noteKeys,
                            /*allow_exceptions=*/false);
  if (!header.is_object())
    return "header is not one JSON object";
  if (!twice.empty())
    return "tensor \"" + twice + "\" stands twice in the header";

  uint64_t dataBytes = fileBytes - 8 - headerBytes;
  std::vector<std::pair<StoredTensor, std::string>> found;
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__")
      continue;
    StoredTensor tensor;
    if (auto error = readTensor(name, entry, dataBytes, tensor))
      return error;
    tensor.file = file;
    found.push_back({tensor, name});
  }
  // The data has neither gaps nor overlaps, and nothing follows it.
  std::sort(found.begin(), found.end(), [](auto &a, auto &b) {
    return std::tie(a.first.begin, a.first.end, a.second) <
           std::tie(b.first.begin, b.first.end, b.second);
  });
  uint64_t next = 0;
  for (auto &[tensor, name] : found) {
    if (tensor.begin != next)
      return "tensor \"" + name + "\" begins at byte " +
             std::to_string(tensor.begin) + ", the one before ends at " +
             std::to_string(next);
    next = tensor.end;
  }
  if (next != dataBytes)
    return "tensors end at byte " + std::to_string(next) + " of " +
           std::to_string(dataBytes);
  for (auto &[tensor, name] : found) {
    tensor.begin += 8 + headerBytes;
    tensor.end += 8 + headerBytes;
    auto [it, isNew] = out.tensors.emplace(name, tensor);
    if (!isNew)
      return "tensor \"" + name + "\" is in " +
             (it->second.file < out.files.size() ? out.files[it->second.file]
                                                 : "another file") +
             " already";
  }
  return std::nullopt;
}

/// Reads the header of out.files[file].
static std::optional<std::string> addFile(size_t file, Checkpoint &out) {
  const std::string &path = out.files[file];
  auto place = [&](const std::string &text) {
    return path + ": error: " + text;
  };
  std::error_code code;
  uint64_t fileBytes = fs::file_size(path, code);
  std::ifstream stream(path, std::ios::binary);
  if (code || !stream)
    return place("cannot be read");
  std::string text(8, '\0');
  stream.read(text.data(), 8);
  if (!stream)
    return place("is truncated: " + std::to_string(fileBytes) +
                 " bytes, a header length has 8");
  uint64_t headerBytes = 0;
  for (int i = 7; i >= 0; --i)
    headerBytes = headerBytes << 8 | static_cast<unsigned char>(text[i]);
  // Nothing is allocated for a length that the file cannot hold.
  if (headerBytes <= maxHeaderBytes && headerBytes <= fileBytes - 8) {
    text.resize(8 + headerBytes);
    stream.read(text.data() + 8, headerBytes);
    if (!stream)
      return place("cannot be read to the end of its header");
  }
  if (auto error = readHeader(text.data(), text.size(), fileBytes, file, out))
    return place(*error);
  return std::nullopt;
}

/// Reads an index, {"weight_map": {name: file}}, and the files it names.
static std::optional<std::string> addIndex(const std::string &path,
                                           Checkpoint &out) {
  auto place = [&](const std::string &text) {
    return path + ": error: " + text;
  };
  std::ifstream stream(path, std::ios::binary);
  std::stringstream buffer;
  buffer << stream.rdbuf();
  if (!stream)
    return place("cannot be read");
  json index = json::parse(buffer.str(), nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") ||
      !index["weight_map"].is_object())
    return place("has no object \"weight_map\"");
  std::map<std::string, size_t> files;
  fs::path folder = fs::path(path).parent_path();
  for (auto &[name, file] : index["weight_map"].items()) {
    if (!file.is_string())
      return place("tensor \"" + name + "\" is in " + file.dump() +
                   ", required a file name");
    std::string text = file.get<std::string>();
    // A name leads to a file beside the index, never elsewhere.
    if (text.empty() || fs::path(text).filename() != text || text == "..")
      return place("file \"" + text + "\" is not in the folder of the index");
    if (files.emplace(text, files.size()).second)
      out.files.push_back((folder / text).string());
  }
  for (size_t file = 0; file < out.files.size(); ++file)
    if (auto error = addFile(file, out))
      return error;
  for (auto &[name, file] : index["weight_map"].items()) {
    auto it = out.tensors.find(name);
    size_t expected = files.at(file.get<std::string>());
    if (it == out.tensors.end() || it->second.file != expected)
      return place("tensor \"" + name + "\" is not in " + out.files[expected] +
                   (it == out.tensors.end()
                        ? ""
                        : ", but in " + out.files[it->second.file]));
  }
  for (auto &[name, tensor] : out.tensors)
    if (!index["weight_map"].contains(name))
      return place("does not list tensor \"" + name + "\" of " +
                   out.files[tensor.file]);
  return std::nullopt;
}

std::optional<Checkpoint> delta::openCheckpoint(const std::string &path,
                                                std::string &error) {
  Checkpoint out;
  out.path = path;
  std::error_code code;
  auto fail = [&](const std::string &text) {
    error = text;
    return std::nullopt;
  };
  std::optional<std::string> wrong;
  if (fs::is_directory(path, code)) {
    std::vector<std::string> indices, files;
    for (const auto &entry : fs::directory_iterator(path, code)) {
      std::string name = entry.path().filename().string();
      auto ends = [&](const std::string &tail) {
        return name.size() > tail.size() &&
               name.compare(name.size() - tail.size(), tail.size(), tail) == 0;
      };
      if (ends(".safetensors.index.json"))
        indices.push_back(entry.path().string());
      else if (ends(".safetensors"))
        files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    if (indices.size() > 1)
      return fail(path + ": error: holds more than one index");
    if (indices.empty() && files.empty())
      return fail(path + ": error: holds no safetensors file");
    if (!indices.empty()) {
      wrong = addIndex(indices[0], out);
    } else {
      out.files = files;
      for (size_t file = 0; file < files.size() && !wrong; ++file)
        wrong = addFile(file, out);
    }
  } else if (fs::path(path).extension() == ".json") {
    wrong = addIndex(path, out);
  } else {
    out.files.push_back(path);
    wrong = addFile(0, out);
  }
  if (wrong)
    return fail(*wrong);
  return out;
}

//===- CompiledModel.cpp - The map of a small model -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CompiledModel.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>

namespace fs = std::filesystem;
using namespace delta::test;

static std::string toText(const Index &index) {
  std::string text = "[";
  for (size_t i = 0; i < index.size(); ++i)
    text += (i ? ", " : "") + std::to_string(index[i]);
  return text + "]";
}

std::ostream &delta::test::operator<<(std::ostream &stream,
                                      const Element &element) {
  return stream << element.tensor << toText(element.index);
}

std::ostream &delta::test::operator<<(std::ostream &stream,
                                      const Place &place) {
  return stream << "rank " << place.rank << " chunk " << place.chunk << " "
                << place.param << toText(place.index);
}

static std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

static void writeFile(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file)
    throw std::runtime_error("cannot write " + path);
}

static std::string compilerPath() {
  const char *bin = std::getenv("DELTA_BIN");
  return std::string(bin ? bin : DELTA_TEST_BIN) + "/delta-compile";
}

CompiledModel::CompiledModel(const Json &model, const std::string &family) {
  std::string pattern = fs::temp_directory_path() / "delta-case-XXXXXX";
  if (!mkdtemp(pattern.data()))
    throw std::runtime_error("cannot make a temporary folder");
  folder = pattern;
  writeFile(folder + "/model.json", model.dump(1) + "\n");
  compile(family);
  if (code == 0)
    open();
}

CompiledModel::~CompiledModel() {
  if (index)
    table->index_destroy(index);
  if (handle)
    dlclose(handle);
  std::error_code error;
  fs::remove_all(folder, error);
}

void CompiledModel::compile(const std::string &family) {
  // Messages name the file as it is given: from inside the folder.
  std::string command =
      "cd '" + folder + "' && '" + compilerPath() + "' model.json -o plan.so";
  if (!family.empty()) {
    writeFile(folder + "/family.mlir", family);
    fs::copy_file(DELTA_TEST_MODELS "/blocks.mlir", folder + "/blocks.mlir");
    command += " --family family.mlir";
  }
  const int status = std::system((command + " 2>messages").c_str());
  code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  text = readFile(folder + "/messages");
}

bool CompiledModel::wroteNothing() const {
  return !fs::exists(folder + "/plan.so");
}

void CompiledModel::open() {
  handle = dlopen((folder + "/plan.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error(dlerror());
  using Query = const delta_plan_api_t *(uint32_t);
  auto *query = reinterpret_cast<Query *>(dlsym(handle, "delta_plan_query"));
  table = query ? query(DELTA_ABI_VERSION) : nullptr;
  if (!table)
    throw std::runtime_error("no plan of this ABI");
  char error[512] = {};
  if (table->index_create(&index, {error, sizeof(error)}) != DELTA_OK)
    throw std::runtime_error(error);
  for (delta_side_id_t side : {DELTA_SOURCE, DELTA_DESTINATION, DELTA_HF})
    readSide(side);
  readTiles();
}

const delta_plan_api_t &CompiledModel::api() const {
  if (!table)
    throw std::runtime_error("the compiler refused the model: " + text);
  return *table;
}

static std::string dtypeName(delta_dtype_t dtype) {
  static const std::map<delta_dtype_t, std::string> names = {
      {DELTA_BF16, "bf16"},
      {DELTA_FP16, "fp16"},
      {DELTA_FP32, "fp32"},
      {DELTA_INT64, "i64"}};
  return names.at(dtype);
}

static ParamDescription describe(const delta_param_info_t &info) {
  ParamDescription out;
  std::istringstream lines(info.name);
  for (std::string line; std::getline(lines, line);)
    out.names.push_back(line);
  out.chunk = info.chunk;
  out.dtype = dtypeName(info.dtype);
  out.shape.assign(info.shape, info.shape + info.rank);
  out.isCopy = info.is_copy != 0;
  return out;
}

void CompiledModel::readSide(delta_side_id_t side) {
  Side &out = sides[side];
  for (uint32_t rank = 0; rank < table->num_ranks(side); ++rank) {
    auto &infos = out.infos.emplace_back();
    auto &params = out.params.emplace_back();
    for (uint32_t i = 0; i < table->param_count(index, side, rank); ++i) {
      if (table->param_info(index, side, rank, i, &infos.emplace_back()) !=
          DELTA_OK)
        throw std::runtime_error("param_info fails");
      params.push_back(describe(infos.back()));
    }
  }
}

/// Ranks hold the same shard when their coordinates on its axis fall into one
/// way, see delta_side in the ABI.
CompiledModel::ShardKey
CompiledModel::shardOf(uint32_t rank, const delta_param_info_t &info) const {
  const delta_side_t &side = table->tables->source;
  const delta_class_t &type = side.classes[info.class_index];
  uint32_t way = 0;
  if (type.axis != DELTA_AXIS_NONE) {
    const uint32_t size = type.axis == DELTA_AXIS_TP ? side.tp : side.etp;
    way = rank % size / (size / type.ways);
  }
  return {info.class_index, info.layer, info.expert, way};
}

void CompiledModel::readTiles() {
  std::vector<delta_place_t> places(1024);
  for (uint32_t rank = 0; rank < table->num_ranks(DELTA_SOURCE); ++rank) {
    const uint64_t numTiles = table->tile_count(index, rank);
    for (uint64_t t = 0; t < numTiles; ++t) {
      delta_tile_info_t tile = {};
      if (table->tile_info(index, rank, t, &tile) != DELTA_OK)
        throw std::runtime_error("tile_info fails");
      const delta_param_info_t &info =
          sides[DELTA_SOURCE].infos.at(rank).at(tile.param);
      std::vector<Image> &shard = images[shardOf(rank, info)];
      shard.resize(size_t(info.num_elements));
      for (uint32_t i = 0; i < tile.num_elements; ++i) {
        delta_place_t source = {}, hf = {};
        uint32_t count = 0;
        if (table->tile_element(index, rank, t, i, &source, &hf, places.data(),
                                uint32_t(places.size()), &count) != DELTA_OK ||
            source.rank != rank || source.param != tile.param ||
            count > places.size())
          throw std::runtime_error("tile_element fails");
        Image &image = shard.at(size_t(source.element));
        ++image.numSenders;
        image.hf = hf;
        image.destinations.assign(places.begin(), places.begin() + count);
      }
    }
  }
}

uint32_t CompiledModel::numRanks(delta_side_id_t side) const {
  return uint32_t(sides[side].params.size());
}

const std::vector<ParamDescription> &
CompiledModel::params(delta_side_id_t side, uint32_t rank) const {
  api();
  return sides[side].params.at(rank);
}

std::vector<std::string> CompiledModel::names(delta_side_id_t side,
                                              uint32_t rank,
                                              uint32_t chunk) const {
  std::vector<std::string> out;
  for (const ParamDescription &param : params(side, rank))
    if (param.chunk == chunk)
      out.push_back(param.names.front());
  return out;
}

uint32_t CompiledModel::find(delta_side_id_t side, uint32_t rank,
                             uint32_t chunk, const std::string &name) const {
  const auto &all = params(side, rank);
  for (uint32_t i = 0; i < all.size(); ++i)
    if (all[i].chunk == chunk &&
        std::count(all[i].names.begin(), all[i].names.end(), name))
      return i;
  throw std::out_of_range("rank " + std::to_string(rank) + " chunk " +
                          std::to_string(chunk) + " has no \"" + name + "\"");
}

Index CompiledModel::shapeOf(delta_side_id_t side, uint32_t rank,
                             uint32_t chunk, const std::string &name) const {
  return params(side, rank)[find(side, rank, chunk, name)].shape;
}

static int64_t flat(const Index &shape, const Index &index) {
  if (shape.size() != index.size())
    throw std::out_of_range(toText(index) + " in shape " + toText(shape));
  int64_t element = 0;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    if (index[dim] < 0 || index[dim] >= shape[dim])
      throw std::out_of_range(toText(index) + " in shape " + toText(shape));
    element = element * shape[dim] + index[dim];
  }
  return element;
}

static Index unflat(const Index &shape, int64_t element) {
  Index index(shape.size());
  for (size_t dim = shape.size(); dim-- > 0; element /= shape[dim])
    index[dim] = element % shape[dim];
  return index;
}

Place CompiledModel::placeOf(delta_side_id_t side,
                             const delta_place_t &place) const {
  const ParamDescription &param = params(side, place.rank).at(place.param);
  return {place.rank, param.chunk, param.names.front(),
          unflat(param.shape, place.element)};
}

Element CompiledModel::elementOf(const delta_place_t &place) const {
  const Place found = placeOf(DELTA_HF, place);
  return {found.param, found.index};
}

const CompiledModel::Image *CompiledModel::imageOf(uint32_t rank,
                                                   uint32_t chunk,
                                                   const std::string &param,
                                                   const Index &index) const {
  const uint32_t at = find(DELTA_SOURCE, rank, chunk, param);
  const delta_param_info_t &info = sides[DELTA_SOURCE].infos.at(rank).at(at);
  const int64_t element =
      flat(sides[DELTA_SOURCE].params.at(rank)[at].shape, index);
  const auto shard = images.find(shardOf(rank, info));
  if (info.is_copy || shard == images.end())
    return nullptr;
  const Image &image = shard->second.at(size_t(element));
  return image.hf ? &image : nullptr;
}

std::optional<Element> CompiledModel::hfOf(uint32_t rank, uint32_t chunk,
                                           const std::string &param,
                                           const Index &index) const {
  const Image *image = imageOf(rank, chunk, param, index);
  if (!image)
    return std::nullopt;
  return elementOf(*image->hf);
}

std::optional<Element> CompiledModel::rowOf(uint32_t rank,
                                            const std::string &param,
                                            int64_t row) const {
  const Index shape = shapeOf(DELTA_SOURCE, rank, 0, param);
  std::optional<Element> out;
  for (int64_t column = 0; column < shape.at(1); ++column) {
    std::optional<Element> found = hfOf(rank, param, {row, column});
    if (found) {
      if (found->index.size() != 2 || found->index.back() != column)
        throw std::runtime_error(param + ": another column");
      found->index.pop_back();
    }
    if (column > 0 && !(found == out))
      throw std::runtime_error(param + ": columns are not alike");
    out = found;
  }
  return out;
}

std::vector<Place> CompiledModel::destinationsOf(uint32_t rank, uint32_t chunk,
                                                 const std::string &param,
                                                 const Index &index) const {
  std::vector<Place> out;
  if (const Image *image = imageOf(rank, chunk, param, index))
    for (const delta_place_t &place : image->destinations)
      out.push_back(placeOf(DELTA_DESTINATION, place));
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<Place> CompiledModel::sourcesOf(const std::string &tensor,
                                            const Index &index) const {
  const uint32_t at = find(DELTA_HF, 0, 0, tensor);
  const int64_t element = flat(params(DELTA_HF, 0)[at].shape, index);
  std::vector<Place> out;
  for (uint32_t rank = 0; rank < numRanks(DELTA_SOURCE); ++rank)
    for (uint32_t i = 0; i < params(DELTA_SOURCE, rank).size(); ++i) {
      const delta_param_info_t &info = sides[DELTA_SOURCE].infos[rank][i];
      const auto shard = images.find(shardOf(rank, info));
      if (info.is_copy || shard == images.end())
        continue;
      for (size_t e = 0; e < shard->second.size(); ++e) {
        const auto &hf = shard->second[e].hf;
        if (hf && hf->param == at && hf->element == element)
          out.push_back(
              placeOf(DELTA_SOURCE, {rank, i, int64_t(e), DELTA_VALUE_ID, 0}));
      }
    }
  std::sort(out.begin(), out.end());
  return out;
}

size_t CompiledModel::numSendersOf(const std::string &tensor,
                                   const Index &index) const {
  const uint32_t at = find(DELTA_HF, 0, 0, tensor);
  const int64_t element = flat(params(DELTA_HF, 0)[at].shape, index);
  size_t count = 0;
  for (const auto &[key, shard] : images)
    for (const Image &image : shard)
      if (image.hf && image.hf->param == at && image.hf->element == element)
        count += image.numSenders;
  return count;
}

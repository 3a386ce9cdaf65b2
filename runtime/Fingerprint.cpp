//===- Fingerprint.cpp - Position-bound sums of rows ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/Fingerprint.h"

#include "codegen/device/IndexFunctions.h"
#include "runtime/Receiver.h"
#include "runtime/Replicas.h"
#include "runtime/Sender.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace delta::runtime;

/// Tiles of one term that a thread sums at a time.
static constexpr int64_t SumGrain = 16;

/// Name of the tensor that holds the instance of a box.
static std::string nameOf(const Side &hf, const delta_image_t &image,
                          uint32_t layer, uint32_t expert) {
  const delta_class_t &type = hf.getClass(image.class_index);
  return hf.name(
      {image.class_index, type.layer_kind == DELTA_NONE ? DELTA_NONE : layer,
       type.num_experts == 0 || type.expert_stride ? DELTA_NONE : expert});
}

static void setKeys(delta_position_t &position, const std::string &name,
                    uint64_t key) {
  position.row_key = XXH3_64bits_withSeed(name.data(), name.size(), key);
  position.column_key = delta::device::mix(position.row_key + 1);
}

/// All but the keys.
static delta_position_t placeOf(const Side &hf, const delta_image_t &image,
                                uint32_t expert) {
  const delta_class_t &type = hf.getClass(image.class_index);
  delta_position_t position = {};
  position.offset = image.offset + hf.expertOffset(type, expert);
  position.stride = image.stride;
  position.num_columns = type.rank ? type.shape[type.rank - 1] : 1;
  return position;
}

delta_position_t delta::runtime::positionOf(const delta_tables_t &tables,
                                            const Side &hf,
                                            const delta_box_t &box,
                                            uint32_t layer, uint32_t expert,
                                            uint64_t key) {
  const delta_image_t &image = tables.images[box.hf_image];
  delta_position_t position = placeOf(hf, image, expert);
  setKeys(position, nameOf(hf, image, layer, expert), key);
  return position;
}

const delta_position_t &Positions::get(size_t index, const delta_box_t &box,
                                       uint32_t layer, uint32_t expert,
                                       uint64_t key) {
  if (entries.size() <= index)
    entries.resize(index + 1);
  Entry &entry = entries[index];
  const bool isKept =
      entry.box == &box && entry.layer == layer && entry.expert == expert;
  if (isKept && entry.key == key)
    return entry.position;
  if (!isKept) {
    if (!hf)
      hf.emplace(tables, DELTA_HF);
    const delta_image_t &image = tables.images[box.hf_image];
    entry = {&box,
             layer,
             expert,
             key,
             nameOf(*hf, image, layer, expert),
             placeOf(*hf, image, expert)};
  }
  entry.key = key;
  setKeys(entry.position, entry.name, key);
  return entry.position;
}

std::vector<uint64_t>
delta::runtime::sumFingerprints(Pool &pool,
                                const std::vector<FingerprintTerm> &terms) {
  struct Piece {
    size_t term;
    int64_t begin, end;
  };
  std::vector<Piece> pieces;
  for (size_t i = 0; i < terms.size(); ++i)
    for (int64_t at = terms[i].tileBegin; at < terms[i].tileEnd; at += SumGrain)
      pieces.push_back({i, at, std::min(at + SumGrain, terms[i].tileEnd)});
  std::vector<std::atomic<uint64_t>> sums(terms.size());
  pool.run(int64_t(pieces.size()), /*grain=*/1,
           [&](int64_t begin, int64_t, uint32_t) {
             const Piece &piece = pieces[size_t(begin)];
             const FingerprintTerm &term = terms[piece.term];
             uint64_t sum = 0;
             for (int64_t tile = piece.begin; tile < piece.end; ++tile)
               sum += term.kernels->fingerprint(term.box, tile, term.image,
                                                term.data, term.op,
                                                &term.position);
             sums[piece.term] += sum;
           });
  return std::vector<uint64_t>(sums.begin(), sums.end());
}

/// Copies `sums` out, or only counts them when `out` is null.
static Status checkRoom(uint32_t rank, const char *call, uint64_t capacity,
                        size_t count) {
  if (capacity < count)
    return Status::error(DELTA_INVALID_ARGUMENT,
                         "rank %u: %s: room for %llu of %zu", rank, call,
                         static_cast<unsigned long long>(capacity), count);
  return {};
}

static Status giveSums(uint32_t rank, const std::vector<uint64_t> &sums,
                       uint64_t *out, uint64_t capacity) {
  Status status = checkRoom(rank, "fingerprints", capacity, sums.size());
  if (status.failed())
    return status;
  std::copy(sums.begin(), sums.end(), out);
  return {};
}

Status Sender::fingerprints(uint32_t destinationRank, uint64_t key,
                            uint64_t *out, uint64_t capacity,
                            uint64_t &outCount) {
  outCount = 0;
  const Expansion &expansion = shard->getExpansion();
  terms.clear();
  for (size_t i = 0; i < expansion.rows.size(); ++i) {
    const Row &row = expansion.rows[i];
    const std::vector<uint32_t> &set = expansion.sets[row.set];
    if (!std::binary_search(set.begin(), set.end(), destinationRank))
      continue;
    ++outCount;
    if (!out)
      continue;
    const ShardRow &bound = shard->getRows()[i];
    terms.push_back({bound.box, bound.kernels, /*image=*/nullptr, bound.source,
                     bound.op, row.tileBegin, row.tileEnd,
                     positions.get(i, *bound.box, row.layer, row.expert, key)});
  }
  if (!out)
    return {};
  std::vector<uint64_t> sums;
  Status status = packing->sumTerms(kernels, terms, sums);
  return status.failed() ? failure("fingerprints", status)
                         : giveSums(rank(), sums, out, capacity);
}

/// The values as they lie there: what is done to them on their way is the same
/// for all holders.
Status Sender::replicaSums(uint64_t key, delta_replica_sum_t *out,
                           uint64_t capacity, uint64_t &outCount) {
  const Expander expander(tables);
  const std::vector<ReplicaRow> rows = replicaRows(expander, rank());
  outCount = rows.size();
  if (!out)
    return {};
  Status status = checkRoom(rank(), "replica_sums", capacity, rows.size());
  if (status.failed())
    return status;
  const Side hf(tables, DELTA_HF);
  std::vector<FingerprintTerm> terms;
  for (const ReplicaRow &row : rows) {
    const delta_box_t &box = tables.boxes[row.box];
    const delta_class_t &type = expander.getSource().getClass(box.source_class);
    const delta_host_kernels_t *own =
        kernelsOf(kernels, type.dtype, expander.sentType(box));
    if (!own)
      return Status::error(DELTA_INTERNAL, "rank %u: no kernels for %s", rank(),
                           dtypeName(type.dtype).c_str());
    terms.push_back({&box, own, /*image=*/nullptr,
                     static_cast<const uint8_t *>(shard->getData()[row.param]) +
                         row.expertOffset * own->source_size,
                     DELTA_VALUE_ID, /*tileBegin=*/0, box.num_tiles,
                     positionOf(tables, hf, box, row.layer, row.expert, key)});
  }
  std::vector<uint64_t> sums;
  status = packing->sumTerms(kernels, terms, sums);
  if (status.failed())
    return failure("replica_sums", status);
  for (size_t i = 0; i < rows.size(); ++i)
    out[i] = {rows[i].box, rows[i].layer, rows[i].expert, rows[i].param,
              sums[i]};
  return {};
}

/// A row with several images on this rank gets one sum: theirs, if they agree,
/// else a number that is neither.
Status Receiver::fingerprints(uint32_t sourceRank, uint64_t key, uint64_t *out,
                              uint64_t capacity, uint64_t &outCount) {
  outCount = 0;
  uint32_t index = landing.findSource(sourceRank);
  if (index == DELTA_NONE)
    return {};
  terms.clear();
  std::vector<size_t> firstTerm;
  const LandingSource &source = landing.getSources()[index];
  size_t firstRow = landing.getSections()[source.firstSection].firstRow;
  size_t endRow = landing.getSections()[source.endSection - 1].endRow;
  outCount = endRow - firstRow;
  if (!out)
    return {};
  for (size_t i = firstRow; i < endRow; ++i) {
    const LandingRow &row = landing.getRows()[i];
    firstTerm.push_back(terms.size());
    for (size_t j = row.firstImage; j < row.endImage; ++j) {
      const LandingImage &image = landing.getImages()[j];
      terms.push_back({row.box, row.kernels, image.image, image.data,
                       DELTA_VALUE_ID, row.tileBegin, row.tileEnd,
                       positions.get(i, *row.box, row.layer, row.expert, key)});
    }
  }
  std::vector<uint64_t> sums, merged;
  Status status = intake->sumTerms(kernels, terms, sums);
  if (status.failed())
    return failure("fingerprints", status);
  firstTerm.push_back(terms.size());
  for (size_t i = 0; i + 1 < firstTerm.size(); ++i) {
    uint64_t sum = sums[firstTerm[i]];
    for (size_t j = firstTerm[i] + 1; j < firstTerm[i + 1]; ++j)
      if (sums[j] != sums[firstTerm[i]])
        sum = device::mix(sum) ^ sums[j];
    merged.push_back(sum);
  }
  return giveSums(landing.getRank(), merged, out, capacity);
}

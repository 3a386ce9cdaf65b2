//===- FingerprintBench.cu - Fingerprints alone, on a GPU -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Times the fingerprint of up to 10 GB of bf16 tensors, of the shapes of
/// Qwen3-30B-A3B, others, transposed ones and vectors, beside a plain read and
/// a device copy in the same run, and its update from a delta of 1 % beside the
/// advance and a plain scatter of the same elements. Checks that the full sum
/// after the delta is the sum before with the update added, and some sums
/// against their definition.
///
///   nvcc -std=c++17 -O3 -arch=sm_90 -I. test/gpu/FingerprintBench.cu
///     runtime/device/FingerprintTable.cpp -o fingerprint-bench
///   ./fingerprint-bench [expert pairs]
///
//===----------------------------------------------------------------------===//

#include "codegen/device/AdvanceKernel.cuh"
#include "codegen/device/FingerprintKernel.cuh"
#include "codegen/device/SumChangesKernel.cuh"
#include "runtime/device/FingerprintTable.h"
#include "test/gpu/Bench.cuh"
#include "test/gpu/FingerprintModel.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

using namespace delta::device;
using namespace delta::runtime;
using delta::test::FingerprintModel;
using delta::test::MatrixLayout;

using Elements = ElementList<Bf16>;

#ifndef FINGERPRINT_BLOCKS
#define FINGERPRINT_BLOCKS 3
#endif
__global__ void __launch_bounds__(FingerprintThreads, FINGERPRINT_BLOCKS)
    benchFingerprint(const FingerprintArguments arguments) {
  sumPieces<Elements>(arguments);
}
__global__ void __launch_bounds__(FingerprintThreads, 4)
    benchSumSource(const SourceSumArguments arguments) {
  sumSource<Elements>(arguments);
}
__global__ void __launch_bounds__(BlockThreads, 6)
    benchAdvance(const AdvanceArguments arguments) {
  advanceTiles<Elements>(arguments);
}

namespace {

constexpr uint64_t Limit = UINT64_MAX / 100; // 1 %

__device__ bool isChanged(int64_t element) {
  return mix(uint64_t(element) + 12345) < Limit;
}

__global__ void __launch_bounds__(256, 4)
    plainRead(const uint4 *from, int64_t count, unsigned long long *out) {
  const int64_t stride = int64_t(gridDim.x) * blockDim.x;
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  uint32_t all = 0;
  for (; i + 3 * stride < count; i += 4 * stride) {
    uint4 loaded[4];
#pragma unroll
    for (int j = 0; j < 4; ++j)
      loaded[j] = __ldcs(from + i + j * stride);
#pragma unroll
    for (int j = 0; j < 4; ++j)
      all ^= loaded[j].x ^ loaded[j].y ^ loaded[j].z ^ loaded[j].w;
  }
  for (; i < count; i += stride) {
    uint4 loaded = __ldcs(from + i);
    all ^= loaded.x ^ loaded.y ^ loaded.z ^ loaded.w;
  }
  if (all == 0x12345678) // never, but the reads have to stay
    atomicAdd(out, 1ull);
}

__global__ void plainScatter(const int64_t *places, const uint16_t *values,
                             int64_t count, uint16_t *to) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    to[places[i]] = values[i];
}

/// Changes in each tile; with lists, also where and to what: a thread goes
/// through neighboring elements, so that offsets ascend.
__global__ void listChanges(const SourceTile *tiles, const uint16_t *base,
                            TilePlace *places, uint16_t *offsets,
                            uint16_t *values, int64_t *elements) {
  __shared__ uint32_t counts[256];
  const SourceTile tile = tiles[blockIdx.x];
  auto *data = reinterpret_cast<const uint16_t *>(tile.snapshot);
  const int64_t first = data - base;
  const uint32_t share = (tile.numElements + 255) / 256;
  const uint32_t begin = min(threadIdx.x * share, tile.numElements);
  const uint32_t end = min(begin + share, tile.numElements);
  uint32_t count = 0;
  for (uint32_t i = begin; i < end; ++i)
    count += isChanged(first + i);
  counts[threadIdx.x] = count;
  __syncthreads();
  uint32_t before = 0, total = 0;
  for (uint32_t i = 0; i < 256; ++i) {
    before += i < threadIdx.x ? counts[i] : 0;
    total += counts[i];
  }
  if (!offsets) {
    if (threadIdx.x == 0)
      places[blockIdx.x].changed = total;
    return;
  }
  uint64_t at = places[blockIdx.x].offsetsAt + before;
  for (uint32_t i = begin; i < end; ++i)
    if (isChanged(first + i)) {
      offsets[at] = uint16_t(i);
      elements[at] = first + i;
      values[at++] = uint16_t(data[i] ^ 1);
    }
}

template <typename T> std::vector<T> downloaded(const T *from, size_t count) {
  std::vector<T> to(count);
  CHECK(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
  return to;
}

/// Median of nine.
double milliseconds(const std::function<void()> &body) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 11; ++i) {
    CHECK(cudaEventRecord(begin));
    body();
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float time;
    CHECK(cudaEventElapsedTime(&time, begin, end));
    if (i >= 2) // the first ones are warm-up
      times.push_back(time);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

bool isRight = true;
void require(bool holds, const char *what) {
  printf("  %-52s %s\n", what, holds ? "yes" : "NO");
  isRight &= holds;
}

/// The kernel over all terms, with its table on the device.
class FullPass {
public:
  FullPass(const std::vector<FingerprintTerm> &terms,
           const delta_kernels_t &kernels)
      : numTerms(terms.size()) {
    table.build(terms, kernels);
    std::vector<FingerprintKeys> keys;
    for (const FingerprintTerm &term : terms)
      keys.push_back({term.position.row_key, term.position.column_key});
    sums = allocate<unsigned long long>(numTerms);
    arguments = {uploaded(table.getPieces()), nullptr, uploaded(keys), sums};
  }
  void run() {
    CHECK(cudaMemsetAsync(sums, 0, numTerms * 8));
    benchFingerprint<<<unsigned(table.getPieces().size()),
                       FingerprintThreads>>>(arguments);
  }
  std::vector<unsigned long long> get() {
    run();
    CHECK(cudaDeviceSynchronize());
    return downloaded(sums, numTerms);
  }
  size_t getTableBytes() const {
    return table.getPieces().size() * sizeof(FingerprintPiece) + numTerms * 24;
  }

private:
  size_t numTerms;
  FingerprintTable table;
  unsigned long long *sums;
  FingerprintArguments arguments;
};

void checkSomeOnHost(const FingerprintModel &model, const uint16_t *data,
                     const std::vector<FingerprintTerm> &terms,
                     const std::vector<unsigned long long> &sums) {
  bool isSame = true;
  for (size_t i : {size_t(1), size_t(2), terms.size() - 2}) {
    const FingerprintModel::Matrix &matrix = model.matrices[i];
    isSame &=
        sums[i] == model.sum(downloaded(data + matrix.first,
                                        size_t(matrix.rows * matrix.columns)),
                             i, terms[i].position);
  }
  require(isSame, "sums of three tensors agree with the definition");
}

/// Tiles, rows and packed changes of a model whose memory is its snapshot.
struct Changes {
  std::vector<SourceTile> tiles;
  std::vector<FingerprintRow> rows;
  std::vector<TilePlace> places;
  uint64_t numChanged = 0;
  AdvanceArguments arguments = {};
  int64_t *elements;

  Changes(const FingerprintModel &model, uint16_t *data,
          const std::vector<FingerprintTerm> &terms) {
    delta_box_t *boxes = uploaded(model.boxes);
    int64_t *strides = uploaded(model.strides);
    for (size_t i = 0; i < model.matrices.size(); ++i) {
      const delta_box_t &box = model.boxes[i];
      rows.push_back(
          {boxes + i,
           int64_t(tiles.size()),
           0,
           strides + 2 * i,
           0,
           model.numColumns[i],
           {terms[i].position.row_key, terms[i].position.column_key}});
      for (int64_t tile = 0; tile < box.num_tiles; ++tile) {
        SourceTile out = {};
        out.snapshot = reinterpret_cast<uint8_t *>(
            data + model.matrices[i].first + elementsBefore(box, tile));
        out.numElements = tileOf(box, tile).numElements();
        out.row = uint32_t(i);
        out.elementSize = 2;
        tiles.push_back(out);
      }
    }
    SourceTile *onDevice = uploaded(tiles);
    places.resize(tiles.size());
    TilePlace *placed = uploaded(places);
    const unsigned numTiles = unsigned(tiles.size());
    listChanges<<<numTiles, 256>>>(onDevice, data, placed, nullptr, nullptr,
                                   nullptr);
    places = downloaded(placed, places.size());
    for (TilePlace &place : places) {
      place.offsetsAt = numChanged;
      place.valuesAt = numChanged * 2;
      numChanged += place.changed;
    }
    CHECK(cudaMemcpy(placed, places.data(), places.size() * sizeof(TilePlace),
                     cudaMemcpyHostToDevice));
    uint16_t *offsets = allocate<uint16_t>(numChanged);
    uint16_t *values = allocate<uint16_t>(numChanged);
    elements = allocate<int64_t>(numChanged);
    listChanges<<<numTiles, 256>>>(onDevice, data, placed, offsets, values,
                                   elements);
    CHECK(cudaDeviceSynchronize());
    arguments.tiles = onDevice;
    arguments.places = placed;
    arguments.tileEnd = int64_t(tiles.size());
    arguments.offsets = offsets;
    arguments.values = reinterpret_cast<uint8_t *>(values);
    arguments.nextTile = allocate<unsigned long long>(1);
  }
};

void report(const char *what, double ms, double bytes) {
  printf("  %-40s %8.3f ms %8.0f GB/s\n", what, ms, bytes / ms / 1e6);
}

/// The update from a delta of 1 %, beside what else is done with one.
void benchUpdate(const FingerprintModel &model, uint16_t *data, FullPass &full,
                 const std::vector<FingerprintTerm> &terms, int numProcessors) {
  const std::vector<unsigned long long> before = full.get();
  Changes changes(model, data, terms);
  SourceSumArguments arguments = {};
  arguments.changes = changes.arguments;
  arguments.rows = uploaded(changes.rows);
  arguments.sums = uploaded(before);
  const unsigned blocks = unsigned(numProcessors * 4);
  auto update = [&] {
    benchSumSource<<<blocks, FingerprintThreads>>>(arguments);
  };
  update();
  CHECK(cudaDeviceSynchronize());
  const auto updated = downloaded(arguments.sums, terms.size());
  double sum = milliseconds(update);
  arguments.isFirst = 1;
  double first = milliseconds(update);
  double scatter = milliseconds([&] {
    plainScatter<<<blocks * 4, 256>>>(
        changes.elements,
        reinterpret_cast<const uint16_t *>(changes.arguments.values),
        int64_t(changes.numChanged), data);
  });
  double advance = milliseconds([&] {
    CHECK(cudaMemsetAsync(changes.arguments.nextTile, 0, 8));
    benchAdvance<<<unsigned(numProcessors * 6), BlockThreads>>>(
        changes.arguments);
  });
  CHECK(cudaDeviceSynchronize());
  printf("  %llu elements changed (%.3f %%)\n",
         (unsigned long long)(changes.numChanged),
         double(changes.numChanged) / double(model.numElements) * 100);
  printf("  %-40s %8.3f ms\n", "fingerprint, update from the delta", sum);
  printf("  %-40s %8.3f ms\n", "advance of the same", advance);
  printf("  %-40s %8.3f ms\n", "plain scatter of the same", scatter);
  report("first sum over the snapshot", first, double(model.numElements) * 2);
  require(full.get() == updated, "sum before + update = sum after");
  require(before != updated, "the update changes something");
}

void bench(const char *what, const FingerprintModel &model, bool hasUpdate,
           int numProcessors) {
  delta_kernels_t kernels = {}; // sizes are all that is read of them
  kernels.host[DELTA_BF16].element_size = 2;
  kernels.host[DELTA_BF16].source_size = 2;
  const double numBytes = double(model.numElements) * 2;
  printf("%s: %zu tensors, %.3f GB\n", what, model.matrices.size(),
         numBytes / 1e9);
  uint16_t *data = allocate<uint16_t>(size_t(model.numElements));
  uint16_t *other = allocate<uint16_t>(size_t(model.numElements));
  auto *out = allocate<unsigned long long>(1);
  fillWeights<<<4096, 256>>>(data, model.numElements, 7);
  double copy = milliseconds([&] {
    CHECK(cudaMemcpyAsync(other, data, size_t(numBytes),
                          cudaMemcpyDeviceToDevice));
  });
  report("device copy (bytes read and written)", copy, 2 * numBytes);
  double read = milliseconds([&] {
    plainRead<<<unsigned(numProcessors * 4), 256>>>(
        reinterpret_cast<const uint4 *>(data), model.numElements / 8, out);
  });
  report("plain read", read, numBytes);
  CHECK(cudaFree(other));
  const std::vector<FingerprintTerm> terms = model.terms(data, kernels);
  FullPass full(terms, kernels);
  double pass = milliseconds([&] { full.run(); });
  report("fingerprint, full pass", pass, numBytes);
  printf("  = %.3f of the plain read, %.3f of a read at the copy's rate\n",
         pass / read, pass / (copy / 2));
  printf("  its table: %.2f MB, %.4f %% of the data\n",
         double(full.getTableBytes()) / 1e6,
         double(full.getTableBytes()) / numBytes * 100);
  checkSomeOnHost(model, data, terms, full.get());
  if (hasUpdate)
    benchUpdate(model, data, full, terms, numProcessors);
  CHECK(cudaFree(data));
}

/// Embedding, experts and head of one rank.
FingerprintModel wholeModel(int64_t numPairs, MatrixLayout layout) {
  FingerprintModel model;
  model.add(151936, 2048, layout);
  for (int64_t i = 0; i < numPairs; ++i) {
    model.add(1536, 2048, layout);
    model.add(2048, 768, layout);
  }
  model.add(151936, 2048, layout);
  return model;
}

/// Three matrices an expert, as their tensors are.
FingerprintModel experts(int64_t count, MatrixLayout layout) {
  FingerprintModel model;
  for (int64_t i = 0; i < count; ++i) {
    model.add(768, 2048, layout);
    model.add(768, 2048, layout);
    model.add(2048, 768, layout);
  }
  return model;
}

FingerprintModel dense(int64_t count) {
  FingerprintModel model;
  for (int64_t i = 0; i < count; ++i) {
    model.add(4096, 2048, MatrixLayout::Rows);
    model.add(2048, 4096, MatrixLayout::Rows);
    model.add(1024, 2880, MatrixLayout::Rows);
  }
  return model;
}

FingerprintModel vectors(int64_t count) {
  FingerprintModel model;
  for (int64_t i = 0; i < count; ++i) {
    model.add(1, 2048, MatrixLayout::Rows);
    model.add(1, 128, MatrixLayout::Rows);
  }
  return model;
}

} // namespace

int main(int argc, char **argv) {
  int64_t numPairs = argc > 1 ? atoll(argv[1]) : 963;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  int driver, runtime;
  CHECK(cudaDriverGetVersion(&driver));
  CHECK(cudaRuntimeGetVersion(&runtime));
  printf("%s, driver %d, runtime %d\n", properties.name, driver, runtime);
  const int processors = properties.multiProcessorCount;
  bench("a run a row", wholeModel(numPairs, MatrixLayout::Rows),
        /*hasUpdate=*/true, processors);
  bench("each one run", wholeModel(numPairs, MatrixLayout::Flat),
        /*hasUpdate=*/true, processors);
  bench("experts", experts(numPairs, MatrixLayout::Rows), /*hasUpdate=*/false,
        processors);
  bench("experts, transposed", experts(numPairs / 2, MatrixLayout::Transposed),
        /*hasUpdate=*/false, processors);
  bench("dense", dense(numPairs / 8), /*hasUpdate=*/false, processors);
  bench("vectors", vectors(193), /*hasUpdate=*/false, processors);
  return isRight ? 0 : 1;
}

//===- FingerprintBench.cu - Fingerprints alone, on a GPU -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Times the fingerprint of 10 GB of bf16 tensors, of the shapes of
/// Qwen3-30B-A3B, beside a plain read and a device copy in the same run, and
/// its update from a delta of 1 % beside the advance and a plain scatter of the
/// same elements. Checks that the full sum after the delta is the sum before
/// with the update added, and some sums against their definition.
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

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

using namespace delta::device;
using namespace delta::runtime;

using Elements = ElementList<Bf16>;

__global__ void __launch_bounds__(FingerprintThreads, 4)
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

/// Matrices of bf16 one behind the other, each one box.
struct Model {
  struct Tensor {
    int64_t rows, columns, first;
  };
  std::vector<Tensor> tensors;
  int64_t numElements = 0;
  bool isFlat; ///< a box is one run, as neighboring rows are coalesced
  std::vector<delta_box_t> boxes;
  std::vector<int64_t> strides; ///< two a tensor

  Model(int64_t numPairs, bool isFlat) : isFlat(isFlat) {
    add(151936, 2048);
    for (int64_t i = 0; i < numPairs; ++i) {
      add(1536, 2048);
      add(2048, 768);
    }
    add(151936, 2048);
    for (const Tensor &tensor : tensors) {
      delta_box_t box = {};
      box.num_loops = isFlat ? 1 : 2;
      if (isFlat) {
        box.extent[0] = tensor.rows * tensor.columns;
        box.source_stride[0] = 1;
        box.tile_runs = 1;
        box.tile_columns = DELTA_MAX_TILE;
        strides.push_back(1);
      } else {
        box.extent[0] = tensor.rows;
        box.extent[1] = box.source_stride[0] = tensor.columns;
        box.source_stride[1] = 1;
        box.tile_runs = uint32_t(DELTA_MAX_TILE / tensor.columns);
        box.tile_columns = uint32_t(tensor.columns);
        strides.push_back(tensor.columns);
      }
      strides.push_back(1);
      int64_t across = isFlat ? box.tile_columns : box.tile_runs;
      box.num_tiles = (box.extent[0] + across - 1) / across;
      boxes.push_back(box);
    }
  }
  void add(int64_t rows, int64_t columns) {
    tensors.push_back({rows, columns, numElements});
    numElements += rows * columns;
  }
  std::vector<FingerprintTerm> terms(const uint16_t *data,
                                     const delta_kernels_t &kernels) const {
    std::vector<FingerprintTerm> terms;
    for (size_t i = 0; i < tensors.size(); ++i)
      terms.push_back(
          {&boxes[i],
           &kernels.host[DELTA_BF16],
           nullptr,
           data + tensors[i].first,
           DELTA_VALUE_ID,
           0,
           boxes[i].num_tiles,
           {0, &strides[2 * i], tensors[i].columns, mix(i), mix(i + 1000000)}});
    return terms;
  }
};

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

void checkSomeOnHost(const Model &model, const uint16_t *data,
                     const std::vector<FingerprintTerm> &terms,
                     const std::vector<unsigned long long> &sums) {
  bool isSame = true;
  for (size_t i : {size_t(1), size_t(2), terms.size() - 2}) {
    std::vector<uint16_t> copy =
        downloaded(data + model.tensors[i].first,
                   size_t(model.tensors[i].rows * model.tensors[i].columns));
    const delta_position_t &position = terms[i].position;
    uint64_t sum = 0;
    for (size_t at = 0; at < copy.size(); ++at)
      sum += copy[at] *
             weight(position.row_key, int64_t(at) / position.num_columns) *
             weight(position.column_key, int64_t(at) % position.num_columns);
    isSame &= sum == sums[i];
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

  Changes(const Model &model, uint16_t *data,
          const std::vector<FingerprintTerm> &terms) {
    delta_box_t *boxes = uploaded(model.boxes);
    int64_t *strides = uploaded(model.strides);
    for (size_t i = 0; i < model.tensors.size(); ++i) {
      const delta_box_t &box = model.boxes[i];
      rows.push_back(
          {boxes + i,
           int64_t(tiles.size()),
           0,
           strides + 2 * i,
           0,
           model.tensors[i].columns,
           {terms[i].position.row_key, terms[i].position.column_key}});
      for (int64_t tile = 0; tile < box.num_tiles; ++tile) {
        SourceTile out = {};
        out.snapshot = reinterpret_cast<uint8_t *>(
            data + model.tensors[i].first + elementsBefore(box, tile));
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

void bench(int64_t numPairs, bool isFlat, int numProcessors) {
  delta_kernels_t kernels = {}; // sizes are all that is read of them
  kernels.host[DELTA_BF16].element_size = 2;
  kernels.host[DELTA_BF16].source_size = 2;
  Model model(numPairs, isFlat);
  const double numBytes = double(model.numElements) * 2;
  printf("%zu tensors, %.2f GB, %s\n", model.tensors.size(), numBytes / 1e9,
         isFlat ? "each one run" : "a run a row");
  uint16_t *data = allocate<uint16_t>(size_t(model.numElements));
  uint16_t *other = allocate<uint16_t>(size_t(model.numElements));
  auto *out = allocate<unsigned long long>(1);
  fillWeights<<<4096, 256>>>(data, model.numElements, 7);
  auto report = [&](const char *what, double ms, double bytes) {
    printf("  %-40s %8.3f ms %8.0f GB/s\n", what, ms, bytes / ms / 1e6);
  };
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
  const std::vector<unsigned long long> before = full.get();
  checkSomeOnHost(model, data, terms, before);

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
  report("first sum over the snapshot", first, numBytes);
  require(full.get() == updated, "sum before + update = sum after");
  require(before != updated, "the update changes something");
  CHECK(cudaFree(data));
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
  for (bool isFlat : {false, true})
    bench(numPairs, isFlat, properties.multiProcessorCount);
  return isRight ? 0 : 1;
}

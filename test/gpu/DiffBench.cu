//===- DiffBench.cu - The sender's kernels alone, on a GPU ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Times compare and pack, seal, advance and gather over a shard of plain bf16
/// tiles, beside a device copy in the same run, and checks on the device that
/// snapshot + packed delta = weights. For tuning; delta-bench measures plans.
///
///   nvcc -std=c++17 -O3 -arch=sm_90 -I. test/gpu/DiffBench.cu -o diff-bench
///   ./diff-bench [number of tiles]
///
//===----------------------------------------------------------------------===//

#include "codegen/device/AdvanceKernel.cuh"
#include "codegen/device/DiffKernel.cuh"
#include "codegen/device/SealKernel.cuh"
#include "test/gpu/Bench.cuh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

using namespace delta::device;

#ifndef BENCH_BLOCKS
#define BENCH_BLOCKS 1
#endif

using Elements = ElementList<Bf16>;

__global__ void __launch_bounds__(DiffThreads, BENCH_BLOCKS)
    benchDiff(const DiffArguments arguments) {
  diffTiles<Elements>(arguments);
}
__global__ void __launch_bounds__(BlockThreads, 4)
    benchSeal(const SealArguments arguments) {
  sealMessages<Elements>(arguments);
}
__global__ void __launch_bounds__(BlockThreads, 8)
    benchAdvance(const AdvanceArguments arguments) {
  advanceTiles<Elements>(arguments);
}

/// Moves a random share of the elements by one ulp.
__global__ void change(uint16_t *to, int64_t count, uint64_t seed,
                       uint64_t limit) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    if (weight(seed, i) < limit || limit == ~uint64_t(0))
      to[i] ^= 1;
}

__global__ void countDifferences(const uint4 *a, const uint4 *b, int64_t count,
                                 unsigned long long *out) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  unsigned long long found = 0;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    uint4 x = __ldcs(a + i), y = __ldcs(b + i);
    found += x.x != y.x || x.y != y.y || x.z != y.z || x.w != y.w;
  }
  if (found)
    atomicAdd(out, found);
}

__global__ void plainScatter(const int64_t *places, const uint16_t *values,
                             int64_t count, uint16_t *to) {
  int64_t stride = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += stride)
    if (places[i] >= 0) // no gap between sections
      to[places[i]] = values[i];
}

/// Places of the packed elements, for the plain scatter.
__global__ void expandPlaces(const TilePlace *tiles, int64_t numTiles,
                             const uint16_t *offsets, const uint8_t *values,
                             int64_t *places, uint16_t *out) {
  for (int64_t t = blockIdx.x; t < numTiles; t += gridDim.x) {
    if (tiles[t].isDense)
      continue;
    for (uint32_t i = threadIdx.x; i < tiles[t].changed; i += blockDim.x) {
      uint64_t at = tiles[t].offsetsAt + i;
      places[at] = t * DELTA_MAX_TILE + offsets[at];
      out[at] =
          reinterpret_cast<const uint16_t *>(values + tiles[t].valuesAt)[i];
    }
  }
}

namespace {

template <typename T> void upload(T *to, const std::vector<T> &from) {
  CHECK(cudaMemcpy(to, from.data(), from.size() * sizeof(T),
                   cudaMemcpyHostToDevice));
}

double milliseconds(int rounds, const std::function<void()> &before,
                    const std::function<void()> &body) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < rounds; ++i) {
    before();
    CHECK(cudaEventRecord(begin));
    body();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float time;
    CHECK(cudaEventElapsedTime(&time, begin, end));
    times.push_back(time);
  }
  CHECK(cudaGetLastError());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

} // namespace

int main(int argc, char **argv) {
  const int64_t numTiles = argc > 1 ? atoll(argv[1]) : 78811;
  const int64_t count = numTiles * DELTA_MAX_TILE;
  const uint64_t numBytes = uint64_t(count) * 2;
  constexpr int Rounds = 9;
  constexpr uint32_t NumSections = 5;
  int processors;
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));

  uint16_t *weights = allocate<uint16_t>(count);
  uint16_t *snapshot = allocate<uint16_t>(count);
  fillWeights<<<processors * 8, 256>>>(weights, count, 1);
  CHECK(cudaMemcpy(snapshot, weights, numBytes, cudaMemcpyDeviceToDevice));

  // Tiles in five sections of different sizes.
  std::vector<SourceTile> tiles(numTiles);
  std::vector<SectionPlan> sections(NumSections);
  uint64_t headBytes = 0;
  for (uint32_t s = 0; s < NumSections; ++s) {
    sections[s].firstTile = s ? sections[s - 1].endTile : 0;
    sections[s].endTile = numTiles * (s + 1) * (s + 1) / 25;
    sections[s].headAt = headBytes;
    sections[s].isEven = 1;
    headBytes += headRoom(sections[s].endTile - sections[s].firstTile);
  }
  for (int64_t t = 0; t < numTiles; ++t) {
    uint32_t section = 0;
    while (t >= sections[section].endTile)
      ++section;
    tiles[t] = {reinterpret_cast<uint8_t *>(weights + t * DELTA_MAX_TILE),
                reinterpret_cast<uint8_t *>(snapshot + t * DELTA_MAX_TILE),
                DELTA_MAX_TILE,
                0,
                section,
                ContiguousPath,
                2,
                {}};
  }
  // Every second row of 2048 elements: runs.
  delta_box_t box = {};
  box.num_loops = 2;
  box.extent[0] = numTiles * 16;
  box.extent[1] = 2048;
  box.source_stride[0] = 4096;
  box.source_stride[1] = 1;
  box.tile_runs = 32;
  box.tile_columns = 2048;
  box.num_tiles = numTiles / 2;
  delta_box_t *boxes = uploaded(std::vector<delta_box_t>{box});
  SourceRow *rows = allocate<SourceRow>(1);
  upload(rows, std::vector<SourceRow>{
                   {boxes, reinterpret_cast<uint8_t *>(weights), 0, 0, 0, 1}});

  SourceTile *deviceTiles = allocate<SourceTile>(numTiles);
  upload(deviceTiles, tiles);
  SectionPlan *deviceSections = allocate<SectionPlan>(NumSections);
  upload(deviceSections, sections);
  SealMessage *messages = allocate<SealMessage>(2);
  upload(messages, std::vector<SealMessage>{{0, 0, 3}, {1, 3, 5}});
  uint32_t *messageSections = allocate<uint32_t>(NumSections);
  upload(messageSections, std::vector<uint32_t>{0, 1, 2, 3, 4});

  // What is cleared before each sync lies together.
  uint64_t at = 0;
  auto place = [&at](uint64_t size) {
    uint64_t begin = at;
    at += (size + 255) / 256 * 256;
    return begin;
  };
  uint64_t lookBackAt = place(numTiles * 8),
           inclusiveAt = place(numTiles * sizeof(TileSums)),
           countersAt = place(256),
           placesAt = place(sizeof(SectionPlace) * NumSections),
           sumsAt = place(8 * NumSections), headsAt = place(headBytes);
  uint8_t *clear = allocate<uint8_t>(at);

  DiffArguments diff = {};
  diff.tiles = deviceTiles;
  diff.rows = rows;
  diff.sections = deviceSections;
  diff.roundEnd = diff.tileEnd = numTiles;
  diff.lookBack = reinterpret_cast<unsigned long long *>(clear + lookBackAt);
  diff.inclusive = reinterpret_cast<unsigned long long *>(clear + inclusiveAt);
  diff.nextTile = reinterpret_cast<unsigned long long *>(clear + countersAt);
  diff.totals = reinterpret_cast<DiffTotals *>(clear + countersAt + 64);
  diff.sectionPlaces = reinterpret_cast<SectionPlace *>(clear + placesAt);
  diff.heads = clear + headsAt;

  diff.places = allocate<TilePlace>(numTiles);
  diff.capacity = uint64_t(count);
  diff.offsets = allocate<uint16_t>(count / 2 + 4096);
  diff.values = allocate<uint8_t>(numBytes + 4096);
  SealArguments seal = {};
  seal.sections = deviceSections;
  seal.sectionPlaces = diff.sectionPlaces;
  seal.numSections = NumSections;
  seal.numMessages = 2;
  seal.heads = diff.heads;
  seal.offsets = diff.offsets;
  seal.values = diff.values;
  seal.messages = messages;
  seal.messageSections = messageSections;
  seal.sums = reinterpret_cast<uint64_t *>(clear + sumsAt);
  seal.numDone = reinterpret_cast<uint32_t *>(clear + countersAt + 128);
  seal.headers = allocate<uint8_t>(2 * HeaderBytes);
  seal.orders = uploaded(std::vector<SyncOrders>(1));
  seal.totals = diff.totals;
  AdvanceArguments advance = {};
  advance.tiles = deviceTiles;
  advance.places = diff.places;
  advance.tileEnd = numTiles;
  advance.offsets = diff.offsets;
  advance.values = diff.values;
  advance.nextTile =
      reinterpret_cast<unsigned long long *>(clear + countersAt + 192);
  unsigned long long *found = allocate<unsigned long long>(1);

  // All that BENCH_BLOCKS blocks can share.
  int shared, reserved, optIn;
  CHECK(cudaDeviceGetAttribute(&shared,
                               cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0));
  CHECK(cudaDeviceGetAttribute(&reserved,
                               cudaDevAttrReservedSharedMemoryPerBlock, 0));
  CHECK(cudaDeviceGetAttribute(&optIn, cudaDevAttrMaxSharedMemoryPerBlockOptin,
                               0));
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, benchDiff));
  const int dynamic = (std::min(shared / BENCH_BLOCKS - reserved, optIn) -
                       int(attributes.sharedSizeBytes)) /
                      16 * 16;
  printf(
      "shared memory: %d static, %d dynamic, room %d; %d registers, %d local\n",
      int(attributes.sharedSizeBytes), dynamic,
      (dynamic - int(RingBytes)) / int(NumHeld * NumWorkerWarps * 4),
      attributes.numRegs, int(attributes.localSizeBytes));
  CHECK(cudaFuncSetAttribute(
      benchDiff, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic));
  int resident;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, benchDiff,
                                                      DiffThreads, dynamic));
  int residentAdvance;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &residentAdvance, benchAdvance, BlockThreads, 0));
  auto clearAll = [&] { CHECK(cudaMemsetAsync(clear, 0, at)); };
  auto run = [&] {
    clearAll();
    benchDiff<<<processors * resident, DiffThreads, dynamic>>>(diff);
  };
  auto nothing = [] {};

  double copy = milliseconds(Rounds, nothing, [&] {
    CHECK(cudaMemcpyAsync(diff.values, weights,
                          std::min<uint64_t>(numBytes, uint64_t(4) << 30),
                          cudaMemcpyDeviceToDevice));
  });
  double copyRate = 2.0 *
                    double(std::min<uint64_t>(numBytes, uint64_t(4) << 30)) /
                    copy * 1e-6;
  double limit = 2.0 * double(numBytes) / copyRate * 1e-6;
  double read = milliseconds(Rounds, nothing, [&] {
    countDifferences<<<processors * 8, 256>>>(
        reinterpret_cast<uint4 *>(weights), reinterpret_cast<uint4 *>(snapshot),
        int64_t(numBytes / 16), found);
  });
  printf("%lld tiles, %.2f GB, %d blocks a multiprocessor; device copy %.0f "
         "GB/s, so both buffers %.3f ms; plain compare %.3f ms\n",
         static_cast<long long>(numTiles), double(numBytes) * 1e-9, resident,
         copyRate, limit, read);

  bool fine = true;
  for (double share : {0.0, 0.0003, 0.01, 0.03, 0.08, 1.0}) {
    change<<<processors * 8, 256>>>(weights, count, 77 + uint64_t(share * 1e6),
                                    share >= 1 ? ~uint64_t(0)
                                               : uint64_t(share * 0x1p64));
    run(); // warm
    double diffTime = milliseconds(Rounds, nothing, run);
    double sealTime = milliseconds(
        Rounds,
        [&] {
          CHECK(cudaMemsetAsync(clear + sumsAt, 0, 8 * NumSections));
          CHECK(cudaMemsetAsync(clear + countersAt + 128, 0, 4));
        },
        [&] { benchSeal<<<processors * 4, BlockThreads>>>(seal); });
    DiffTotals totals;
    CHECK(cudaMemcpy(&totals, diff.totals, sizeof(totals),
                     cudaMemcpyDeviceToHost));
    double scatterTime = 0;
    if (totals.changed && share < 0.5 && totals.sent * 10 < numBytes) {
      int64_t *places = allocate<int64_t>(totals.sent + 4096);
      uint16_t *values = allocate<uint16_t>(totals.sent + 4096);
      CHECK(cudaMemset(places, 0xff, (totals.sent + 4096) * 8));
      expandPlaces<<<processors * 8, 256>>>(diff.places, numTiles, diff.offsets,
                                            diff.values, places, values);
      // Into a copy of the weights, which they do not change.
      scatterTime = milliseconds(Rounds, nothing, [&] {
        plainScatter<<<processors * 8, 256>>>(places, values,
                                              int64_t(totals.sent), weights);
      });
      CHECK(cudaFree(places));
      CHECK(cudaFree(values));
    }
    double advanceTime = milliseconds(
        share ? Rounds : 1,
        [&] { CHECK(cudaMemsetAsync(clear + countersAt + 192, 0, 8)); },
        [&] {
          benchAdvance<<<processors * residentAdvance, BlockThreads>>>(advance);
        });
    CHECK(cudaMemset(found, 0, 8));
    countDifferences<<<processors * 8, 256>>>(
        reinterpret_cast<uint4 *>(weights), reinterpret_cast<uint4 *>(snapshot),
        int64_t(numBytes / 16), found);
    unsigned long long left;
    CHECK(cudaMemcpy(&left, found, 8, cudaMemcpyDeviceToHost));
    fine &= left == 0;
    printf(
        "p %7.4f %%: changed %llu, diff + pack %.3f ms = %.1f %%, seal %.3f, "
        "advance %.3f (plain scatter %.3f), left different %llu\n",
        share * 100, static_cast<unsigned long long>(totals.changed), diffTime,
        100 * limit / diffTime, sealTime, advanceTime, scatterTime, left);
  }

  // Gather of everything, in one piece and by runs.
  DiffArguments whole = diff;
  whole.mode = DiffWhole;
  auto gather = [&](const DiffArguments &arguments, const char *what,
                    double bytes) {
    double time = milliseconds(Rounds, nothing, [&] {
      clearAll();
      benchDiff<<<processors * resident, DiffThreads, dynamic>>>(arguments);
    });
    printf("%s: %.3f ms = %.1f %% of a copy\n", what, time,
           100 * (2 * bytes / copyRate * 1e-6) / time);
  };
  gather(whole, "gather, contiguous", double(numBytes));
  whole.valueSums = seal.sums;
  gather(whole, "gather with its checksums", double(numBytes));
  whole.valueSums = nullptr;
  for (int64_t t = 0; t < numTiles; ++t)
    tiles[t].path = RunsPath;
  upload(deviceTiles, tiles);
  whole.roundEnd = whole.tileEnd = numTiles / 2;
  gather(whole, "gather, runs", double(numBytes) / 2);
  // What was gathered is the snapshot of these tiles.
  for (int64_t t = 0; t < numTiles; ++t)
    tiles[t].snapshot = diff.values + t * DELTA_MAX_TILE * 2;
  upload(deviceTiles, tiles);
  DiffArguments runs = diff;
  runs.roundEnd = runs.tileEnd = numTiles / 2;
  double time = milliseconds(Rounds, nothing, [&] {
    clearAll();
    benchDiff<<<processors * resident, DiffThreads, dynamic>>>(runs);
  });
  DiffTotals totals;
  CHECK(
      cudaMemcpy(&totals, diff.totals, sizeof(totals), cudaMemcpyDeviceToHost));
  printf("compare by runs, %llu changed: %.3f ms = %.1f %%\n",
         static_cast<unsigned long long>(totals.changed), time,
         100 * limit / 2 / time);

  // A snapshot in pinned host memory, read in place.
  const int64_t pinnedTiles = std::min<int64_t>(numTiles, 16384);
  void *pinned;
  CHECK(cudaHostAlloc(&pinned, uint64_t(pinnedTiles) * DELTA_MAX_TILE * 2,
                      cudaHostAllocMapped));
  CHECK(cudaMemcpy(pinned, weights, uint64_t(pinnedTiles) * DELTA_MAX_TILE * 2,
                   cudaMemcpyDeviceToHost));
  double up = milliseconds(5, nothing, [&] {
    CHECK(cudaMemcpyAsync(diff.values, pinned,
                          uint64_t(pinnedTiles) * DELTA_MAX_TILE * 2,
                          cudaMemcpyHostToDevice));
  });
  for (int64_t t = 0; t < pinnedTiles; ++t) {
    tiles[t].path = ContiguousPath;
    tiles[t].snapshot = static_cast<uint8_t *>(pinned) + t * DELTA_MAX_TILE * 2;
  }
  upload(deviceTiles, tiles);
  DiffArguments fromHost = diff;
  fromHost.roundEnd = fromHost.tileEnd = pinnedTiles;
  for (double share : {0.0, 0.01}) {
    change<<<processors * 8, 256>>>(weights, pinnedTiles * DELTA_MAX_TILE, 5,
                                    uint64_t(share * 0x1p64));
    double inPlace = milliseconds(5, nothing, [&] {
      clearAll();
      benchDiff<<<processors * resident, DiffThreads, dynamic>>>(fromHost);
    });
    advance.tileEnd = pinnedTiles;
    double back = milliseconds(
        1, [&] { CHECK(cudaMemsetAsync(clear + countersAt + 192, 0, 8)); },
        [&] {
          benchAdvance<<<processors * residentAdvance, BlockThreads>>>(advance);
        });
    double bytes = double(pinnedTiles) * DELTA_MAX_TILE * 2;
    printf("pinned, p %.2f %%: copy up %.1f GB/s, compare in place %.1f GB/s = "
           "%.1f %%; advance %.1f ms = %.1f GB/s of shard\n",
           share * 100, bytes / up * 1e-6, bytes / inPlace * 1e-6,
           100 * up / inPlace, back, bytes / back * 1e-6);
  }
  printf(fine ? "ok\n" : "FAILED\n");
  return !fine;
}

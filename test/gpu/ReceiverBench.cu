//===- ReceiverBench.cu - The receiver's kernels on a GPU -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Times the kernels of a receiver without a plan and without a run time: one
/// message with Bernoulli(p) changes of bf16 tiles of 65,536 elements, into
/// contiguous tiles or into rows that lie apart, against a plain scatter of the
/// same elements by 64-bit indices. Everything that was written is compared
/// with the message afterwards. A program of its own, for machines with a GPU:
///
///   nvcc -std=c++17 -O2 -arch=sm_90 -I. test/gpu/ReceiverBench.cu -o bench
///   ./bench [GB of parameters = 10.33] [share = 0.01] [dense = 0]
///
//===----------------------------------------------------------------------===//

#include "codegen/device/CompareKernel.cuh"
#include "codegen/device/FrameKernel.cuh"
#include "codegen/device/ScatterKernel.cuh"
#include "codegen/device/StageKernel.cuh"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

using namespace delta::device;

struct Elements {};
#define KERNEL(name, Arguments, body, blocks)                                  \
  __global__ void __launch_bounds__(256, blocks)                               \
      name(const Arguments arguments) {                                        \
    body<Elements>(arguments);                                                 \
  }
KERNEL(frames, StageArguments, walkFrames, 4)
KERNEL(sections, StageArguments, sumSections, 4)
KERNEL(heads, StageArguments, listTiles, 4)
KERNEL(offsets, StageArguments, checkOffsets, 8)
KERNEL(scatter, ScatterArguments, scatterTiles, 4)
KERNEL(compare, CompareArguments, compareTiles, 3)

__global__ void plainScatter(uint16_t *to, const int64_t *index,
                             const uint16_t *values, uint64_t count) {
  uint64_t numThreads = uint64_t(gridDim.x) * blockDim.x;
  for (uint64_t i = uint64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += numThreads)
    to[index[i]] = values[i];
}

static void check(cudaError_t error, const char *call) {
  if (error == cudaSuccess)
    return;
  fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(error));
  exit(1);
}
#define CHECK(call) check(call, #call)

template <typename T> static T *upload(const std::vector<T> &list) {
  T *out = nullptr;
  CHECK(cudaMalloc(&out, std::max<size_t>(1, list.size()) * sizeof(T)));
  CHECK(cudaMemcpy(out, list.data(), list.size() * sizeof(T),
                   cudaMemcpyHostToDevice));
  return out;
}
template <typename T> static T *room(uint64_t count) {
  T *out = nullptr;
  CHECK(cudaMalloc(&out, std::max<uint64_t>(1, count) * sizeof(T)));
  return out;
}

/// Milliseconds of one call, the median of nine.
static double timeOf(const std::function<void()> &body) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  std::vector<float> times;
  for (int i = 0; i < 10; ++i) {
    CHECK(cudaEventRecord(begin));
    body();
    CHECK(cudaEventRecord(end));
    CHECK(cudaEventSynchronize(end));
    float time;
    CHECK(cudaEventElapsedTime(&time, begin, end));
    if (i) // the first one warms up
      times.push_back(time);
  }
  CHECK(cudaGetLastError());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

static constexpr uint32_t TileElements = 65536;

/// A message of one section, and the places of its elements.
struct Sync {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> index; ///< of a parameter in tile order
  std::vector<uint16_t> values;
};

static Sync makeSync(uint64_t numTiles, double share, bool dense) {
  Sync out;
  std::mt19937_64 random(1);
  std::vector<uint16_t> codes, offsets;
  double scale = 1 / std::log1p(-std::min(share, 0.999999));
  for (uint64_t tile = 0; tile < numTiles; ++tile) {
    size_t before = offsets.size();
    for (double at = 0; !dense; ++at) {
      at += std::floor(std::log((random() >> 11) * 0x1p-53 + 0x1p-60) * scale);
      if (at >= TileElements)
        break;
      offsets.push_back(uint16_t(at));
      out.index.push_back(int64_t(tile * TileElements + uint64_t(at)));
    }
    codes.push_back(dense ? DenseCode : uint16_t(offsets.size() - before));
    if (codes.back() == 0) // a tile without changes would be absent
      codes.back() = 1, offsets.push_back(0),
      out.index.push_back(int64_t(tile * TileElements));
  }
  uint64_t numValues = dense ? numTiles * TileElements : offsets.size();
  out.values.resize(numValues);
  for (uint16_t &value : out.values)
    value = uint16_t(random());
  SectionShape shape = {numTiles, numTiles, offsets.size(), numValues * 2};
  out.bytes.resize(HeaderBytes + SectionHeaderBytes + shape.numBytes());
  uint8_t *section = out.bytes.data() + HeaderBytes;
  uint8_t *body = section + SectionHeaderBytes;
  for (uint64_t i = 0; i < numTiles; ++i)
    body[i / 8] |= uint8_t(1u << i % 8);
  memcpy(body + shape.codesBegin(), codes.data(), codes.size() * 2);
  memcpy(body + shape.offsetsBegin(), offsets.data(), offsets.size() * 2);
  memcpy(body + shape.valuesBegin(), out.values.data(), numValues * 2);
  SectionHeader header;
  header.numBytes = out.bytes.size() - HeaderBytes;
  memcpy(section, &header, sizeof(header));
  auto sum = [](const uint8_t *from, uint64_t numWords) {
    uint64_t total = 0;
    for (uint64_t i = 0; i < numWords; ++i) {
      uint64_t word;
      memcpy(&word, from + i * 8, 8);
      total += checksumTerm(word, i);
    }
    return total;
  };
  header.checksum = checksumOf(sum(section + 8, header.numBytes / 8 - 1),
                               header.numBytes - 8);
  memcpy(section, &header, sizeof(header));
  MessageHeader message;
  message.base = 1;
  message.version = 2;
  message.numSections = 1;
  message.payloadBytes = header.numBytes;
  memcpy(out.bytes.data(), &message, sizeof(message));
  uint64_t seal = checksumOf(sum(out.bytes.data(), HeaderWords) +
                                 checksumTerm(header.checksum, HeaderWords),
                             (HeaderWords + 1) * 8);
  memcpy(out.bytes.data() + HeaderBytes - 8, &seal, 8);
  return out;
}

/// One source with one section; `pitch` elements between rows of 2,048.
static DestinationTables makeTables(uint64_t numTiles, uint16_t *to,
                                    int64_t pitch) {
  constexpr uint32_t Columns = 2048;
  std::vector<DestinationTile> tiles(numTiles);
  for (uint64_t i = 0; i < numTiles; ++i) {
    DestinationTile &tile = tiles[i];
    tile = {};
    // Rows of two tiles take turns where they lie apart.
    uint64_t apart = uint64_t(pitch) / Columns;
    uint64_t begin = i / apart * apart * TileElements + i % apart * Columns;
    tile.to = reinterpret_cast<uint8_t *>(to + begin);
    tile.pitch = pitch;
    tile.step = 1;
    tile.numElements = TileElements;
    tile.numColumns = Columns;
    tile.multiplier = SmallDivisor::of(Columns).multiplier;
    tile.path = pitch == Columns ? ContiguousPlace : EvenPlace;
    tile.elementSize = 2;
  }
  std::vector<DestinationSection> sections = {{0, 0, 0, int64_t(numTiles)}};
  std::vector<DestinationSource> sources = {{0, 0, 1}};
  return {upload(tiles), upload(sections), upload(sources), 1, 0};
}

int main(int argc, char **argv) {
  double gigabytes = argc > 1 ? atof(argv[1]) : 10.33;
  double share = argc > 2 ? atof(argv[2]) : 0.01;
  bool dense = argc > 3 && atoi(argv[3]);
  uint64_t numTiles = uint64_t(gigabytes * 1e9 / 2 / TileElements) & ~1ull;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  uint32_t processors = uint32_t(properties.multiProcessorCount);
  Sync sync = makeSync(numTiles, share, dense);
  uint64_t count = sync.values.size();
  printf("%s: %.2f GB in %llu tiles, %llu elements (%.3f %%), message of %.1f "
         "MB\n",
         properties.name, numTiles * TileElements * 2e-9,
         (unsigned long long)numTiles, (unsigned long long)count,
         100.0 * double(count) / double(numTiles * TileElements),
         double(sync.bytes.size()) * 1e-6);

  auto *to = room<uint16_t>(numTiles * TileElements);
  CHECK(cudaMemset(to, 0, numTiles * TileElements * 2));
  double plain = 0;
  if (!dense) {
    int64_t *index = upload(sync.index);
    uint16_t *values = upload(sync.values);
    plain = timeOf([&] {
      plainScatter<<<processors * 8, 256>>>(to, index, values, count);
    });
    CHECK(cudaFree(index));
    CHECK(cudaFree(values));
  } else {
    auto *from = room<uint16_t>(numTiles * TileElements);
    plain = timeOf([&] {
      CHECK(cudaMemcpyAsync(to, from, numTiles * TileElements * 2,
                            cudaMemcpyDeviceToDevice));
    });
    CHECK(cudaFree(from));
  }
  printf("%s %.3f ms\n", dense ? "device copy" : "plain scatter", plain);

  const uint8_t *bytes = upload(sync.bytes);
  std::vector<MessagePlace> places = {{bytes, sync.bytes.size(), 0, 0}};
  StageArguments stage = {};
  stage.messages = upload(places);
  stage.numMessages = 1;
  stage.partsOfMessage = 1;
  stage.reports = room<MessageReport>(1);
  stage.parts = room<StagedPart>(1);
  stage.segmentRoom = segmentsOf(int64_t(numTiles));
  stage.segments = room<SegmentSums>(stage.segmentRoom);
  stage.staged = room<StagedTile>(numTiles);
  stage.stagedRoom = numTiles;
  stage.totals = room<StageTotals>(1);
  uint64_t items = chunksOf(sync.bytes.size()) + stage.segmentRoom;
  auto blocks = [&](uint64_t most, uint32_t fit) {
    return uint32_t(std::min<uint64_t>(most, processors * fit));
  };
  for (int64_t pitch : {2048, 4096}) {
    stage.landing = makeTables(numTiles, to, pitch);
    auto runFrames = [&] { frames<<<1, 256>>>(stage); };
    auto runSections = [&] { sections<<<blocks(items, 4), 256>>>(stage); };
    auto runHeads = [&] {
      heads<<<blocks(stage.segmentRoom, 4), 256>>>(stage);
    };
    auto runOffsets = [&] {
      offsets<<<blocks(numTiles / 8 + 1, 8), 256>>>(stage);
    };
    ScatterArguments write = {stage.staged, numTiles, stage.landing.tiles,
                              nullptr, stage.totals};
    auto runScatter = [&] { scatter<<<blocks(numTiles, 4), 256>>>(write); };
    double t1 = timeOf(runFrames), t2 = timeOf(runSections);
    runFrames(); // sums anew
    runSections();
    double t3 = timeOf(runHeads);
    double t4 = timeOf(runOffsets);
    double together = timeOf([&] {
      runFrames();
      runSections();
      runHeads();
      runOffsets();
    });
    // Its counter is set by `frames`, which takes next to nothing.
    double both = timeOf([&] {
      runFrames();
      runScatter();
    });
    MessageReport report;
    runFrames();
    runSections();
    runHeads();
    runOffsets();
    CHECK(cudaMemcpy(&report, stage.reports, sizeof(report),
                     cudaMemcpyDeviceToHost));
    CHECK(cudaMemset(to, 0, numTiles * TileElements * 2));
    runScatter();
    runFrames();
    compare<<<blocks(numTiles, 3), 256>>>(
        {stage.staged, numTiles, stage.landing.tiles, stage.totals});
    StageTotals totals;
    CHECK(cudaMemcpy(&totals, stage.totals, sizeof(totals),
                     cudaMemcpyDeviceToHost));
    printf("%s: frames %.3f, sections %.3f, heads %.3f, offsets %.3f, stage "
           "%.3f, scatter %.3f ms (%.2fx)\n",
           pitch == 2048 ? "contiguous" : "rows apart", t1, t2, t3, t4,
           together, both - t1, (both - t1) / plain);
    if (report.flags || report.numTiles != numTiles || totals.numDiffer) {
      printf("WRONG: flags %u, %llu tiles, %llu elements differ\n",
             report.flags, report.numTiles, totals.numDiffer);
      return 1;
    }
    CHECK(cudaFree(const_cast<DestinationTile *>(stage.landing.tiles)));
  }
  return 0;
}

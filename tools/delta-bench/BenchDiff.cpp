//===- BenchDiff.cpp - delta-bench diff -----------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchDiff.h"

#include "BenchPlan.h"
#include "codegen/device/HostKernels.h"
#include "runtime/Diff.h"
#include "runtime/Inproc.h"
#include "runtime/Receiver.h"
#include "runtime/Sender.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

using namespace delta::bench;
using namespace delta::runtime;
namespace device = delta::device;

namespace {

/// Times of one stage over the rounds.
class Times {
public:
  template <typename Body> void measure(const Body &body) {
    auto begin = std::chrono::steady_clock::now();
    body();
    std::chrono::duration<double> passed =
        std::chrono::steady_clock::now() - begin;
    seconds.push_back(passed.count());
  }
  double median() {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  }

private:
  std::vector<double> seconds;
};

/// One source rank and one receiver. The shard's tiles follow each other as its
/// parameters do, so the snapshot is byte for byte the weights, and memcmp
/// reads the same two buffers as the compare.
class DiffBench {
public:
  explicit DiffBench(const DiffOptions &options);
  int run();

private:
  bool check(const Status &status) {
    if (status.failed())
      fprintf(stderr, "delta-bench: %s\n", status.getText().c_str());
    return !status.failed();
  }
  bool create();
  void fill();
  void change(uint64_t round);
  bool deliver(uint64_t version);
  bool measureUnchanged(uint64_t version);
  bool measureChanged(uint64_t version);
  uint64_t countMismatches();
  bool compareLikeMemcmp();
  void print();

  DiffOptions options;
  BenchPlan plan;
  delta_kernels_t kernels = device::allHostKernels();
  uint64_t numBytes;
  Buffer weights, received;
  const uint8_t *snapshot = nullptr;
  std::unique_ptr<BenchMemory> sourceMemory, destinationMemory;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  Inproc inproc{std::chrono::seconds(60)};
  Pool pool;
  std::unique_ptr<Diff> compareAlone;
  Times memcmpTimes, compareTimes, emptySyncTimes;
  Times diffTimes, sendTimes, stageTimes, commitTimes, advanceTimes;
  std::vector<double> packSeconds;
  delta_sync_stats_t stats = {};
};

} // namespace

DiffBench::DiffBench(const DiffOptions &options)
    : options(options), plan(options.numBytes), numBytes(plan.getNumBytes()),
      pool(options.numThreads) {}

bool DiffBench::create() {
  const delta_tables_t &tables = plan.getTables();
  for (Buffer *buffer : {&weights, &received})
    buffer->grow(numBytes);
  memset(received.data(), 0, numBytes);
  sourceMemory =
      std::make_unique<BenchMemory>(Side(tables, DELTA_SOURCE), weights.data());
  destinationMemory = std::make_unique<BenchMemory>(
      Side(tables, DELTA_DESTINATION), received.data());
  auto &from = sourceMemory->getParams();
  auto &to = destinationMemory->getParams();
  bool created =
      check(Sender::create(tables, kernels, 0, from.data(),
                           uint32_t(from.size()), /*run=*/1, options.numThreads,
                           sender)) &&
      check(Receiver::create(tables, kernels, 0, to.data(), uint32_t(to.size()),
                             /*run=*/1, options.numThreads, receiver));
  if (!created)
    return false;
  const Shard &shard = sender->getShard();
  compareAlone = std::make_unique<Diff>(shard, pool);
  shard.forEachTile(
      0, 1, [&](const TileRef &tile) { snapshot = shard.snapshotOf(tile); });
  return true;
}

/// Weights as after training: bf16 around 0.02, of either sign, never zero.
void DiffBench::fill() {
  uint16_t *elements = weights.as<uint16_t>();
  pool.run(int64_t(numBytes / 8), 1 << 16,
           [&](int64_t begin, int64_t end, uint32_t) {
             for (int64_t i = begin; i < end; ++i) {
               uint64_t random = device::weight(options.seed, i);
               for (int j = 0; j < 4; ++j, random >>= 16)
                 elements[i * 4 + j] = uint16_t(0x3c00 | (random & 0x81ff));
             }
           });
}

/// Moves a random share of the elements by one ulp.
void DiffBench::change(uint64_t round) {
  if (options.changed == 0)
    return;
  uint64_t limit =
      options.changed >= 1 ? UINT64_MAX : uint64_t(options.changed * 0x1p64);
  uint16_t *elements = weights.as<uint16_t>();
  pool.run(int64_t(numBytes / 2), 1 << 18,
           [&](int64_t begin, int64_t end, uint32_t) {
             for (int64_t i = begin; i < end; ++i)
               if (device::weight(round, i) <= limit)
                 elements[i] ^= 1;
           });
}

bool DiffBench::deliver(uint64_t version) {
  delta_transport_t transport = inproc.transport();
  bool done = true;
  auto call = [&](Times &times, const auto &body) {
    times.measure([&] { done = done && check(body()); });
  };
  call(sendTimes, [&] { return sender->send(transport); });
  call(stageTimes, [&] { return receiver->receive(transport); });
  call(commitTimes, [&] { return receiver->commit(); });
  call(advanceTimes, [&] { return sender->acknowledge(version); });
  return done;
}

/// memcmp in one piece a thread; true if the buffers are equal.
bool DiffBench::compareLikeMemcmp() {
  std::atomic<bool> equal{true};
  int64_t part =
      int64_t((numBytes + options.numThreads - 1) / options.numThreads);
  pool.run(int64_t(numBytes), part, [&](int64_t begin, int64_t end, uint32_t) {
    if (memcmp(weights.data() + begin, snapshot + begin, size_t(end - begin)) !=
        0)
      equal = false;
  });
  return equal;
}

/// memcmp, our compare and a whole empty sync, one after the other.
bool DiffBench::measureUnchanged(uint64_t version) {
  bool equal = true, done = true;
  memcmpTimes.measure([&] { equal = compareLikeMemcmp(); });
  compareTimes.measure([&] { compareAlone->run(); });
  emptySyncTimes.measure([&] {
    done = check(sender->diff(version, nullptr)) && deliver(version);
  });
  if (!equal || compareAlone->getNumChanged()) {
    fprintf(stderr, "delta-bench: weights and snapshot differ\n");
    return false;
  }
  return done;
}

bool DiffBench::measureChanged(uint64_t version) {
  change(version);
  bool done = true;
  diffTimes.measure([&] { done = check(sender->diff(version, &stats)); });
  packSeconds.push_back(stats.pack_seconds);
  return done && deliver(version);
}

/// Reads what was received through the formula of the plan, in its own words:
/// row r of a half h is row (2 * (r / 64) + h) * 64 + r % 64.
uint64_t DiffBench::countMismatches() {
  uint64_t mismatches = 0;
  for (size_t i = 0; i < sourceMemory->getParams().size(); ++i) {
    const delta_param_t &from = sourceMemory->getParams()[i];
    const delta_param_t &to = destinationMemory->getParams()[i];
    auto *sent = static_cast<const uint16_t *>(from.data);
    auto *held = static_cast<const uint16_t *>(to.data);
    int64_t rows = from.shape[0], columns = from.shape[1], half = rows / 2;
    for (int64_t row = 0; row < rows; ++row) {
      int64_t r = row % half;
      int64_t place = (2 * (r / 64) + row / half) * 64 + r % 64;
      mismatches += memcmp(sent + row * columns, held + place * columns,
                           size_t(columns) * 2) != 0;
    }
  }
  return mismatches;
}

void DiffBench::print() {
  double gigabytes = double(numBytes) * 1e-9;
  auto line = [&](const char *what, double seconds) {
    printf("%-28s %9.2f ms %8.2f GB/s\n", what, seconds * 1e3,
           gigabytes / seconds);
  };
  double plain = memcmpTimes.median(), compare = compareTimes.median();
  double empty = emptySyncTimes.median();
  printf("%.0f bytes, %u thread(s), %u rounds, medians; rates count the "
         "shard once\n",
         double(numBytes), options.numThreads, options.rounds);
  line("memcmp", plain);
  line("compare, nothing changed", compare);
  line("sync, nothing changed", empty);
  printf("compare at %.1f %% of the speed of memcmp, empty sync at %.1f %% of "
         "the compare\n",
         100 * plain / compare, 100 * compare / empty);
  if (options.changed == 0)
    return;
  std::sort(packSeconds.begin(), packSeconds.end());
  printf("changed %.4f %%: %llu elements, %.3f bytes each on the wire\n",
         100 * options.changed, static_cast<unsigned long long>(stats.changed),
         double(stats.message_bytes) / double(stats.changed));
  line("diff and pack", diffTimes.median());
  line("  of which pack", packSeconds[packSeconds.size() / 2]);
  line("send (copy)", sendTimes.median());
  line("stage", stageTimes.median());
  line("commit", commitTimes.median());
  line("advance", advanceTimes.median());
}

int DiffBench::run() {
  if (!create())
    return 1;
  fill();
  uint64_t version = 1;
  if (!check(sender->seed(version, &stats)) || !deliver(version))
    return 1;
  for (uint32_t round = 0; round < options.rounds; ++round)
    if (!measureUnchanged(++version))
      return 1;
  sendTimes = stageTimes = commitTimes = advanceTimes = Times();
  for (uint32_t round = 0; options.changed > 0 && round < options.rounds;
       ++round)
    if (!measureChanged(++version))
      return 1;
  uint64_t mismatches = countMismatches();
  print();
  if (mismatches)
    fprintf(stderr, "delta-bench: %llu rows of the receiver differ\n",
            static_cast<unsigned long long>(mismatches));
  return mismatches != 0;
}

int delta::bench::benchDiff(const DiffOptions &options) {
  try {
    return DiffBench(options).run();
  } catch (const std::exception &error) {
    fprintf(stderr, "delta-bench: %s\n", error.what());
    return 1;
  }
}

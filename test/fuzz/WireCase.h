//===- WireCase.h - Senders and a receiver for wire messages ----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The plan of the wire fuzzer: two source ranks, a receiver with every kind of
/// parameter. An input is a byte of options and messages, each behind its
/// length in 4 bytes.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_FUZZ_WIRECASE_H
#define DELTA_TEST_FUZZ_WIRECASE_H

#include "RankBytes.h"

#include "codegen/device/HostKernels.h"
#include "codegen/device/PackFormat.h"
#include "runtime/Receiver.h"
#include "runtime/Sender.h"
#include "test/unit/runtime/TestPlan.h"

#include <algorithm>
#include <cstring>

namespace delta::fuzz {

enum WireOptions : uint8_t {
  IsSeeded = 1, ///< the receiver holds version 1 already
  Seal = 2      ///< checksums are made right before staging
};

class WireCase {
public:
  static constexpr uint64_t Run = 77;

  WireCase() : plan(geometry(2), geometry(1), false, 2, 2, model()) {}

  const delta_tables_t &getTables() const { return plan.getTables(); }
  static const delta_kernels_t &getKernels() {
    static const delta_kernels_t kernels = device::allHostKernels();
    return kernels;
  }

  /// With an intake, `memory` is of its kind.
  std::unique_ptr<runtime::Receiver>
  makeReceiver(RankBytes &memory,
               std::unique_ptr<runtime::Intake> intake = nullptr) const {
    std::unique_ptr<runtime::Receiver> out;
    if (runtime::Receiver::create(
            getTables(), getKernels(), 0, memory.params.data(),
            uint32_t(memory.params.size()), Run, 1, out, std::move(intake))
            .failed())
      abort();
    return out;
  }
  std::unique_ptr<runtime::Sender> makeSender(uint32_t rank,
                                              RankBytes &memory) const {
    std::unique_ptr<runtime::Sender> out;
    if (runtime::Sender::create(getTables(), getKernels(), rank,
                                memory.params.data(),
                                uint32_t(memory.params.size()), Run, 1, out)
            .failed())
      abort();
    return out;
  }

private:
  static test::Geometry geometry(uint32_t tp) {
    test::Geometry out;
    out.tp = tp;
    return out;
  }
  static std::vector<test::Matrix> model() {
    return test::mixedModel(geometry(2), geometry(1));
  }

  test::TestPlan plan;
};

/// Cuts the bytes behind the header into sections as their sizes say, the rest
/// into the last one, and seals all.
inline void sealMessage(std::vector<uint8_t> &bytes,
                        const delta_tables_t &tables) {
  using namespace runtime;
  bytes.resize(std::max<size_t>(bytes.size(), HeaderBytes));
  bytes.resize(bytes.size() / 16 * 16);
  MessageHeader header = readHeader(bytes.data());
  std::vector<uint64_t> checksums;
  size_t at = HeaderBytes;
  while (bytes.size() - at >= SectionHeaderBytes) {
    SectionHeader section = readSectionHeader(bytes.data() + at);
    uint64_t left = bytes.size() - at;
    if (section.numBytes < SectionHeaderBytes || section.numBytes > left)
      section.numBytes = left;
    section.numBytes -= section.numBytes % 16;
    section.reserved = 0;
    section.reserved2 = 0;
    checksums.push_back(sealSection(section, bytes.data() + at));
    at += section.numBytes;
  }
  bytes.resize(at);
  header.magic = WireMagic;
  header.wireVersion = WireVersion;
  header.run = WireCase::Run;
  header.plan[0] = tables.fingerprint[0];
  header.plan[1] = tables.fingerprint[1];
  header.destination = 0;
  header.source %= 3; // the last one does not exist
  header.flags &= SeedFlag;
  header.numSections = uint32_t(checksums.size());
  header.payloadBytes = at - HeaderBytes;
  writeHeader(header, bytes.data());
  sealHeader(bytes.data(), headerChecksum(bytes.data(), checksums.data(),
                                          header.numSections));
}

/// Hands every message over; keeps what is sent where `inner` is null.
struct Collector {
  std::vector<std::vector<uint8_t>> messages;

  delta_transport_t transport() {
    delta_transport_t out = {};
    out.context = this;
    out.send = [](void *context, uint32_t, uint32_t, const delta_bytes_t *parts,
                  uint32_t numParts, delta_error_t) {
      std::vector<uint8_t> bytes;
      for (uint32_t i = 0; i < numParts; ++i) {
        auto *begin = static_cast<const uint8_t *>(parts[i].data);
        bytes.insert(bytes.end(), begin, begin + parts[i].size);
      }
      static_cast<Collector *>(context)->messages.push_back(bytes);
      return delta_status_t(DELTA_OK);
    };
    return out;
  }
};

} // namespace delta::fuzz

#endif // DELTA_TEST_FUZZ_WIRECASE_H

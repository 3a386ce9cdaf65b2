//===- Recorder.h - A transport that remembers ------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Keeps every message that is sent and passes it on, if there is somewhere to
/// pass it; can fail on purpose. Messages can be sealed anew with another
/// header.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_RUNTIME_RECORDER_H
#define DELTA_TEST_UNIT_RUNTIME_RECORDER_H

#include "Cluster.h"

#include "runtime/Wire.h"

#include <tuple>

namespace delta::test {

class Recorder {
public:
  struct Message {
    uint32_t source, destination;
    std::vector<uint8_t> bytes;

    bool operator==(const Message &other) const {
      return std::tie(source, destination, bytes) ==
             std::tie(other.source, other.destination, other.bytes);
    }
  };

  explicit Recorder(delta_transport_t inner = {}) : inner(inner) {}
  Recorder(const Recorder &) = delete;

  delta_transport_t transport() {
    delta_transport_t out = {};
    out.context = this;
    out.send = [](void *context, uint32_t source, uint32_t destination,
                  const delta_bytes_t *parts, uint32_t numParts,
                  delta_error_t error) {
      return static_cast<Recorder *>(context)->send(source, destination, parts,
                                                    numParts, error);
    };
    out.receive = [](void *context, uint32_t source, uint32_t destination,
                     delta_bytes_t *outMessage, delta_error_t error) {
      delta_transport_t &to = static_cast<Recorder *>(context)->inner;
      return to.receive(to.context, source, destination, outMessage, error);
    };
    out.release = [](void *context, uint32_t source, uint32_t destination,
                     delta_bytes_t message) {
      delta_transport_t &to = static_cast<Recorder *>(context)->inner;
      to.release(to.context, source, destination, message);
    };
    return out;
  }

  std::vector<Message> messages;
  uint64_t failAt = UINT64_MAX; ///< number of the message that fails

private:
  delta_status_t send(uint32_t source, uint32_t destination,
                      const delta_bytes_t *parts, uint32_t numParts,
                      delta_error_t error) {
    if (messages.size() >= failAt)
      return runtime::Status::error(DELTA_REFUSED, "told to fail")
          .report(error);
    Message message = {source, destination, {}};
    for (uint32_t i = 0; i < numParts; ++i) {
      auto *begin = static_cast<const uint8_t *>(parts[i].data);
      message.bytes.insert(message.bytes.end(), begin, begin + parts[i].size);
    }
    messages.push_back(std::move(message));
    if (!inner.send)
      return DELTA_OK;
    return inner.send(inner.context, source, destination, parts, numParts,
                      error);
  }

  delta_transport_t inner;
};

/// The message with another checksum of its header, over all sections.
inline std::vector<uint8_t> sealed(std::vector<uint8_t> bytes) {
  using namespace runtime;
  std::vector<uint64_t> checksums;
  for (size_t at = HeaderBytes; at < bytes.size();) {
    SectionHeader section = readSectionHeader(bytes.data() + at);
    checksums.push_back(section.checksum);
    at += section.numBytes;
  }
  sealHeader(bytes.data(), headerChecksum(bytes.data(), checksums.data(),
                                          uint32_t(checksums.size())));
  return bytes;
}

/// The message with another header, sealed anew.
template <typename Change>
std::vector<uint8_t> withHeader(std::vector<uint8_t> bytes,
                                const Change &change) {
  runtime::MessageHeader header = runtime::readHeader(bytes.data());
  change(header);
  runtime::writeHeader(header, bytes.data());
  return sealed(std::move(bytes));
}
template <typename Change>
Recorder::Message withHeader(const Recorder::Message &message,
                             const Change &change) {
  return {message.source, message.destination,
          withHeader(message.bytes, change)};
}

} // namespace delta::test

#endif // DELTA_TEST_UNIT_RUNTIME_RECORDER_H

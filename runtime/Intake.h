//===- Intake.h - What a receiver does with memory --------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// All that touches the bytes of messages and the values of parameters: the
/// host's is HostIntake.h, that of a GPU device/DeviceIntake.h. Who may send
/// what and when is for the receiver to decide.
///
/// A message is added, read (several together where that is faster), asked for
/// its frame and its sections, and then accepted or dropped. The tiles of
/// accepted messages are staged until they are committed or compared, and
/// cleared.
///
/// Texts of failures say what is wrong, not whose message it is.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_INTAKE_H
#define DELTA_RUNTIME_INTAKE_H

#include "runtime/Buffer.h"
#include "runtime/Fingerprint.h"
#include "runtime/Stage.h"

#include <memory>

namespace delta::runtime {

/// A message from when it came until it is dropped.
struct Message {
  delta_bytes_t bytes = {nullptr, 0}; ///< where they are read
  bool isLent = false; ///< `bytes` stay as they are until it is dropped
  uint32_t expectedSource = DELTA_NONE; ///< who sent it, where that is known
  Buffer copy;                          ///< of the host
  /// Of the intake: where else it keeps something of the message.
  uint32_t number = DELTA_NONE;
};

/// An element that is not what was sent.
struct Difference {
  const LandingRow *row = nullptr;
  int64_t boxTile = 0;
  const LandingImage *image = nullptr;
  uint32_t offset = 0; ///< in the tile
  uint64_t found = 0, sent = 0;
};

/// Two elements to be compared.
struct ElementPair {
  const uint8_t *staged;
  const uint8_t *held;
  uint32_t size; ///< bytes
};

class Intake {
public:
  virtual ~Intake() = default;

  /// Whether the parameters lie in memory that it can write. The text of a
  /// failure is complete.
  virtual Status checkMemory(const Landing &landing) = 0;
  /// `landing` is bound, and `moved` too where there is one; later calls are
  /// about these or copies of them. Where their rows are those of before, what
  /// is staged stays; else nothing is. On failure all is as it was.
  virtual Status land(const Landing &landing, const Landing *moved) = 0;
  /// Where work is enqueued from now on; the host takes null alone.
  virtual Status setStream(void *stream) = 0;

  /// Whether messages are read faster together than one by one.
  virtual bool readsTogether() const = 0;
  /// Copies the message, unless it is lent and can be read where it lies: then
  /// isLent stays set.
  virtual Status add(Message &message) = 0;
  /// Reads messages that were added, each once. The bytes that they came from
  /// may go when this returns, but for lent ones.
  virtual Status read(Message *const *messages, size_t count) = 0;
  /// The header of a message, whether it was read or not and whatever it says;
  /// false: it is too short for one.
  virtual bool peek(const Message &message, MessageHeader &outHeader) = 0;
  /// Whether sizes and checksums of a message that was read are right.
  virtual Status readFrame(Message &message, MessageHeader &outHeader) = 0;
  /// Whether all sections fit `to`, of which the header was checked; called
  /// after readFrame of the same message.
  virtual Status readSections(Message &message, const MessageHeader &header,
                              const Landing &to, StagedSpan &out) = 0;
  /// The tiles of the message last asked for are staged.
  virtual Status accept(Message &message) = 0;
  /// The message is not needed any more, staged or not.
  virtual void drop(Message &message) = 0;
  /// No tile is staged any more.
  virtual void clear() = 0;

  /// Writes what is staged into all images, zeros first where `isSeed` and some
  /// elements have no source. `listsRows`: getReached will be asked.
  virtual Status commit(const Landing &to, bool isSeed, bool listsRows) = 0;
  /// Waits until nothing of a commit reads lent messages any more.
  virtual Status finish() = 0;
  /// One byte for each row: the last commit wrote to it.
  virtual Status getReached(std::vector<uint8_t> &outRows) = 0;
  /// Compares what is staged; the first difference is that of the first tile
  /// as they were staged, its first image and value.
  virtual Status compare(const Landing &to, uint64_t &outMismatches,
                         Difference &outFirst) = 0;

  /// The staged tiles, valid until they are cleared. Pointers lead into
  /// messages, in whichever memory these are.
  virtual Status listTiles(const Landing &to,
                           const std::vector<StagedTile> *&out) = 0;
  /// One byte for each pair: the elements differ.
  virtual Status compareElements(const std::vector<ElementPair> &pairs,
                                 std::vector<uint8_t> &outDiffer) = 0;

  /// Sums of bits x a(row) x b(column), as Fingerprint.h says; waits for them.
  virtual Status sumTerms(const delta_kernels_t &kernels,
                          const std::vector<FingerprintTerm> &terms,
                          std::vector<uint64_t> &out) = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_INTAKE_H

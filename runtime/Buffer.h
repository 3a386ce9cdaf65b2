//===- Buffer.h - Raw memory that is reused ---------------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Bytes that are grown when needed and never set: a vector would write zeros
/// that nobody reads.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_BUFFER_H
#define DELTA_RUNTIME_BUFFER_H

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace delta::runtime {

class Buffer {
public:
  Buffer() = default;
  ~Buffer() { free(bytes); }
  Buffer(Buffer &&other) noexcept
      : bytes(std::exchange(other.bytes, nullptr)),
        capacity(std::exchange(other.capacity, 0)) {}
  Buffer &operator=(Buffer &&other) noexcept {
    std::swap(bytes, other.bytes);
    std::swap(capacity, other.capacity);
    return *this;
  }

  uint8_t *data() const { return bytes; }
  template <typename T> T *as(uint64_t offset = 0) const {
    return reinterpret_cast<T *>(bytes + offset);
  }
  uint64_t getCapacity() const { return capacity; }

  /// Makes room for `size` bytes and keeps what is there. Throws bad_alloc.
  void grow(uint64_t size) {
    if (size <= capacity)
      return;
    uint64_t wanted = size < capacity * 3 / 2 ? capacity * 3 / 2 : size;
    void *grown = realloc(bytes, wanted);
    if (!grown)
      throw std::bad_alloc();
    bytes = static_cast<uint8_t *>(grown);
    capacity = wanted;
  }

  void release() {
    free(bytes);
    bytes = nullptr;
    capacity = 0;
  }

private:
  uint8_t *bytes = nullptr;
  uint64_t capacity = 0;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_BUFFER_H

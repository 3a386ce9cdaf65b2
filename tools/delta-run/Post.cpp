//===- Post.cpp - A transport that counts and can fail --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Calls are passed on; the lock is not held meanwhile.
///
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Post.h"

#include <algorithm>
#include <chrono>

namespace delta::run {

delta_transport_t Post::transport() { return {this, send, receive, release}; }

uint64_t Post::takeBytes() { return std::exchange(numBytes, 0); }

double Post::takeReceiveSeconds() {
  double longest = 0;
  for (const auto &[destination, seconds] : receiveSeconds)
    longest = std::max(longest, seconds);
  receiveSeconds.clear();
  return longest;
}

Post::Messages Post::takeHeld() {
  holding = false;
  return std::exchange(held, {});
}

delta_status_t Post::send(void *context, uint32_t source, uint32_t destination,
                          const delta_bytes_t *parts, uint32_t numParts,
                          delta_error_t error) {
  Post &post = *static_cast<Post *>(context);
  {
    const std::lock_guard<std::mutex> lock(post.mutex);
    for (uint32_t i = 0; i < numParts; ++i)
      post.numBytes += parts[i].size;
    if (post.holding) {
      Message &message = post.held[{source, destination}].emplace_back();
      for (uint32_t i = 0; i < numParts; ++i) {
        const auto *data = static_cast<const unsigned char *>(parts[i].data);
        message.insert(message.end(), data, data + parts[i].size);
      }
      return DELTA_OK;
    }
  }
  return post.inner.send(post.inner.context, source, destination, parts,
                         numParts, error);
}

delta_status_t Post::receive(void *context, uint32_t source,
                             uint32_t destination, delta_bytes_t *message,
                             delta_error_t error) {
  Post &post = *static_cast<Post *>(context);
  const auto begin = std::chrono::steady_clock::now();
  const delta_status_t status = post.inner.receive(post.inner.context, source,
                                                   destination, message, error);
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  const std::lock_guard<std::mutex> lock(post.mutex);
  post.receiveSeconds[destination] += seconds.count();
  return status;
}

void Post::release(void *context, uint32_t source, uint32_t destination,
                   delta_bytes_t message) {
  Post &post = *static_cast<Post *>(context);
  post.inner.release(post.inner.context, source, destination, message);
}

} // namespace delta::run

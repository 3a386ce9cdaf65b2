//===- Dump.cpp - The memory of all ranks as files ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/delta-run/Runner.h"

#include "tools/reference/Safetensors.h"

#include <filesystem>

namespace delta::run {

bool Runner::dumpRanks(const std::vector<Rank> &ranks,
                       const std::string &prefix, bool plainNames) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    std::vector<reference::TensorData> tensors;
    std::vector<Bytes> moved; // a file knows no strides
    for (const Held &held : ranks[r].params) {
      const bool isViewed = held.stride != reference::stridesOf(held.shape);
      if (isViewed)
        moved.push_back(held.rowMajor());
      tensors.push_back(
          {plainNames ? held.name
                      : "chunk" + std::to_string(held.chunk) + "." + held.name,
           held.dtype, held.shape,
           isViewed ? moved.back().get() : held.data.get()});
    }
    if (!reference::writeSafetensors(
            prefix + std::to_string(r) + ".safetensors", tensors, error))
      return fail(error);
  }
  return true;
}

bool Runner::dump(const char *moment) {
  if (options.dump.empty())
    return true;
  const std::string folder = options.dump + "/" + moment;
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code)
    return fail("cannot make " + folder + ": " + code.message());
  return dumpRanks(world.sources, folder + "/source-", false) &&
         dumpRanks(world.receivers, folder + "/destination-",
                   world.neutral || world.engine);
}

} // namespace delta::run

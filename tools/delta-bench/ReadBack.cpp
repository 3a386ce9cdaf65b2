//===- ReadBack.cpp - Elements of receivers, read back --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BenchError.h"
#include "PlanRanks.h"

#include "codegen/device/IndexFunctions.h"

#include <cstring>

using namespace delta::bench;
namespace device = delta::device;

/// Elements of each source rank that are read back at a time.
static constexpr uint32_t SampleElements = 1024;

/// Whether a receiver holds at `place` what is at `sent` in the copy on the
/// host. Those with a value op, or of another type, are left to the plan.
bool PlanRanks::holds(const delta_place_t &place, const Layout::Item &item,
                      const uint8_t *sent, uint64_t &outNumRead) const {
  const ReceiverMemory &to = world.receivers[place.rank];
  const Layout::Item &held = to.layout.getItems()[place.param];
  if (place.value_op || held.info.dtype != item.info.dtype)
    return true;
  uint64_t found = 0;
  machine.copy(&found,
               to.block.as() + held.at +
                   uint64_t(place.element) * held.elementBytes,
               held.elementBytes);
  machine.wait();
  ++outNumRead;
  return memcmp(&found, sent, held.elementBytes) == 0;
}

/// Elements at random, by the places that the plan's index gives.
uint64_t PlanRanks::readBack() {
  delta_index_t *made = nullptr;
  must([&](delta_error_t error) { return api.index_create(&made, error); });
  std::unique_ptr<delta_index_t, void (*)(delta_index_t *)> index(
      made, api.index_destroy);
  std::vector<delta_place_t> places(receivers.size() * 4 + 4);
  uint64_t numRead = 0;
  for (auto &source : world.sources) {
    const uint32_t rank = source->getLayout().getRank();
    const uint64_t numTiles = api.tile_count(made, rank);
    for (uint32_t i = 0; numTiles && i < SampleElements; ++i) {
      const uint64_t random = device::mix(++numReadBacks);
      const uint64_t tile = random % numTiles;
      delta_tile_info_t info = {};
      delta_place_t from = {}, hf = {};
      uint32_t count = 0;
      if (api.tile_info(made, rank, tile, &info) != DELTA_OK ||
          api.tile_element(made, rank, tile,
                           uint32_t(random >> 40) % info.num_elements, &from,
                           &hf, places.data(), uint32_t(places.size()),
                           &count) != DELTA_OK)
        throw BenchError("the plan's index has no tile " +
                         std::to_string(tile));
      const Layout::Item &item = source->getLayout().getItems()[from.param];
      const uint8_t *sent = source->onHost() + item.at +
                            uint64_t(from.element) * item.elementBytes;
      for (uint32_t j = 0; j < count && j < places.size(); ++j)
        if (!holds(places[j], item, sent, numRead))
          throw BenchError(differenceOf(places[j], from, item.name));
    }
  }
  return numRead;
}

std::string PlanRanks::differenceOf(const delta_place_t &place,
                                    const delta_place_t &from,
                                    const std::string &name) const {
  const std::string &held =
      world.receivers[place.rank].layout.getItems()[place.param].name;
  return "version " + std::to_string(version) + ": receiver " +
         std::to_string(place.rank) + ": \"" + held + "\" element " +
         std::to_string(place.element) + " is not element " +
         std::to_string(from.element) + " of \"" + name + "\" of source rank " +
         std::to_string(from.rank);
}

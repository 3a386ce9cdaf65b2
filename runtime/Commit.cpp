//===- Commit.cpp - Writing, or comparing, what is staged -----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/device/IndexFunctions.h"
#include "runtime/Receiver.h"

using namespace delta::runtime;
namespace device = delta::device;

/// Everything was checked and allocated when it was staged.
Status Receiver::commit() {
  Status status = requireAll("commit");
  if (status.failed() || held.empty())
    return status;
  status = intake->commit(landingOf(staged), staged.isSeed(),
                          /*listsRows=*/tables.num_refreshes != 0);
  // Transports take back what they have lent.
  bool isLent = false;
  for (const Held &message : held)
    isLent |= message.transport.release != nullptr;
  if (!status.failed() && isLent)
    status = intake->finish();
  if (status.failed())
    return failure("commit", status);
  isRefreshed = true;
  wasMoved = staged.isMoved();
  version = staged.version;
  // A delta does not get here while something is missing.
  isMoving = false;
  discard();
  return {};
}

/// A parameter counts as changed where a staged tile reaches it: of a whole
/// tile of a delta, all elements may be what they were.
Status Receiver::findRefreshes() {
  if (!isRefreshed)
    return {};
  isRefreshed = false;
  refreshes.clear();
  if (tables.num_refreshes == 0)
    return {};
  std::vector<uint8_t> reached;
  Status status = intake->getReached(reached);
  if (status.failed())
    return failure("refreshes", status);
  const Landing &to = wasMoved ? *moved : landing;
  const size_t numParams = to.getParams().size();
  std::vector<bool> isDue(tables.num_refreshes * numParams);
  for (size_t i = 0; i < reached.size(); ++i) {
    const LandingRow &row = to.getRows()[i];
    for (size_t j = row.firstImage; reached[i] && j < row.endImage; ++j) {
      const LandingImage &image = to.getImages()[j];
      for (uint32_t k = 0; k < tables.num_refreshes; ++k)
        if (tables.refreshes[k].class_index == image.image->class_index)
          isDue[k * numParams + image.param] = true;
    }
  }
  for (uint32_t i = 0; i < tables.num_refreshes; ++i)
    for (uint32_t param = 0; param < numParams; ++param)
      if (isDue[i * numParams + param])
        refreshes.push_back({param, i});
  return {};
}

Status Receiver::getRefreshes(const std::vector<delta_refresh_call_t> *&out) {
  out = &refreshes;
  return findRefreshes();
}

/// Names the parameter and the element, with the bits sent and found.
Status Receiver::describe(const Difference &difference) const {
  const LandingRow &row = *difference.row;
  const int digits = int(row.kernels->element_size * 2);
  int64_t element = device::elementAt(
      *row.box, device::tileOf(*row.box, difference.boxTile), difference.offset,
      device::Layout::image(*difference.image->image));
  return Status::error(
      DELTA_CORRUPT,
      "rank %u: \"%s\": compare: element %lld is 0x%0*llx, sent was 0x%0*llx",
      landing.getRank(), landing.paramName(difference.image->param).c_str(),
      static_cast<long long>(difference.image->expertOffset + element), digits,
      static_cast<unsigned long long>(difference.found), digits,
      static_cast<unsigned long long>(difference.sent));
}

Status Receiver::compare(uint64_t &outMismatches, Status &outFirst) {
  outMismatches = 0;
  Status status = requireAll("compare");
  if (status.failed())
    return status;
  if (version == 0)
    return Status::error(DELTA_NOT_SEEDED,
                         "rank %u: compare: before the first full sync",
                         landing.getRank());
  Difference first;
  status = intake->compare(landingOf(staged), outMismatches, first);
  if (status.failed())
    return failure("compare", status);
  if (first.row)
    outFirst = describe(first);
  discard();
  return {};
}

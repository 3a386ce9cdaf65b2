//===- DeviceLanding.cpp - The tables of a receiver's kernels -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/DeviceLanding.h"

#include <algorithm>
#include <cstring>

using namespace delta::runtime;
namespace device = delta::device;

/// Runs that begin at equal distances: those of the innermost outer loop, and
/// of loops around it that go on where it ends.
static int64_t evenRuns(const delta_box_t &box, const delta_image_t &image) {
  int64_t runs = 1;
  for (int loop = int(box.num_loops) - 2; loop >= 0; --loop) {
    if (image.stride[loop] != image.stride[box.num_loops - 2] * runs)
      break;
    runs *= box.extent[loop];
  }
  return runs;
}

device::DestinationTile delta::runtime::placeTile(const delta_box_t &box,
                                                  const delta_image_t &image,
                                                  int64_t boxTile,
                                                  uint8_t *data,
                                                  uint32_t elementSize) {
  const device::Tile tile = device::tileOf(box, boxTile);
  const device::Layout layout = device::Layout::image(image);
  device::DestinationTile out = {};
  out.boxTile = boxTile;
  out.to = data;
  out.step = layout.step(box);
  out.numElements = tile.numElements();
  out.numColumns = tile.numColumns;
  out.path = device::MappedPlace;
  out.elementSize = uint8_t(elementSize);
  const int64_t even = box.num_loops > 1 ? evenRuns(box, image) : 1;
  if (tile.numRuns > 1 && tile.firstRun % even + tile.numRuns > even)
    return out;
  out.to += device::elementAt(box, tile, 0, layout) * int64_t(elementSize);
  out.pitch = tile.numRuns > 1 ? image.stride[box.num_loops - 2] : 0;
  out.path = device::EvenPlace;
  out.multiplier = device::SmallDivisor::of(tile.numColumns).multiplier;
  const bool runsFollow = tile.numRuns == 1 || out.pitch == tile.numColumns;
  if (runsFollow && (out.step == 1 || tile.numColumns == 1))
    out.path = device::ContiguousPlace;
  return out;
}

/// Collects the tables on the host, and uploads them.
class DeviceLanding::Tables {
public:
  Tables(const delta_tables_t &plan, const Landing &landing,
         const Device &device, DeviceLanding &out)
      : plan(plan), landing(landing), device(device), out(out) {}

  Status collect();
  Status upload(const std::shared_ptr<Device> &device, Stream stream);

private:
  Status addRow(const LandingRow &row);
  void addTile(const LandingRow &row, int64_t boxTile);
  void addSources();
  void addPadding();

  const delta_tables_t &plan;
  const Landing &landing;
  const Device &device;
  DeviceLanding &out;
  std::vector<device::DestinationTile> tiles, further;
  std::vector<device::DestinationSection> sections;
  std::vector<device::DestinationSource> sources;
  std::vector<device::ZeroSpan> spans;
};

Status DeviceLanding::Tables::addRow(const LandingRow &row) {
  const size_t numImages = row.endImage - row.firstImage;
  if (numImages == 0 || numImages > device::MaxComparedImages)
    return Status::error(DELTA_INTERNAL,
                         "%zu images of a box, required 1 to %u", numImages,
                         device::MaxComparedImages);
  out.rowBegins.push_back(out.numTiles);
  out.numTiles += uint64_t(row.tileEnd - row.tileBegin);
  for (int64_t tile = row.tileBegin; tile < row.tileEnd; ++tile)
    addTile(row, tile);
  return {};
}

/// Its first image; further ones are numbered when all tiles are known.
void DeviceLanding::Tables::addTile(const LandingRow &row, int64_t boxTile) {
  for (size_t i = row.firstImage; i < row.endImage; ++i) {
    const LandingImage &image = landing.getImages()[i];
    device::DestinationTile tile = placeTile(
        *row.box, *image.image, boxTile, image.data, row.kernels->element_size);
    tile.box = device.getBoxes() + (row.box - plan.boxes);
    tile.image = device.getImages() + (image.image - plan.images);
    // Position among the further ones of the one behind it, from 1.
    tile.next = i + 1 < row.endImage ? uint32_t(further.size() + 1) : 0;
    if (i == row.firstImage)
      tiles.push_back(tile);
    tiles.back().isMapped |= tile.path == device::MappedPlace;
    if (i != row.firstImage) {
      tile.next += tile.next ? 1 : 0; // itself lies before it
      further.push_back(tile);
    }
  }
}

void DeviceLanding::Tables::addSources() {
  int64_t firstTile = 0;
  for (const LandingSection &section : landing.getSections()) {
    sections.push_back({section.set, 0, firstTile, int64_t(section.numTiles)});
    firstTile += int64_t(section.numTiles);
    out.numSegments += device::segmentsOf(int64_t(section.numTiles));
  }
  for (const LandingSource &source : landing.getSources()) {
    sources.push_back({source.rank, uint32_t(source.firstSection),
                       uint32_t(source.endSection)});
    out.mostSections = std::max(
        out.mostSections, uint32_t(source.endSection - source.firstSection));
  }
}

void DeviceLanding::Tables::addPadding() {
  uint64_t numPieces = 0;
  for (auto [data, numBytes] : landing.getPadded()) {
    spans.push_back({static_cast<uint8_t *>(data), numBytes, numPieces});
    numPieces += (numBytes + device::ZeroBytes - 1) / device::ZeroBytes;
  }
  out.padding.numSpans = uint32_t(spans.size());
  out.padding.numPieces = numPieces;
}

Status DeviceLanding::Tables::collect() {
  for (const LandingRow &row : landing.getRows())
    if (Status status = addRow(row); status.failed())
      return status;
  if (tiles.size() + further.size() > UINT32_MAX)
    return Status::error(DELTA_INVALID_ARGUMENT, "%zu tiles, at most %u",
                         tiles.size() + further.size(), UINT32_MAX);
  for (std::vector<device::DestinationTile> *list : {&tiles, &further})
    for (device::DestinationTile &tile : *list)
      if (tile.next)
        tile.next += uint32_t(tiles.size()) - 1;
  tiles.insert(tiles.end(), further.begin(), further.end());
  addSources();
  addPadding();
  return {};
}

Status DeviceLanding::Tables::upload(const std::shared_ptr<Device> &to,
                                     Stream stream) {
  std::vector<uint8_t> bytes;
  auto put = [&](const auto &list) {
    size_t at = bytes.size();
    size_t size = list.size() * sizeof(list[0]);
    bytes.resize(at + (size + 63) / 64 * 64); // entries of 64 bytes stay whole
    if (size)
      memcpy(bytes.data() + at, list.data(), size);
    return at;
  };
  size_t tilesAt = put(tiles), sectionsAt = put(sections);
  size_t sourcesAt = put(sources), spansAt = put(spans);
  Status status = out.buffer.allocate(to, bytes.size());
  if (!status.failed() && !bytes.empty())
    status = to->copy(out.buffer.as(), bytes.data(), bytes.size(), stream);
  if (!status.failed())
    status = to->wait(stream);
  out.tables = {out.buffer.as<device::DestinationTile>(tilesAt),
                out.buffer.as<device::DestinationSection>(sectionsAt),
                out.buffer.as<device::DestinationSource>(sourcesAt),
                uint32_t(sources.size()), 0};
  out.padding.spans = out.buffer.as<device::ZeroSpan>(spansAt);
  return status;
}

Status DeviceLanding::create(const std::shared_ptr<Device> &device,
                             const delta_tables_t &plan, const Landing &landing,
                             Stream stream, DeviceLanding &out) {
  Tables tables(plan, landing, *device, out);
  Status status = tables.collect();
  return status.failed() ? status : tables.upload(device, stream);
}

size_t DeviceLanding::rowOf(uint32_t tile) const {
  return size_t(std::upper_bound(rowBegins.begin(), rowBegins.end(), tile) -
                rowBegins.begin()) -
         1;
}

LandedTile DeviceLanding::tileOf(const Landing &landing, uint32_t tile) const {
  const size_t row = rowOf(tile);
  const LandingRow &found = landing.getRows()[row];
  return {&found, found.tileBegin + int64_t(tile - rowBegins[row])};
}

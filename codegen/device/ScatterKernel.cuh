//===- ScatterKernel.cuh - Commit and advance on the device -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The commit of a receiver: one launch writes all staged tiles of all element
/// types into all their images. The advance of a sender's snapshot is the same
/// without a map. A plan instantiates them as
///
///   extern "C" __global__ void
///   __launch_bounds__(delta::device::BlockThreads,
///                     delta::device::BlocksOfProcessor)
///   delta_scatter(const delta::device::ScatterArguments arguments) {
///     delta::device::scatterTiles(arguments);
///   }
///
/// Everything was checked when it was staged: offsets are inside their tile,
/// and no two tiles write the same element. Device only.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_DEVICE_SCATTERKERNEL_CUH
#define DELTA_CODEGEN_DEVICE_SCATTERKERNEL_CUH

#include "codegen/device/TileAccess.cuh"

namespace delta::device {

/// An image of a row, bound.
struct ScatterImage {
  const delta_image_t *image;
  void *destination; ///< element 0 of the parameter or of the expert's slice
};

/// A staged tile. Values are aligned to their size.
struct ScatterTile {
  const delta_box_t *box;
  int64_t boxTile;
  const uint16_t *offsets; ///< null: dense
  const void *values;
  uint32_t count;
  uint32_t elementSize;
  uint32_t firstImage; ///< rows of ScatterArguments::images
  uint32_t numImages;
};

struct ScatterArguments {
  const ScatterTile *tiles;
  int64_t numTiles;
  const ScatterImage *images;
  unsigned long long *nextTile; ///< zeroed before the launch
};

/// Writes the values of a tile into one image.
template <typename Bits>
__device__ inline void scatterInto(const ScatterTile &tile,
                                   const TileAccess &access,
                                   void *destination) {
  const Bits *__restrict__ values = static_cast<const Bits *>(tile.values);
  Bits *__restrict__ to = static_cast<Bits *>(destination);
  for (uint32_t i = threadIdx.x; i < tile.count; i += BlockThreads) {
    uint32_t offset = tile.offsets ? tile.offsets[i] : i;
    to[access.element(offset)] = values[i];
  }
}

/// The next tile of a counter, the same for all threads of the block.
__device__ inline int64_t takeTile(unsigned long long *nextTile) {
  __shared__ int64_t taken;
  __syncthreads(); // all have read the one before
  if (threadIdx.x == 0)
    taken = int64_t(atomicAdd(nextTile, 1ull));
  __syncthreads();
  return taken;
}

/// Body of the commit.
__device__ inline void scatterTiles(const ScatterArguments &arguments) {
  __shared__ TileAccessStorage storage;
  for (int64_t index;
       (index = takeTile(arguments.nextTile)) < arguments.numTiles;) {
    const ScatterTile &tile = arguments.tiles[index];
    for (uint32_t i = 0; i < tile.numImages; ++i) {
      const ScatterImage &image = arguments.images[tile.firstImage + i];
      __syncthreads(); // the run begins of the image before are done with
      TileAccess access(storage, *tile.box, tileOf(*tile.box, tile.boxTile),
                        Layout::image(*image.image));
      if (tile.elementSize == 2)
        scatterInto<uint16_t>(tile, access, image.destination);
      else if (tile.elementSize == 4)
        scatterInto<uint32_t>(tile, access, image.destination);
      else
        scatterInto<uint64_t>(tile, access, image.destination);
    }
  }
}

} // namespace delta::device

#endif // DELTA_CODEGEN_DEVICE_SCATTERKERNEL_CUH

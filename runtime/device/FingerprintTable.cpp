//===- FingerprintTable.cpp - Sums cut into pieces ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/FingerprintTable.h"

#include <algorithm>

using namespace delta::runtime;
using namespace delta::device;

/// Elements of a piece at most, where the weights of the columns are formed
/// once for 64 lines, and at least, unless it would be all of a small model.
static constexpr int64_t MostElements = 131072, FewestElements = 8192;
/// Pieces that a large sum should have, for all processors to end together.
static constexpr int64_t WantedPieces = 4096;
/// Elements of a piece whose places are found one by one.
static constexpr int64_t PlacesElements = 16384;
/// Lines from which on a piece has no more columns than its threads hold.
static constexpr int64_t ManyLines = 32;
/// Lines from which on each warp has a strip of its own: a strip of fewer
/// leaves more of the matrix instruction idle than a block that reads along
/// them.
static constexpr int64_t FewestStripLines = 16;

void FingerprintTable::build(const std::vector<FingerprintTerm> &terms,
                             const delta_kernels_t &kernels) {
  pieces.clear();
  places.clear();
  int64_t total = 0;
  for (const FingerprintTerm &term : terms)
    total += elementsBefore(*term.box, term.tileEnd) -
             elementsBefore(*term.box, term.tileBegin);
  pieceElements =
      std::clamp(total / WantedPieces, FewestElements, MostElements);
  for (const FingerprintTerm &added : terms) {
    term = &added;
    common = {};
    common.term = uint32_t(&added - terms.data());
    if (added.image) {
      common.elementSize = uint8_t(added.kernels->element_size);
    } else {
      common.elementSize = uint8_t(added.kernels->source_size);
      common.op = added.op;
      if (added.op != DELTA_VALUE_ID ||
          added.kernels->source_size != added.kernels->element_size)
        common.kernel = uint8_t(added.kernels - kernels.host);
    }
    addTerm();
  }
}

/// Tiles lie band by band: what is cut at both ends is a part of a band, whole
/// bands, and a part of one.
void FingerprintTable::addTerm() {
  const delta_box_t &box = *term->box;
  const int64_t runs = numRuns(box), columns = numColumns(box);
  const int64_t across = (columns + box.tile_columns - 1) / box.tile_columns;
  int64_t band = term->tileBegin / across, first = term->tileBegin % across;
  const int64_t endBand = term->tileEnd / across;
  const int64_t end = term->tileEnd % across;
  auto add = [&](int64_t fromBand, int64_t toBand, int64_t from, int64_t to) {
    if (fromBand < toBand && from < to)
      addRuns(fromBand * box.tile_runs,
              std::min<int64_t>(toBand * box.tile_runs, runs),
              from * box.tile_columns,
              std::min<int64_t>(to * box.tile_columns, columns));
  };
  if (band == endBand)
    return add(band, band + 1, first, end);
  if (first > 0)
    add(band, band + 1, first, across), ++band;
  add(band, endBand, 0, across);
  add(endBand, endBand + 1, 0, end);
}

void FingerprintTable::addRuns(int64_t firstRun, int64_t endRun,
                               int64_t firstColumn, int64_t endColumn) {
  const delta_box_t &box = *term->box;
  const Layout layout =
      term->image ? Layout::image(*term->image) : Layout::source(box);
  dataStride = layout.stride;
  const uint32_t last = box.num_loops - 1;
  columns = {endColumn - firstColumn, dataStride[last],
             term->position.stride[last], 0, 0};
  addRange({{},
            layout.offset + firstColumn * columns.data,
            term->position.offset + firstColumn * columns.neutral,
            0,
            0},
           /*loop=*/0, firstRun, endRun);
}

/// Adds runs [begin, end) over the loops from `loop` on, those outside of it
/// being in the part already: what is cut of its first index, its whole ones,
/// and what is cut of the last.
void FingerprintTable::addRange(const Part &part, uint32_t loop, int64_t begin,
                                int64_t end) {
  const delta_box_t &box = *term->box;
  if (loop + 1 == box.num_loops) {
    Part whole = part;
    whole.loops.push_back(columns);
    return addPart(std::move(whole));
  }
  int64_t inner = 1;
  for (uint32_t i = loop + 1; i + 1 < box.num_loops; ++i)
    inner *= box.extent[i];
  const int64_t data = dataStride[loop];
  const int64_t neutral = term->position.stride[loop];
  auto at = [&](int64_t index) {
    Part moved = part;
    moved.data += index * data;
    moved.neutral += index * neutral;
    return moved;
  };
  int64_t index = begin / inner;
  if (begin % inner) {
    int64_t stop = std::min(end, (index + 1) * inner);
    addRange(at(index), loop + 1, begin % inner, stop - index * inner);
    begin = stop;
    ++index;
  }
  const int64_t last = end / inner;
  if (index < last) {
    Part whole = at(index);
    whole.loops.push_back({last - index, data, neutral, 0, 0});
    addRange(whole, loop + 1, 0, inner);
  }
  if (begin < end && last * inner < end)
    addRange(at(last), loop + 1, 0, end - last * inner);
}

/// Joins the loops that follow each other.
void FingerprintTable::addPart(Part part) {
  std::vector<Loop> joined;
  for (const Loop &loop : part.loops) {
    if (loop.extent == 1)
      continue;
    Loop *outer = joined.empty() ? nullptr : &joined.back();
    if (outer && outer->data == loop.data * loop.extent &&
        outer->neutral == loop.neutral * loop.extent)
      *outer = {outer->extent * loop.extent, loop.data, loop.neutral, 0, 0};
    else
      joined.push_back(loop);
  }
  part.loops = std::move(joined);
  addRows(std::move(part));
}

/// Splits the neutral place in row and column, which works where no column
/// leaves its row.
void FingerprintTable::addRows(Part part) {
  const int64_t numColumns = term->position.num_columns;
  part.row = part.neutral / numColumns;
  part.column = part.neutral % numColumns;
  int64_t lastColumn = part.column;
  bool isForward = true;
  size_t moving = 0, numMoving = 0;
  for (size_t i = 0; i < part.loops.size(); ++i) {
    Loop &loop = part.loops[i];
    isForward &= loop.neutral >= 0;
    loop.row = loop.neutral / numColumns;
    loop.column = loop.neutral % numColumns;
    lastColumn += (loop.extent - 1) * loop.column;
    if (loop.column)
      moving = i, ++numMoving;
  }
  if (!isForward)
    return addPlaces(part);
  if (lastColumn < numColumns)
    return addMatrix(part);
  if (numMoving == 1 && part.loops.size() < DELTA_MAX_LOOPS &&
      part.loops[moving].row == 0 &&
      numColumns % part.loops[moving].column == 0)
    return cutRows(part, moving);
  addPlaces(part);
}

/// Cuts a loop where the neutral tensor begins a new row: the end of one row,
/// whole rows, and the begin of one.
void FingerprintTable::cutRows(const Part &part, size_t index) {
  const int64_t numColumns = term->position.num_columns;
  const Loop loop = part.loops[index];
  const int64_t period = numColumns / loop.neutral;
  auto add = [&](int64_t at, int64_t numRows, int64_t extent) {
    if (numRows == 0 || extent == 0)
      return;
    Part cut = part;
    cut.data += at * loop.data;
    cut.neutral += at * loop.neutral;
    cut.loops[index].extent = extent;
    if (numRows > 1)
      cut.loops.insert(cut.loops.begin() + ptrdiff_t(index),
                       {numRows, period * loop.data, numColumns, 0, 0});
    addRows(std::move(cut));
  };
  const int64_t begun = part.column / loop.neutral;
  const int64_t head = begun ? std::min(period - begun, loop.extent) : 0;
  const int64_t numRows = (loop.extent - head) / period;
  add(0, 1, head);
  add(head, numRows, period);
  add(head + numRows * period, 1, loop.extent - head - numRows * period);
}

/// Makes one loop the columns of pieces and one their lines, which moves the
/// other coordinate; the indices of the rest are gone through here.
void FingerprintTable::addMatrix(Part &part) {
  auto isLess = [](const Loop &a, const Loop &b) {
    return std::make_pair(std::abs(a.data), -a.extent) <
           std::make_pair(std::abs(b.data), -b.extent);
  };
  Loop inner = {1, 1, 0, 0, 0}, lines = inner;
  if (!part.loops.empty()) {
    auto found = std::min_element(part.loops.begin(), part.loops.end(), isLess);
    inner = *found;
    if (inner.row && inner.column)
      return addPlaces(part);
    std::vector<Loop> rest = part.loops;
    rest.erase(rest.begin() + (found - part.loops.begin()));
    size_t best = rest.size();
    for (size_t i = 0; i < rest.size(); ++i)
      if ((inner.row ? rest[i].row : rest[i].column) == 0 &&
          (best == rest.size() || rest[i].extent > rest[best].extent))
        best = i;
    if (best < rest.size()) {
      lines = rest[best];
      rest.erase(rest.begin() + ptrdiff_t(best));
    }
    int64_t numMatrices = 1;
    for (const Loop &loop : rest)
      numMatrices *= loop.extent;
    // A table of tiny pieces would be as large as what they read.
    if (numMatrices > 64 && lines.extent * inner.extent < FewestElements)
      return addPlaces(part);
    part.loops = std::move(rest);
  }
  common.swapped = inner.row != 0;
  addMatrices(part, 0, lines, inner);
}

void FingerprintTable::addMatrices(Part part, size_t loop, const Loop &lines,
                                   const Loop &inner) {
  if (loop == part.loops.size())
    return addLines(part, lines, inner);
  const Loop &moved = part.loops[loop];
  for (int64_t i = 0; i < moved.extent; ++i) {
    addMatrices(part, loop + 1, lines, inner);
    part.data += moved.data;
    part.row += moved.row;
    part.column += moved.column;
  }
}

/// Columns that are read 16 bytes at a time, and what is left at either end.
void FingerprintTable::addLines(const Part &part, const Loop &lines,
                                const Loop &inner) {
  FingerprintPiece piece = common;
  const int64_t size = piece.elementSize, width = 16 / size;
  piece.data = static_cast<const uint8_t *>(term->data) + part.data * size;
  piece.lineStride = lines.data;
  piece.columnStride = inner.data;
  piece.line = common.swapped ? part.column : part.row;
  piece.lineStep = common.swapped ? lines.column : lines.row;
  piece.column = common.swapped ? part.row : part.column;
  piece.columnStep = common.swapped ? inner.row : inner.column;
  const int64_t off = reinterpret_cast<uintptr_t>(piece.data) % 16;
  int64_t head = 0, body = 0;
  if (inner.data == 1 && off % size == 0 &&
      (lines.extent == 1 || lines.data * size % 16 == 0) &&
      (piece.kernel == 0 || piece.op == DELTA_VALUE_ID)) {
    head = std::min((16 - off) % 16 / size, inner.extent);
    body = (inner.extent - head) / width * width;
  }
  addColumns(piece, LinesPath, lines.extent, 0, head);
  addColumns(piece, WidePath, lines.extent, head, head + body);
  addColumns(piece, LinesPath, lines.extent, head + body, inner.extent);
}

/// Pieces of about as many elements each, and of as many lines.
void FingerprintTable::addColumns(FingerprintPiece piece, FingerprintPath path,
                                  int64_t numLines, int64_t begin,
                                  int64_t end) {
  if (begin == end)
    return;
  if (path == WidePath && piece.kernel == 0 && numLines >= FewestStripLines)
    return addStrips(piece, numLines, begin, end);
  const int64_t atOnce = LineBytes / piece.elementSize;
  int64_t across = atOnce;
  if (numLines < ManyLines)
    across = std::min<int64_t>((pieceElements / numLines + atOnce - 1) /
                                   atOnce * atOnce,
                               DELTA_MAX_TILE);
  across = std::min(across, end - begin);
  int64_t down = std::clamp<int64_t>(pieceElements / across, 1, MaxLines);
  const int64_t numBands = (numLines + down - 1) / down;
  down = (numLines + numBands - 1) / numBands;
  piece.path = path;
  for (int64_t line = 0; line < numLines; line += down)
    for (int64_t column = begin; column < end; column += across)
      addPiece(piece, line, std::min(down, numLines - line), column,
               std::min(across, end - column));
}

/// Pieces of MaxStrips strips: as many beside each other as are left, in powers
/// of two, the others below. Columns of 6 strips are pieces of 4 x 2 and 2 x 4.
void FingerprintTable::addStrips(FingerprintPiece piece, int64_t numLines,
                                 int64_t begin, int64_t end) {
  const int64_t width = StripBytes / piece.elementSize;
  piece.path = StripPath;
  for (int64_t column = begin; column < end;) {
    const int64_t left = (end - column + width - 1) / width;
    int64_t strips = MaxStrips;
    while (strips > left)
      strips /= 2;
    const int64_t across = std::min(strips * width, end - column);
    const int64_t down = MaxStrips / strips * StripLines;
    for (int64_t line = 0; line < numLines; line += down)
      addPiece(piece, line, std::min(down, numLines - line), column, across);
    column += across;
  }
}

/// Lines and columns from those of `whole` on.
void FingerprintTable::addPiece(FingerprintPiece whole, int64_t line,
                                int64_t numLines, int64_t column,
                                int64_t numColumns) {
  whole.numLines = uint32_t(numLines);
  whole.numColumns = uint32_t(numColumns);
  whole.data += (line * whole.lineStride + column * whole.columnStride) *
                whole.elementSize;
  whole.line += line * whole.lineStep;
  whole.column += column * whole.columnStep;
  pieces.push_back(whole);
}

/// Runs of a part, as they are in its loops.
void FingerprintTable::addPlaces(const Part &part) {
  FingerprintPlaces box = {};
  box.box.num_loops = uint32_t(part.loops.size());
  for (size_t i = 0; i < part.loops.size(); ++i) {
    box.box.extent[i] = part.loops[i].extent;
    box.dataStride[i] = part.loops[i].data;
    box.neutralStride[i] = part.loops[i].neutral;
  }
  box.dataOffset = part.data;
  box.neutralOffset = part.neutral;
  box.numColumns = term->position.num_columns;
  FingerprintPiece piece = common;
  piece.path = PlacesPath;
  piece.data = static_cast<const uint8_t *>(term->data);
  piece.lineStride = int64_t(places.size());
  places.push_back(box);
  const int64_t runs = numRuns(box.box), length = numColumns(box.box);
  const int64_t across = std::min(length, PlacesElements);
  const int64_t down = std::max<int64_t>(PlacesElements / across, 1);
  for (int64_t run = 0; run < runs; run += down)
    for (int64_t column = 0; column < length; column += across) {
      piece.line = run;
      piece.column = column;
      piece.numLines = uint32_t(std::min(down, runs - run));
      piece.numColumns = uint32_t(std::min(across, length - column));
      pieces.push_back(piece);
    }
}

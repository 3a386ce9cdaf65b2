//===- IndexMap.cpp - Piecewise strided index maps ------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/IndexMap.h"

#include <algorithm>
#include <cassert>

using namespace delta;

int64_t delta::numElements(const std::vector<int64_t> &shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

//===----------------------------------------------------------------------===//
// Piece
//===----------------------------------------------------------------------===//

int64_t Piece::size() const {
  int64_t n = 1;
  for (const Loop &loop : loops)
    n *= loop.extent;
  return n;
}
int64_t Piece::lastSource() const {
  int64_t last = source;
  for (const Loop &loop : loops)
    last += (loop.extent - 1) * loop.source;
  return last;
}
int64_t Piece::lastDestination() const {
  int64_t last = destination;
  for (const Loop &loop : loops)
    last += (loop.extent - 1) * loop.destination;
  return last;
}

void delta::normalize(Piece &piece) {
  std::vector<Loop> &loops = piece.loops;
  loops.erase(std::remove_if(loops.begin(), loops.end(),
                             [](const Loop &l) { return l.extent == 1; }),
              loops.end());
  std::sort(loops.begin(), loops.end(), [](const Loop &a, const Loop &b) {
    return a.source != b.source ? a.source > b.source
                                : a.destination > b.destination;
  });
  for (size_t i = 0; i + 1 < loops.size();) {
    Loop &outer = loops[i];
    const Loop &inner = loops[i + 1];
    if (outer.source == inner.extent * inner.source &&
        outer.destination == inner.extent * inner.destination) {
      outer = {outer.extent * inner.extent, inner.source, inner.destination};
      loops.erase(loops.begin() + i + 1);
      i = i ? i - 1 : 0;
    } else {
      ++i;
    }
  }
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

IndexMap IndexMap::identity(int64_t size) {
  Piece piece;
  piece.loops = {{size, 1, 1}};
  normalize(piece);
  return {size, size, {piece}};
}

IndexMap IndexMap::transpose(const std::vector<int64_t> &shape,
                             const std::vector<int64_t> &permutation) {
  size_t rank = shape.size();
  std::vector<int64_t> sourceStride(rank, 1);
  for (size_t i = rank; i-- > 1;)
    sourceStride[i - 1] = sourceStride[i] * shape[i];
  Piece piece;
  int64_t destinationStride = 1;
  for (size_t i = rank; i-- > 0;) {
    int64_t dim = permutation[i];
    piece.loops.push_back({shape[dim], sourceStride[dim], destinationStride});
    destinationStride *= shape[dim];
  }
  normalize(piece);
  return {numElements(shape), numElements(shape), {piece}};
}

IndexMap IndexMap::rows(const std::vector<int64_t> &shape, int64_t dim,
                        int64_t from, int64_t count, int64_t to, int64_t rows,
                        int64_t step) {
  int64_t outer = 1, inner = 1;
  for (int64_t i = 0; i < int64_t(shape.size()); ++i)
    (i < dim ? outer : inner) *= i == dim ? 1 : shape[i];
  IndexMap map{outer * shape[dim] * inner, outer * rows * inner, {}};
  if (count == 0 || outer == 0 || inner == 0)
    return map;
  Piece piece{from * inner,
              to * inner,
              {{outer, shape[dim] * inner, rows * inner},
               {count, inner, step * inner},
               {inner, 1, 1}}};
  normalize(piece);
  map.pieces.push_back(piece);
  return map;
}

IndexMap IndexMap::inverse() const {
  IndexMap result{destinationSize, sourceSize, pieces};
  for (Piece &piece : result.pieces) {
    std::swap(piece.source, piece.destination);
    for (Loop &loop : piece.loops)
      std::swap(loop.source, loop.destination);
    normalize(piece);
  }
  return result;
}

void IndexMap::unite(const IndexMap &other) {
  assert(other.sourceSize == sourceSize &&
         other.destinationSize == destinationSize && "maps of other arrays");
  pieces.insert(pieces.end(), other.pieces.begin(), other.pieces.end());
}

//===----------------------------------------------------------------------===//
// Composition
//===----------------------------------------------------------------------===//

namespace {

/// A loop of the first piece while it is being split: `address` is its stride
/// in the array between the two maps, `source` its stride in the first array.
struct Walk {
  int64_t extent;
  int64_t address;
  int64_t source;
};

int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/// Splits the iterations of one piece so that, in each part, every digit of
/// the second piece's address is affine, and emits the composed pieces.
///
/// The second piece visits addresses base + sum m_j * S_j with m_j < E_j and
/// falling nested strides S_j. Digits are settled from the largest stride to
/// the smallest. At level j the loops whose stride is a multiple of S_j
/// ("coarse") move digit j alone; the others ("fine") must not carry into it,
/// else the largest fine loop is cut where it does.
class Composer {
public:
  Composer(const Piece &next, std::vector<Passage> &out, size_t maxBoxes)
      : out(out), maxBoxes(maxBoxes), base(next.source),
        destination(next.destination), digits(next.loops) {
    std::sort(digits.begin(), digits.end(),
              [](const Loop &a, const Loop &b) { return a.source > b.source; });
    // A last digit of one value makes the leftover address exactly zero.
    if (digits.empty() || digits.back().source != 1)
      digits.push_back({1, 1, 1});
  }

  bool run(const Piece &first) {
    std::vector<Walk> walks;
    for (const Loop &loop : first.loops)
      walks.push_back({loop.extent, loop.destination, loop.source});
    start = &first;
    return level(0, first.destination - base, std::move(walks),
                 {first.source, 0, destination, {}});
  }

private:
  /// Highest address that the walks add.
  static int64_t span(const std::vector<Walk> &walks) {
    int64_t sum = 0;
    for (const Walk &walk : walks)
      sum += (walk.extent - 1) * walk.address;
    return sum;
  }

  /// Settles digit `index` and those below it for the addresses `offset` +
  /// walks; `made` has what is settled already.
  bool level(size_t index, int64_t offset, std::vector<Walk> walks,
             Passage made) {
    if (index == digits.size()) {
      if (offset != 0)
        return true;
      assert(walks.empty() && "last digit has stride one");
      // Where the box starts in the array between follows from its start.
      made.between = *IndexMap{0, 0, {*start}}.image(made.first);
      out.push_back(std::move(made));
      return out.size() <= maxBoxes;
    }
    int64_t stride = digits[index].source;
    std::vector<Walk> coarse, fine;
    for (const Walk &walk : walks)
      (walk.address % stride == 0 ? coarse : fine).push_back(walk);
    int64_t digit = floorDiv(offset, stride);
    int64_t rest = offset - digit * stride;
    if (rest + span(fine) >= stride)
      return cut(index, offset, std::move(coarse), std::move(fine),
                 std::move(made));
    return clip(index, digit, rest, std::move(coarse), std::move(fine),
                std::move(made));
  }

  /// The fine walks carry into digit `index`: cuts the largest of them before,
  /// at and after the carry.
  bool cut(size_t index, int64_t offset, std::vector<Walk> coarse,
           std::vector<Walk> fine, Passage made) {
    int64_t stride = digits[index].source;
    auto largest = std::max_element(
        fine.begin(), fine.end(),
        [](const Walk &a, const Walk &b) { return a.address < b.address; });
    Walk walk = *largest;
    fine.erase(largest);
    int64_t rest = offset - floorDiv(offset, stride) * stride;
    int64_t others = span(fine);

    auto part = [&](int64_t from, std::vector<Walk> extra) {
      std::vector<Walk> walks = coarse;
      walks.insert(walks.end(), fine.begin(), fine.end());
      for (const Walk &w : extra)
        if (w.extent > 1)
          walks.push_back(w);
      Passage at = made;
      at.first += from * walk.source;
      return level(index, offset + from * walk.address, std::move(walks),
                   std::move(at));
    };

    // Iterations before the carry.
    int64_t room = stride - 1 - rest - others;
    int64_t before =
        room < 0 ? 0 : std::min(walk.extent, room / walk.address + 1);
    // From an aligned start whole periods fit: p iterations a step of digit
    // `index`.
    int64_t period = stride % walk.address == 0 ? stride / walk.address : 0;
    if (period > 0 && rest < walk.address && before == period &&
        walk.extent >= 2 * period) {
      int64_t periods = walk.extent / period;
      if (!part(0, {{periods, stride, walk.source * period},
                    {period, walk.address, walk.source}}))
        return false;
      int64_t done = periods * period;
      return done == walk.extent ||
             part(done, {{walk.extent - done, walk.address, walk.source}});
    }
    int64_t first = std::max<int64_t>(before, 1);
    if (!part(0, {{first, walk.address, walk.source}}))
      return false;
    return first == walk.extent ||
           part(first, {{walk.extent - first, walk.address, walk.source}});
  }

  /// Keeps the iterations of the coarse walks whose digit is in range.
  bool clip(size_t index, int64_t digit, int64_t rest, std::vector<Walk> coarse,
            std::vector<Walk> fine, Passage made) {
    const Loop &loop = digits[index];
    int64_t stride = loop.source;
    int64_t high = digit + span(coarse) / stride;
    if (digit >= loop.extent || high < 0)
      return true;
    if (digit >= 0 && high < loop.extent) {
      made.last += digit * loop.destination;
      for (const Walk &walk : coarse)
        made.loops.push_back({walk.extent, walk.source, walk.address,
                              walk.address / stride * loop.destination});
      return level(index + 1, rest, std::move(fine), std::move(made));
    }
    // Partly in range: cut the largest coarse walk into out, partly, fully.
    auto largest = std::max_element(
        coarse.begin(), coarse.end(),
        [](const Walk &a, const Walk &b) { return a.address < b.address; });
    Walk walk = *largest;
    coarse.erase(largest);
    int64_t step = walk.address / stride;
    int64_t others = span(coarse) / stride;
    // k is fully inside for digit + k*step >= 0 and digit + k*step + others <
    // extent.
    int64_t fullBegin =
        std::max<int64_t>(0, digit >= 0 ? 0 : (-digit + step - 1) / step);
    int64_t fullEnd = std::min(
        walk.extent, floorDiv(loop.extent - 1 - others - digit, step) + 1);
    if (fullEnd < fullBegin)
      fullEnd = fullBegin;
    auto part = [&](int64_t from, int64_t extent) {
      std::vector<Walk> walks = coarse;
      if (extent > 1)
        walks.push_back({extent, walk.address, walk.source});
      Passage at = made;
      at.first += from * walk.source;
      return clip(index, digit + from * step, rest, std::move(walks), fine,
                  std::move(at));
    };
    for (int64_t k = 0; k < walk.extent;) {
      if (k == fullBegin && fullEnd > fullBegin) {
        if (!part(fullBegin, fullEnd - fullBegin))
          return false;
        k = fullEnd;
        continue;
      }
      // Wholly outside on one side: skip at once.
      if (digit + k * step >= loop.extent)
        break;
      if (digit + k * step + others < 0) {
        k = std::max(k + 1, floorDiv(-digit - others + step - 1, step));
        k = std::min(k, fullBegin > k ? fullBegin : walk.extent);
        continue;
      }
      if (!part(k, 1))
        return false;
      ++k;
    }
    return true;
  }

  std::vector<Passage> &out;
  size_t maxBoxes;
  int64_t base, destination;
  std::vector<Loop> digits;
  const Piece *start = nullptr;
};

} // namespace

static void tighten(Passage &box) {
  auto &loops = box.loops;
  loops.erase(std::remove_if(loops.begin(), loops.end(),
                             [](auto &l) { return l.extent == 1; }),
              loops.end());
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.first > b.first; });
  for (size_t i = 0; i + 1 < loops.size();) {
    auto &outer = loops[i];
    const auto &inner = loops[i + 1];
    if (outer.first == inner.extent * inner.first &&
        outer.between == inner.extent * inner.between &&
        outer.last == inner.extent * inner.last) {
      outer = {outer.extent * inner.extent, inner.first, inner.between,
               inner.last};
      loops.erase(loops.begin() + i + 1);
      i = i ? i - 1 : 0;
    } else {
      ++i;
    }
  }
}

bool delta::passages(const Piece &piece, const IndexMap &next,
                     std::vector<Passage> &out, size_t maxBoxes) {
  Piece first = piece;
  normalize(first);
  size_t begin = out.size();
  for (const Piece &second : next.pieces) {
    if (first.lastDestination() < second.source ||
        second.lastSource() < first.destination)
      continue;
    if (!Composer(second, out, maxBoxes).run(first))
      return false;
  }
  for (size_t i = begin; i < out.size(); ++i)
    tighten(out[i]);
  return true;
}

std::optional<IndexMap> IndexMap::then(const IndexMap &next,
                                       size_t maxPieces) const {
  assert(next.sourceSize == destinationSize && "maps of other arrays");
  IndexMap result{sourceSize, next.destinationSize, {}};
  for (const Piece &first : pieces) {
    std::vector<Passage> boxes;
    if (!passages(first, next, boxes, maxPieces))
      return std::nullopt;
    for (const Passage &box : boxes) {
      Piece piece{box.first, box.last, {}};
      for (const Passage::Step &step : box.loops)
        piece.loops.push_back({step.extent, step.first, step.last});
      normalize(piece);
      result.pieces.push_back(std::move(piece));
    }
    if (result.pieces.size() > maxPieces)
      return std::nullopt;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Coalescing
//===----------------------------------------------------------------------===//

/// True if the loops nest on both sides, so that every element has one digit
/// string: what image() and the composer rely on.
static bool nests(const Piece &piece) {
  return isInjective(Box::sourceOf(piece)) &&
         isInjective(Box::destinationOf(piece));
}

/// Joins `b`, which follows `a` in the source, to it if together they are one
/// box: the same loops, one of which continues.
static bool join(Piece &a, const Piece &b) {
  int64_t source = b.source - a.source;
  int64_t destination = b.destination - a.destination;
  if (source <= 0 || destination <= 0)
    return false;
  if (a.loops == b.loops) {
    // A new loop of two iterations, or one more of a loop of its stride.
    Piece joined = a;
    joined.loops.push_back({2, source, destination});
    normalize(joined);
    if (joined.loops.size() > a.loops.size() || !nests(joined))
      return false;
    a = joined;
    return true;
  }
  // One loop differs in its extent only, and b starts where a's ends.
  if (a.loops.size() == b.loops.size()) {
    size_t differing = a.loops.size();
    for (size_t i = 0; i < a.loops.size(); ++i) {
      if (a.loops[i] == b.loops[i])
        continue;
      if (differing != a.loops.size() ||
          a.loops[i].source != b.loops[i].source ||
          a.loops[i].destination != b.loops[i].destination)
        return false;
      differing = i;
    }
    Piece joined = a;
    Loop &loop = joined.loops[differing];
    if (source != loop.extent * loop.source ||
        destination != loop.extent * loop.destination)
      return false;
    loop.extent += b.loops[differing].extent;
    normalize(joined);
    if (!nests(joined))
      return false;
    a = joined;
    return true;
  }
  // b is one more iteration of a loop of a, or a of b.
  const Piece &more = a.loops.size() > b.loops.size() ? a : b;
  const Piece &less = a.loops.size() > b.loops.size() ? b : a;
  if (more.loops.size() != less.loops.size() + 1)
    return false;
  for (size_t i = 0; i < more.loops.size(); ++i) {
    std::vector<Loop> rest = more.loops;
    Loop loop = rest[i];
    rest.erase(rest.begin() + i);
    if (rest != less.loops)
      continue;
    int64_t count = &more == &a ? loop.extent : 1;
    if (source != count * loop.source ||
        destination != count * loop.destination)
      continue;
    Piece joined = a;
    joined.loops = more.loops;
    joined.loops[i].extent += 1;
    normalize(joined);
    if (!nests(joined))
      continue;
    a = joined;
    return true;
  }
  return false;
}

/// Turns runs of equal pieces at a constant distance into a loop.
static void roll(std::vector<Piece> &pieces) {
  std::vector<Piece> out;
  for (size_t i = 0; i < pieces.size();) {
    size_t count = 1;
    int64_t source = 0, destination = 0;
    while (i + count < pieces.size()) {
      const Piece &last = pieces[i + count - 1];
      const Piece &next = pieces[i + count];
      int64_t ds = next.source - last.source;
      int64_t dd = next.destination - last.destination;
      if (next.loops != last.loops || ds <= 0 || dd <= 0 ||
          (count > 1 && (ds != source || dd != destination)))
        break;
      source = ds;
      destination = dd;
      ++count;
    }
    Piece piece = pieces[i];
    if (count > 1) {
      piece.loops.push_back({int64_t(count), source, destination});
      normalize(piece);
      if (!nests(piece)) {
        piece = pieces[i];
        count = 1;
      }
    }
    out.push_back(std::move(piece));
    i += count;
  }
  pieces = std::move(out);
}

void IndexMap::coalesce() {
  for (Piece &piece : pieces)
    normalize(piece);
  auto bySource = [](const Piece &a, const Piece &b) {
    return a.source != b.source ? a.source < b.source
                                : a.destination < b.destination;
  };
  size_t before;
  do {
    before = pieces.size();
    std::sort(pieces.begin(), pieces.end(), bySource);
    std::vector<Piece> out;
    for (Piece &piece : pieces)
      if (out.empty() || !join(out.back(), piece))
        out.push_back(std::move(piece));
    pieces = std::move(out);
    roll(pieces);
  } while (pieces.size() < before);
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

std::optional<int64_t> IndexMap::image(int64_t source) const {
  for (const Piece &piece : pieces) {
    int64_t rest = source - piece.source;
    int64_t result = piece.destination;
    if (rest < 0)
      continue;
    // Greedy digits: loops are sorted by falling, nested source strides.
    bool inside = true;
    for (const Loop &loop : piece.loops) {
      int64_t digit = std::min(rest / loop.source, loop.extent - 1);
      rest -= digit * loop.source;
      result += digit * loop.destination;
      inside = inside && rest >= 0;
    }
    if (inside && rest == 0)
      return result;
  }
  return std::nullopt;
}

int64_t IndexMap::size() const {
  int64_t n = 0;
  for (const Piece &piece : pieces)
    n += piece.size();
  return n;
}

static std::string str(const Piece &piece) {
  std::string out = "{" + std::to_string(piece.source) + " -> " +
                    std::to_string(piece.destination);
  for (const Loop &loop : piece.loops)
    out += ", " + std::to_string(loop.extent) + " x (" +
           std::to_string(loop.source) + ", " +
           std::to_string(loop.destination) + ")";
  return out + "}";
}

std::string IndexMap::str() const {
  std::string out;
  for (const Piece &piece : pieces)
    out += (out.empty() ? "" : ", ") + ::str(piece);
  return out;
}

//===----------------------------------------------------------------------===//
// ShardedMap
//===----------------------------------------------------------------------===//

std::vector<WayPiece> ShardedMap::compress() const {
  std::vector<WayPiece> out;
  // Pieces of one position in the lists of consecutive ways join when their
  // loops are equal and their offsets keep growing by the same steps.
  size_t longest = 0;
  for (const IndexMap &map : ways)
    longest = std::max(longest, map.pieces.size());
  for (size_t position = 0; position < longest; ++position) {
    std::optional<WayPiece> open;
    for (int64_t way = 0; way < int64_t(ways.size()); ++way) {
      const std::vector<Piece> &pieces = ways[way].pieces;
      if (position >= pieces.size()) {
        if (open)
          out.push_back(*open);
        open.reset();
        continue;
      }
      const Piece &piece = pieces[position];
      int64_t count = open ? way - open->wayBegin : 0;
      if (open && open->wayEnd == way && open->piece.loops == piece.loops) {
        int64_t source = piece.source - open->piece.source;
        int64_t destination = piece.destination - open->piece.destination;
        if (count == 1) {
          open->sourceStep = source;
          open->destinationStep = destination;
          open->wayEnd = way + 1;
          continue;
        }
        if (source == count * open->sourceStep &&
            destination == count * open->destinationStep) {
          open->wayEnd = way + 1;
          continue;
        }
      }
      if (open)
        out.push_back(*open);
      open = WayPiece{way, way + 1, 0, 0, piece};
    }
    if (open)
      out.push_back(*open);
  }
  std::sort(out.begin(), out.end(), [](const WayPiece &a, const WayPiece &b) {
    return a.wayBegin != b.wayBegin ? a.wayBegin < b.wayBegin
                                    : a.piece.source < b.piece.source;
  });
  return out;
}

ShardedMap ShardedMap::expand(int64_t numWays, int64_t sourceSize,
                              int64_t destinationSize,
                              const std::vector<WayPiece> &pieces) {
  ShardedMap map;
  map.ways.assign(numWays, IndexMap{sourceSize, destinationSize, {}});
  for (const WayPiece &wayPiece : pieces)
    for (int64_t way = wayPiece.wayBegin; way < wayPiece.wayEnd; ++way) {
      Piece piece = wayPiece.piece;
      piece.source += (way - wayPiece.wayBegin) * wayPiece.sourceStep;
      piece.destination += (way - wayPiece.wayBegin) * wayPiece.destinationStep;
      map.ways[way].pieces.push_back(std::move(piece));
    }
  for (IndexMap &way : map.ways)
    std::sort(way.pieces.begin(), way.pieces.end(),
              [](const Piece &a, const Piece &b) {
                return a.source != b.source ? a.source < b.source
                                            : a.destination < b.destination;
              });
  return map;
}

//===----------------------------------------------------------------------===//
// Boxes
//===----------------------------------------------------------------------===//

Box Box::sourceOf(const Piece &piece) {
  Box box{piece.source, {}};
  for (const Loop &loop : piece.loops)
    box.loops.push_back({loop.extent, loop.source});
  return box;
}
Box Box::destinationOf(const Piece &piece) {
  Box box{piece.destination, {}};
  for (const Loop &loop : piece.loops)
    box.loops.push_back({loop.extent, loop.destination});
  return box;
}
int64_t Box::last() const {
  int64_t last = offset;
  for (auto [extent, stride] : loops)
    last += (extent - 1) * stride;
  return last;
}

bool delta::isInjective(const Box &box) {
  auto loops = box.loops;
  std::sort(loops.begin(), loops.end(),
            [](auto &a, auto &b) { return a.second < b.second; });
  int64_t reach = 0;
  for (auto [extent, stride] : loops) {
    if (extent > 1 && stride <= reach)
      return false;
    reach += (extent - 1) * stride;
  }
  return true;
}

namespace {
/// Digits of a box in a radix: for each stride an interval [low, high].
struct Digits {
  std::vector<int64_t> low, high;
};
} // namespace

/// Writes a box in the radix `strides` (falling, each dividing the one
/// before, the last one 1); false where a digit would carry.
static bool digitsOf(const Box &box, const std::vector<int64_t> &strides,
                     Digits &out) {
  int64_t rest = box.offset;
  for (size_t i = 0; i < strides.size(); ++i) {
    out.low.push_back(rest / strides[i]);
    out.high.push_back(out.low.back());
    rest %= strides[i];
  }
  for (auto [extent, stride] : box.loops) {
    if (extent == 1)
      continue;
    size_t i = std::find(strides.begin(), strides.end(), stride) -
               strides.begin();
    // Two loops of one stride would make the digit skip values.
    if (out.high[i] != out.low[i])
      return false;
    out.high[i] += extent - 1;
  }
  for (size_t i = 1; i < strides.size(); ++i)
    if (out.high[i] >= strides[i - 1] / strides[i])
      return false;
  return true;
}

Overlap delta::overlap(const Box &a, const Box &b, int64_t &common) {
  if (a.last() < b.offset || b.last() < a.offset)
    return Overlap::None;
  std::vector<int64_t> strides = {1};
  for (const Box *box : {&a, &b})
    for (auto [extent, stride] : box->loops)
      if (extent > 1)
        strides.push_back(stride);
  std::sort(strides.rbegin(), strides.rend());
  strides.erase(std::unique(strides.begin(), strides.end()), strides.end());
  for (size_t i = 1; i < strides.size(); ++i)
    if (strides[i - 1] % strides[i] != 0)
      return Overlap::Unknown;
  Digits x, y;
  if (!digitsOf(a, strides, x) || !digitsOf(b, strides, y))
    return Overlap::Unknown;
  common = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    int64_t low = std::max(x.low[i], y.low[i]);
    if (low > std::min(x.high[i], y.high[i]))
      return Overlap::None;
    common += low * strides[i];
  }
  return Overlap::Some;
}

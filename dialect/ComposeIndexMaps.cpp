//===- ComposeIndexMaps.cpp - One index map after another ----------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/IndexMap.h"

#include <algorithm>
#include <cassert>

using namespace delta;

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

/// Joins `b` to `a` if it is what comes next in the outermost loop of `a`: the
/// iterations after a carry, which a cut leaves alone.
static bool continues(Passage &a, const Passage &b) {
  if (a.loops.empty())
    return false;
  Passage::Step &outer = a.loops.front();
  size_t inner = a.loops.size() - 1;
  int64_t more = 1;
  if (b.loops.size() == a.loops.size()) {
    const Passage::Step &next = b.loops.front();
    if (next.first != outer.first || next.between != outer.between ||
        next.last != outer.last)
      return false;
    more = next.extent;
  } else if (b.loops.size() != inner) {
    return false;
  }
  for (size_t i = 0; i < inner; ++i) {
    const Passage::Step &x = a.loops[a.loops.size() - inner + i];
    const Passage::Step &y = b.loops[b.loops.size() - inner + i];
    if (x.extent != y.extent || x.first != y.first || x.between != y.between ||
        x.last != y.last)
      return false;
  }
  if (b.first != a.first + outer.extent * outer.first ||
      b.between != a.between + outer.extent * outer.between ||
      b.last != a.last + outer.extent * outer.last)
    return false;
  outer.extent += more;
  return true;
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
  size_t end = begin;
  for (size_t i = begin; i < out.size(); ++i) {
    tighten(out[i]);
    if (end > begin && continues(out[end - 1], out[i]))
      continue;
    if (end != i)
      out[end] = std::move(out[i]);
    ++end;
  }
  out.resize(end);
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

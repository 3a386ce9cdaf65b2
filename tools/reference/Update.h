//===- Update.h - Weights that change like trained ones ---------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The value of every trainer element after every step, as a pure function of
/// its parameter's global name, its index in the unsharded parameter, a seed
/// and the number of steps. Nothing is stored, so any rank, and any check, can
/// ask for any element at any time; copies and replicas agree because they
/// have one name.
///
/// 16-bit floats are an fp32 master rounded to nearest even. The master starts
/// bell-shaped with a standard deviation of 0.018. In every step it moves by a
/// fraction c of the 16-bit ulp, in a direction of its own that turns after 64
/// steps, so that a share c of all elements crosses a rounding boundary. A
/// tenth of the asked share jumps by 3 to 16 ulps instead:
///
///     asked share P:  jumps 0.1 P,  c = 0.9 P / (1 - 0.1 P)
///
/// Moves are counted in bits of the master's pattern, 65,536 to the bf16 ulp,
/// so that a step is relative to the size of the weight and never overflows.
/// fp32 elements have no rounding to hide a small step: a share P of them moves
/// by one ulp, or by 3 to 16. One element of 2,048 is none of this: it holds a
/// NaN with a payload, an infinity, a zero of either sign or a subnormal, and
/// goes on to the next of these when a step selects it.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TOOLS_REFERENCE_UPDATE_H
#define DELTA_TOOLS_REFERENCE_UPDATE_H

#include <cstdint>
#include <string>

namespace delta::reference {

class Update {
public:
  /// `share` of the elements, 0 to 1, changes in every step.
  Update(uint64_t seed, double share) : seed(seed), share(share) {}

  /// Writes elements [begin, begin + size) of the parameter `name` after
  /// `step` steps. T is the unsigned integer as wide as `dtype`.
  template <class T>
  void fill(const std::string &name, const std::string &dtype, int64_t begin,
            int64_t size, int64_t step, T *out) const;

private:
  uint64_t seed;
  double share;
};

} // namespace delta::reference

#endif // DELTA_TOOLS_REFERENCE_UPDATE_H

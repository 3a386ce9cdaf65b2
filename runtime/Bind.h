//===- Bind.h - Pointers to the parameters of a rank ------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Binding: each parameter that the plan expects of a rank is found by chunk
/// and name, and checked once. Data needs the alignment of its elements, no
/// more: the kernels read unaligned words where they read wide.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_BIND_H
#define DELTA_RUNTIME_BIND_H

#include "runtime/Side.h"
#include "runtime/Status.h"

namespace delta::runtime {

/// Finds the data of `required`, the parameters of `rank`, among `bound`. Fails
/// with DELTA_BIND_MISMATCH when one is missing, bound twice (also by two of
/// its alternative names), of wrong dtype, shape or layout, null or misaligned,
/// when two overlap, or when something else is bound. An engine may reach one
/// storage under several names, of which the plan knows one: there the others
/// are taken for what they are.
Status bindParams(const Side &side, uint32_t rank,
                  const std::vector<Param> &required,
                  const delta_param_t *bound, uint32_t numBound,
                  std::vector<void *> &outData);

/// The addresses that a caller bound, in its order: whether it still has the
/// same costs one comparison a parameter, so it can be asked before each sync.
class BoundAddresses {
public:
  void take(const delta_param_t *params, uint32_t numParams);
  /// Fails with DELTA_BIND_MISMATCH and the first parameter that moved.
  Status check(uint32_t rank, const delta_param_t *params,
               uint32_t numParams) const;

private:
  std::vector<const void *> addresses;
};

} // namespace delta::runtime

#endif // DELTA_RUNTIME_BIND_H

//===- TinyModels.h - The small models of the cases -------------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A smallest model.json of each family. A case changes what is special about
/// it by a JSON merge patch: objects are merged, null removes a key.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_TEST_UNIT_CASES_TINYMODELS_H
#define DELTA_TEST_UNIT_CASES_TINYMODELS_H

#include "CompiledModel.h"

namespace delta::test {

/// Dense: 2 layers, hidden 4, 2 heads with their own keys, head size 2, MLP 4,
/// vocabulary 8 padded to multiples of 4, untied, one rank, to `hf`.
Json tinyDense(const std::string &patch);

/// The same with 2 experts of size 4 instead of the MLP.
Json tinyExperts(const std::string &patch);

/// The same with biases, sinks, and 1 expert of size 2 stored stacked,
/// transposed and interleaved.
Json tinyBiased(const std::string &patch);

/// A dense layer and one of 2 experts of size 4, latent attention of 2 heads,
/// and a layer that predicts one token more.
Json tinyLatent(const std::string &patch);

/// One layer of linear attention, 2 key heads, 4 value heads of size 2.
Json tinyDeltaNet(const std::string &patch);

/// One Mamba layer: 4 heads of size 2, 2 groups, state 3.
Json tinyHybrid(const std::string &patch);

} // namespace delta::test

#endif // DELTA_TEST_UNIT_CASES_TINYMODELS_H

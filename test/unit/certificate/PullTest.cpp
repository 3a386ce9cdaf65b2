//===- PullTest.cpp - Ops backwards against ops forwards ------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiled.h"

#include "tools/reference/Pull.h"
#include "tools/reference/TaggedSide.h"

#include <gtest/gtest.h>

using namespace delta::reference;
using namespace delta::test;

namespace {

class Pull : public testing::TestWithParam<int> {};

/// Every element of every tensor and of every shard: the rule for single
/// elements gives the tag that moving whole arrays left there.
TEST_P(Pull, AgreesWithMovingArrays) {
  Compiled model(modelTexts[GetParam()]);
  std::string error;
  auto interpreter = Interpreter::create(model.program().source, error);
  ASSERT_TRUE(interpreter) << error;
  TaggedSide tagged;
  ASSERT_TRUE(tagged.build(*interpreter, error)) << error;
  Puller puller(interpreter->side());

  int64_t compared = 0;
  for (size_t i = 0; i < tagged.tensors().size(); ++i) {
    const NeutralTensor &tensor = tagged.tensors()[i];
    const Tensor &record = interpreter->side().tensors[size_t(tensor.tensor)];
    const Array<uint64_t> &tags = tagged.tensorTags()[i];
    int64_t slice = record.stack ? tags.size() / record.shape[0] : tags.size();
    for (int64_t e = 0; e < tags.size(); ++e, ++compared) {
      Origin origin = puller.pull(tensor.tensor, e % slice);
      int64_t expert = record.stack ? e / slice : tensor.expert;
      ASSERT_EQ(tagged.space().first(origin.param, tensor.layer, expert) +
                    uint64_t(origin.element),
                tags.data[e])
          << tensor.name << " element " << e;
    }
  }
  for (const TaggedSide::Rank &rank : tagged.ranks())
    for (size_t p = 0; p < rank.params.size(); ++p) {
      const LocalParam &param = rank.params[p];
      for (int64_t e = 0; e < rank.tags[p].size(); ++e, ++compared)
        ASSERT_EQ(
            tagged.space().first(interpreter->original(param.param),
                                 param.layer, param.expert) +
                uint64_t(puller.unsharded(param.param, param.pieces[0].way, e)),
            rank.tags[p].data[e])
            << param.names[0] << " element " << e;
    }
  EXPECT_GT(compared, 1000);
}

INSTANTIATE_TEST_SUITE_P(Models, Pull,
                         testing::Range(0, int(modelTexts.size())));

} // namespace

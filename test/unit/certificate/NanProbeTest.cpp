//===- NanProbeTest.cpp - What NaN sees, and what only tags see -----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compiled.h"

#include "codegen/Tables.h"
#include "tools/delta-compile/TableMap.h"
#include "tools/reference/NanProbe.h"

#include <gtest/gtest.h>

using namespace delta;
using namespace delta::reference;
using namespace delta::test;

namespace {

/// A plan whose boxes a test may change.
struct Planned {
  explicit Planned(const std::string &text) : model(text) {
    for (const std::string &pass : passNames)
      EXPECT_TRUE(model.run(pass));
    plan = *model.lower();
  }

  /// Number of mismatches that the probe finds.
  int64_t probe(const ChangedTo &changedTo, int64_t *outSeen = nullptr) {
    TableStorage storage(plan);
    std::string error;
    auto map = mapOfTables(storage.tables(), error);
    EXPECT_TRUE(map) << error;
    auto report = nanProbe(model.program(), *map, changedTo, error);
    EXPECT_TRUE(report) << error;
    if (outSeen)
      *outSeen = report->elements;
    return report->mismatches;
  }
  std::string tags() { return interpreterError(model.program(), plan); }

  /// The first box of the class whose usual name ends so.
  LoweredBox &boxOf(const std::string &ending) {
    for (LoweredBox &box : plan.boxes) {
      const std::string &name =
          plan.source.classes[box.row.source_class].names[0];
      if (name.size() >= ending.size() &&
          name.compare(name.size() - ending.size(), ending.size(), ending) == 0)
        return box;
    }
    throw std::out_of_range(ending);
  }

  Compiled model;
  LoweredPlan plan;
};

/// One rank, whole tensors, one layer.
const char *const plain = R"({"config": {"model_type": "qwen3",
    "hidden_size": 4, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 2, "intermediate_size": 4, "num_hidden_layers": 1,
    "vocab_size": 6}, "trainer": {"vocab_multiple": 8}})";

/// Exchanges elements 0 and 1 of a vector's tensor: its box becomes two.
void swapFirstTwo(LoweredPlan &plan, LoweredBox &box) {
  LoweredBox first = box, second = box, rest = box;
  for (LoweredBox *one : {&first, &second}) {
    one->row.extent[0] = 1;
    one->row.num_tiles = 1;
    one->row.tile_columns = 1;
    one->row.tile_runs = 1;
  }
  second.row.source_offset += 1;
  for (delta_image_t *image : {&first.hfImage, &first.images[0]})
    image->offset += 1;
  rest.row.source_offset += 2;
  rest.row.extent[0] -= 2;
  rest.row.tile_columns -= 2;
  for (delta_image_t *image : {&rest.hfImage, &rest.images[0]})
    image->offset += 2;
  size_t at = size_t(&box - plan.boxes.data());
  plan.boxes[at] = first;
  plan.boxes.insert(plan.boxes.begin() + at + 1, {second, rest});
}

TEST(NanProbe, AgreesWithThePlans) {
  for (const std::string &text : modelTexts) {
    Planned planned(text);
    int64_t seen = 0;
    EXPECT_EQ(planned.probe(someElements(), &seen), 0);
    EXPECT_GT(seen, 40);
  }
}

TEST(NanProbe, SeesADistinctValueInTheWrongPlace) {
  Planned planned(plain);
  swapFirstTwo(planned.plan, planned.boxOf("final_layernorm.weight"));
  auto all = [](int64_t, int64_t, int64_t, int64_t element) {
    return std::optional<uint32_t>(0x3f800000 + element);
  };
  EXPECT_EQ(planned.probe(all), 2);
  EXPECT_NE(planned.tags(), "");
}

TEST(NanProbe, DoesNotSeeEqualValuesSwapped) {
  Planned planned(plain);
  swapFirstTwo(planned.plan, planned.boxOf("final_layernorm.weight"));
  auto equal = [](int64_t, int64_t, int64_t, int64_t) {
    return std::optional<uint32_t>(0x3f800000);
  };
  EXPECT_EQ(planned.probe(equal), 0);
  EXPECT_NE(planned.tags(), "");
}

TEST(NanProbe, LosesAWeightThatIsNan) {
  Planned planned(plain);
  swapFirstTwo(planned.plan, planned.boxOf("final_layernorm.weight"));
  auto nans = [](int64_t, int64_t, int64_t, int64_t) {
    return std::optional<uint32_t>(0x7fc00001);
  };
  int64_t seen = -1;
  EXPECT_EQ(planned.probe(nans, &seen), 0);
  EXPECT_EQ(seen, 0);
  EXPECT_NE(planned.tags(), "");
}

/// A row of padding that is sent to a row of the vocabulary, where nothing
/// changed in this sync: the probe sees a stray value only if the padding
/// happened to change; a sync in which it did not shows nothing.
TEST(NanProbe, DoesNotSeePaddingThatDidNotChange) {
  Planned planned(plain);
  LoweredBox &box = planned.boxOf("word_embeddings.weight");
  ASSERT_EQ(box.row.extent[0], 6 * 4);
  box.row.source_offset = 4; // rows 1 to 6, of which 6 is padding
  auto others = [](int64_t param, int64_t, int64_t,
                   int64_t) -> std::optional<uint32_t> {
    if (param == 0)
      return std::nullopt;
    return 0x3f800000;
  };
  EXPECT_EQ(planned.probe(others), 0);
  EXPECT_NE(planned.tags(), "");
}

/// A copy at the destination (a tied output layer) is no tensor of its own: a
/// plan that forgets it looks right to the probe, which ends at the checkpoint.
TEST(NanProbe, DoesNotSeeAForgottenCopy) {
  Planned planned(modelTexts[1]);
  for (LoweredBox &box : planned.plan.boxes) {
    auto isCopy = [&](const delta_image_t &image) {
      return planned.plan.destination.classes[image.class_index].row.copy_of !=
             DELTA_NONE;
    };
    auto &images = box.images;
    images.erase(std::remove_if(images.begin(), images.end(), isCopy),
                 images.end());
  }
  EXPECT_EQ(planned.probe(someElements()), 0);
  EXPECT_NE(planned.tags(), "");
}

} // namespace

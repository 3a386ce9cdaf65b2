//===- SafetensorsTest.cpp - Files that others can read -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A written file is taken apart by the format's own rules.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/Safetensors.h"

#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace delta::reference;

namespace {

TEST(Safetensors, headerAndBytes) {
  const uint16_t a[6] = {1, 2, 3, 4, 5, 0x7fc1};
  const uint32_t b[2] = {0x3f800000, 0xffc00001};
  const std::string path = testing::TempDir() + "/two.safetensors";
  std::string error;
  ASSERT_TRUE(writeSafetensors(path,
                               {{"chunk0.a", "bf16", {2, 3}, a},
                                {"b", "fp32", {2}, b},
                                {"empty", "i64", {0, 4}, nullptr}},
                               error))
      << error;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)),
                          std::istreambuf_iterator<char>());
  uint64_t length = 0;
  ASSERT_GT(bytes.size(), 8u);
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const auto json = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(json.size(), 3u);
  EXPECT_EQ(json["chunk0.a"]["dtype"], "BF16");
  EXPECT_EQ(json["chunk0.a"]["shape"], (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(json["b"]["dtype"], "F32");
  EXPECT_EQ(json["b"]["data_offsets"], (std::vector<int64_t>{12, 20}));
  EXPECT_EQ(json["empty"]["data_offsets"], (std::vector<int64_t>{20, 20}));
  ASSERT_EQ(bytes.size(), 8 + length + 20);
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + length, a, 12), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + 8 + length + 12, b, 8), 0);
}

TEST(Safetensors, failuresAreNamed) {
  std::string error;
  const uint16_t a[1] = {1};
  EXPECT_FALSE(writeSafetensors(testing::TempDir() + "/x.safetensors",
                                {{"a", "bf16", {1}, a}, {"a", "bf16", {1}, a}},
                                error));
  EXPECT_EQ(error, "two tensors are called \"a\"");
  EXPECT_FALSE(writeSafetensors("/nonexistent/x", {}, error));
  EXPECT_NE(error.find("cannot write /nonexistent/x"), std::string::npos);
}

} // namespace

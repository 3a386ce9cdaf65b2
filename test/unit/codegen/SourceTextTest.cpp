//===- SourceTextTest.cpp - Line breaks and literals ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/SourceText.h"

#include <gtest/gtest.h>
#include <sstream>

using namespace delta;

TEST(SourceTextTest, CommentBreaksAtEightyColumns) {
  SourceText out;
  out.comment(std::string(60, 'a') + " " + std::string(16, 'b') + " c", 0);
  EXPECT_EQ(out.take(), "// " + std::string(60, 'a') + " " +
                            std::string(16, 'b') + "\n// c\n");
}

TEST(SourceTextTest, CommentCannotBeLeft) {
  SourceText out;
  out.comment("a\nint injected; \\");
  EXPECT_EQ(out.take(), "// a?int injected; \\.\n");
}

TEST(SourceTextTest, FillKeepsItemsWhole) {
  SourceText out;
  out.fill(std::vector<std::string>(30, "{1, 2}"));
  std::istringstream lines(out.take());
  size_t numItems = 0;
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 80u);
    EXPECT_EQ(line.back(), ',');
    for (char c : line)
      numItems += c == '{';
  }
  EXPECT_EQ(numItems, 30u);
}

TEST(SourceTextTest, RowHangsInsideItsBrace) {
  SourceText out;
  out.row({std::string(40, 'a'), std::string(40, 'b'), "c"});
  EXPECT_EQ(out.take(), "    {" + std::string(40, 'a') + ",\n     " +
                            std::string(40, 'b') + ", c},\n");
}

TEST(SourceTextTest, ItemLongerThanALineStandsAlone) {
  SourceText out;
  out.fill({"a", std::string(90, 'b'), "c"});
  EXPECT_EQ(out.take(), "    a,\n    " + std::string(90, 'b') + ",\n    c,\n");
}

TEST(SourceTextTest, StringLiteralEscapes) {
  EXPECT_EQ(stringLiteral("a\"b\\c"), "\"a\\\"b\\\\c\"");
  // Three octal digits, so that a digit which follows is not swallowed.
  EXPECT_EQ(stringLiteral("\n1\xff"), "\"\\0121\\377\"");
}

TEST(SourceTextTest, ZerosAtTheEndAreImplied) {
  const int64_t values[] = {0, 3, 0, 0};
  EXPECT_EQ(bracedWithoutTail(values, 4), "{0, 3}");
  EXPECT_EQ(bracedWithoutTail(values, 1), "{}");
}

TEST(SourceTextTest, HexLiteralHasAllDigits) {
  EXPECT_EQ(hexLiteral(0x1f), "0x000000000000001f");
}

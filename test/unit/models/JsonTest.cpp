//===- JsonTest.cpp - Values, places and the leniency of configs ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/Json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace delta;
using testing::HasSubstr;

namespace {

/// The document, which must parse.
Document parse(const std::string &text, const std::string &lenient = "/none") {
  std::string error;
  auto document = parseJson("m.json", text, lenient, error);
  EXPECT_TRUE(document) << error;
  return document ? *document : Document();
}

/// The error of a text that must not parse.
std::string failure(const std::string &text,
                    const std::string &lenient = "/none") {
  std::string error;
  EXPECT_FALSE(parseJson("m.json", text, lenient, error)) << text;
  return error;
}

TEST(Json, ReadsAllKindsOfValues) {
  const char *text = R"({"a": null, "b": true, "c": -3, "d": 1.5, "e": "x",
                         "f": [1, [2, {}]], "g": {"h": 9223372036854775807}})";
  EXPECT_EQ(parse(text).root, nlohmann::json::parse(text));
  EXPECT_EQ(parse("3").root, 3);
  EXPECT_EQ(parse("[]").root, nlohmann::json::array());
}

TEST(Json, KnowsThePlacesOfKeysAndItems) {
  Document document = parse("{\n  \"a\": 1,\n  \"b\": {\n    \"c/~\": [10,\n"
                            "      20]\n  }\n}\n");
  EXPECT_EQ(document.place("/a"), "m.json:2:5");
  EXPECT_EQ(document.place("/b"), "m.json:3:5");
  EXPECT_EQ(document.place("/b/" + escapeKey("c/~")), "m.json:4:9");
  EXPECT_THAT(document.place("/b/c~1~0/1"), testing::StartsWith("m.json:5:"));
  // Of something absent, the nearest value around it.
  EXPECT_EQ(document.place("/b/none/deeper"), "m.json:3:5");
  EXPECT_EQ(document.place("/none"), "m.json:1:1");
  EXPECT_EQ(document.place(""), "m.json:1:1");
}

TEST(Json, SaysWhereTheTextIsWrong) {
  EXPECT_THAT(failure("{\n  \"a\": 1,\n  \"b\" 2\n}"),
              HasSubstr("m.json:3:7: error: syntax error while parsing object "
                        "separator"));
  EXPECT_THAT(failure("{\"a\": 1"), HasSubstr("m.json:1:8: error: "));
  EXPECT_THAT(failure("{\"a\": 1}}"), HasSubstr("m.json:1:9: error: "));
  EXPECT_THAT(failure(""), HasSubstr("m.json:1:1: error: "));
  EXPECT_THAT(failure("{'a': 1}"), HasSubstr("m.json:1:2: error: "));
  EXPECT_THAT(failure("[1,]"), HasSubstr("m.json:1:4: error: "));
  EXPECT_THAT(failure("[01]"), HasSubstr("m.json:1:3: error: "));
  EXPECT_THAT(failure("[\"\xff\"]"), HasSubstr("invalid string"));
  EXPECT_THAT(failure("[\"a\nb\"]"), HasSubstr("invalid string"));
  EXPECT_THAT(failure("[tru]"), HasSubstr("invalid literal"));
  EXPECT_THAT(failure("[1e999]"), HasSubstr("number overflow"));
}

TEST(Json, MessagesDoNotNameTheLibrary) {
  for (const char *text : {"{", "[1e999]", "[NaN]", "{\"a\": 1, \"a\": 2}"})
    EXPECT_THAT(failure(text), Not(HasSubstr("json.exception")));
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_EQ(failure("{\"a\": 1,\n \"a\": 2}"),
            "m.json:2:4: error: key \"a\" stands twice in one object");
  // In two objects a key may stand.
  parse("{\"a\": {\"b\": 1}, \"c\": {\"b\": 1}}");
}

TEST(Json, RefusesNumbersBeyond64Bits) {
  EXPECT_EQ(failure("[9223372036854775808]"),
            "m.json:1:21: error: number 9223372036854775808 does not fit 64 "
            "bits with a sign");
  EXPECT_EQ(parse("{\"config\": [18446744073709551615]}", "/config")
                .root["config"][0],
            18446744073709551615.0);
}

TEST(Json, RefusesDepthThatReadersCannotFollow) {
  EXPECT_THAT(failure(std::string(100000, '[')),
              HasSubstr("nested deeper than 200 levels"));
  parse(std::string(150, '[') + std::string(150, ']'));
}

TEST(Json, ReadsNonFiniteNumbersInsideTheConfigOnly) {
  Document document =
      parse(R"({"config": {"a": NaN, "b": [Infinity, -Infinity], "c": "NaN"}})",
            "/config");
  const nlohmann::json &config = document.root["config"];
  EXPECT_EQ(config["a"], "NaN");
  EXPECT_EQ(config["b"][0], "Infinity");
  EXPECT_EQ(config["b"][1], "-Infinity");
  EXPECT_EQ(config["c"], "NaN");
  EXPECT_EQ(parse("[NaN]", "").root[0], "NaN");

  EXPECT_EQ(failure("{\"config\": {},\n \"tp\": NaN}", "/config"),
            "m.json:2:8: error: NaN is accepted inside a config only");
  EXPECT_EQ(failure("{\"configs\": -Infinity}", "/config"),
            "m.json:1:13: error: -Infinity is accepted inside a config only");
}

TEST(Json, NonFiniteNumbersAreWholeWords) {
  EXPECT_THAT(failure("[1NaN]", ""), HasSubstr("m.json:1:3: error: "));
  EXPECT_THAT(failure("[-NaN]", ""), HasSubstr("error: "));
  EXPECT_THAT(failure("[NaNs]", ""), HasSubstr("error: "));
  // Text stays text, with escapes before the quote too.
  EXPECT_EQ(parse(R"(["\"NaN", "\\", "Infinity"])", "").root[0], "\"NaN");
  // A finite number beside one that is not.
  Document document = parse("[0.5,NaN,0.5]", "");
  EXPECT_EQ(document.root[0], 0.5);
  EXPECT_EQ(document.root[1], "NaN");
  EXPECT_EQ(document.root[2], 0.5);
}

TEST(Json, KeysOfAConfigMayComeTwice) {
  Document document =
      parse(R"({"config": {"a": 1, "a": {"b": 2, "b": 3}}})", "/config");
  EXPECT_EQ(document.root["config"]["a"]["b"], 3);
  failure(R"({"config": {}, "config": {}})", "/config");
}

} // namespace

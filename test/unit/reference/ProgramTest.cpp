//===- ProgramTest.cpp - Print, parse, refuse -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// A program survives print and parse; text that is wrong is refused with the
/// record named, and so are records that do not fit each other.
///
//===----------------------------------------------------------------------===//

#include "Example.h"
#include "tools/reference/Interpreter.h"

#include <gtest/gtest.h>

using namespace delta::reference;

namespace {

TEST(Program, printedTextParsesToTheSameText) {
  const std::string text = print(example::program());
  std::string error;
  const auto parsed = parse(text, error);
  ASSERT_TRUE(parsed) << error;
  EXPECT_EQ(print(*parsed), text);
  EXPECT_EQ(parsed->fingerprint[0], 0x0123456789abcdefu);
  EXPECT_EQ(parsed->source.params[2].copyOf, 0);
  EXPECT_EQ(parsed->source.ops.size(), example::program().source.ops.size());
}

TEST(Program, oneRecordALine) {
  const std::string text = print(example::program());
  EXPECT_NE(text.find("\n      {\"kind\":\"unshard\",\"in\":[0],\"out\":[10],"
                      "\"dim\":0,\"axis\":\"tp\",\"ways\":2,\"sections\":[]}"),
            std::string::npos)
      << text;
}

/// The error after replacing the first `from` of the printed example.
std::string errorAfter(const std::string &from, const std::string &to) {
  std::string text = print(example::program());
  const size_t at = text.find(from);
  if (at == std::string::npos)
    return "no \"" + from + "\" in the text";
  text.replace(at, from.size(), to);
  std::string error;
  return parse(text, error) ? "parsed" : error;
}

TEST(Program, badTextIsRefusedWithItsRecord) {
  EXPECT_EQ(errorAfter("\"numLayers\": 4", "\"numLayers\": \"4\""),
            "source.numLayers: \"4\" is not an integer");
  EXPECT_EQ(errorAfter("\"kind\":\"unshard\"", "\"kind\":\"gather\""),
            "source.ops[0].kind: \"gather\" is not an op");
  EXPECT_EQ(errorAfter("\"stage\":\"first\"", "\"stage\":\"middle\""),
            "source.params[0].stage: \"middle\" is not \"layers\", \"first\" "
            "or \"last\"");
  EXPECT_EQ(errorAfter("\"shape\":[8,2],", ""),
            "source.params[0]: key \"shape\" is missing");
  EXPECT_EQ(errorAfter("\"stack\":false", "\"stack\":0"),
            "source.tensors[0].stack: 0 is not true or false");
  EXPECT_EQ(errorAfter("0123456789abcdef", "0123456789ABCDEF"),
            "fingerprint: \"0123456789ABCDEFfedcba9876543210\" is not 32 hex "
            "digits");
  EXPECT_NE(errorAfter("\"replicas\": 2", "\"replicas\": 2, \"more\": 1")
                .find("has a key that this record does not use"),
            std::string::npos);
  EXPECT_NE(errorAfter("{", "[").find("parse error at line"),
            std::string::npos);
  EXPECT_EQ(errorAfter("\"params\": [", "\"params\": [3,"),
            "source.params[0]: 3 is not an object");
}

//===--- stacks and casts -------------------------------------------------===//

/// The example with a stack of two layers on the last stage and one on the
/// first, and a norm that is shifted and cast.
Program withStackAndCast() {
  Program program = example::program();
  Side &side = program.source;
  side.numLayers = 7;
  side.geometry.stackLayers = {2, 1};
  side.geometry.stackStages = {Stage::Last, Stage::First};
  side.params.push_back(
      example::param("mtp.{layer}.norm", {3}, Stage::Layers, {4, 5}, 4));
  side.ops.push_back(example::op("add_scalar", {4}, {18}));
  side.ops.back().scalar = 1;
  side.ops.push_back(example::op("cast", {18}, {19}));
  side.ops.back().dtype = "fp32";
  side.tensors.push_back({"mtp.{layer-4}.norm", "fp32", {3}, 19, false});
  return program;
}

TEST(Program, stacksAndCastsSurvivePrintAndParse) {
  const std::string text = print(withStackAndCast());
  EXPECT_NE(text.find("{\"kind\":\"cast\",\"in\":[18],\"out\":[19],"
                      "\"dtype\":\"fp32\"}"),
            std::string::npos)
      << text;
  std::string error;
  const auto parsed = parse(text, error);
  ASSERT_TRUE(parsed) << error;
  EXPECT_EQ(print(*parsed), text);
  EXPECT_EQ(parsed->source.geometry.stackLayers, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(parsed->source.geometry.stackStages,
            (std::vector<Stage>{Stage::Last, Stage::First}));
  EXPECT_EQ(parsed->source.ops.back().dtype, "fp32");
  ASSERT_TRUE(Interpreter::create(parsed->source, error)) << error;
}

TEST(Program, withoutStacksSaysNothingOfThem) {
  EXPECT_EQ(print(example::program()).find("stackLayers"), std::string::npos);
}

TEST(Program, badStacksAndCastsAreRefusedWithTheirRecord) {
  const auto errorOf = [](const std::string &from, const std::string &to) {
    std::string text = print(withStackAndCast());
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from << " in " << text;
    text.replace(at, from.size(), to);
    std::string error;
    return parse(text, error) ? "parsed" : error;
  };
  EXPECT_EQ(errorOf(",\"dtype\":\"fp32\"}", "}"),
            "source.ops[8]: key \"dtype\" is missing");
  EXPECT_EQ(errorOf("\"dtype\":\"fp32\"}", "\"dtype\":32}"),
            "source.ops[8].dtype: 32 is not a string");
  EXPECT_NE(errorOf("\"dtype\":\"fp32\"}", "\"dtype\":\"fp32\",\"dim\":0}")
                .find("has a key that this record does not use"),
            std::string::npos);
  EXPECT_EQ(
      errorOf("\"last\",\"first\"", "\"last\",\"middle\""),
      "source.geometry.stackStages: [\"last\",\"middle\"] is not a list of "
      "stages");
  EXPECT_EQ(errorOf("\"stackStages\"", "\"stages\""),
            "source.geometry: key \"stackStages\" is missing");
}

/// The error of a source side after a change.
template <class F> std::string refusal(const F &change) {
  Side side = example::program().source;
  change(side);
  std::string error;
  return Interpreter::create(side, error) ? "accepted" : error;
}

TEST(SideChecker, acceptsTheExample) {
  EXPECT_EQ(refusal([](Side &) {}), "accepted");
}

TEST(SideChecker, refusesGeometryThatDoesNotFit) {
  EXPECT_EQ(refusal([](Side &side) { side.geometry.edp = 2; }),
            "geometry: tp*cp*dp is 2, etp*ep*edp is 4; a stage has as many "
            "ranks for experts as for the rest");
  EXPECT_EQ(refusal([](Side &side) { side.geometry.stageLayers[1] = {3}; }),
            "geometry: stageLayers and stackLayers sum to 5, numLayers is 4");
  EXPECT_EQ(refusal([](Side &side) { side.numExperts = 3; }),
            "geometry: numExperts is 3, not divisible by ep of size 2");
}

TEST(SideChecker, refusesRecordsThatDoNotFit) {
  EXPECT_EQ(refusal([](Side &side) { side.params[1].layers = {2, 1}; }),
            "params[1]: layers must be ascending and below 4, 1 is not");
  EXPECT_EQ(refusal([](Side &side) { side.params[2].copyOf = 2; }),
            "params[2]: copyOf 2 is not a parameter with a value");
  EXPECT_EQ(refusal([](Side &side) { side.ops[0].ways = 3; }),
            "ops[0] (unshard): ways 3 does not divide axis \"tp\" of size 2");
  EXPECT_EQ(refusal([](Side &side) { side.ops[0].axis = "etp"; }),
            "ops[0] (unshard): axis \"etp\" does not shard params[0], \"tp\" "
            "does");
  EXPECT_EQ(refusal([](Side &side) { side.ops[1].size = 9; }),
            "ops[1] (take): size 9 is more than dim 0 of size 8");
  EXPECT_EQ(refusal([](Side &side) { side.ops[3].sizes = {4, 5}; }),
            "ops[3] (split): [4, 5] does not sum to dim 0 of size 8");
  EXPECT_EQ(refusal([](Side &side) { side.ops[3].in = {77}; }),
            "ops[3] (split): operand 77 has no value yet");
  EXPECT_EQ(refusal([](Side &side) { side.tensors[0].shape = {8, 2}; }),
            "tensors[0]: shape [8, 2] differs from the value's [7, 2]");
  EXPECT_EQ(refusal([](Side &side) { side.tensors[0].dtype = "fp32"; }),
            "tensors[0]: dtype fp32 differs from the value's bf16");
}

/// The same for the side with a stack and a cast.
template <class F> std::string refusalOfStack(const F &change) {
  return refusal([&](Side &side) {
    side = withStackAndCast().source;
    change(side);
  });
}

TEST(SideChecker, refusesStacksThatDoNotFit) {
  EXPECT_EQ(refusalOfStack([](Side &) {}), "accepted");
  EXPECT_EQ(
      refusalOfStack([](Side &side) { side.geometry.stackLayers = {2, 2}; }),
      "geometry: stageLayers and stackLayers sum to 8, numLayers is 7");
  EXPECT_EQ(
      refusalOfStack([](Side &side) { side.geometry.stackLayers = {4, -1}; }),
      "geometry: stackLayers [4, -1] need \"first\" or \"last\" each in "
      "stackStages");
  EXPECT_EQ(
      refusalOfStack([](Side &side) { side.geometry.stackStages.pop_back(); }),
      "geometry: stackLayers [2, 1] need \"first\" or \"last\" each in "
      "stackStages");
  EXPECT_EQ(refusalOfStack([](Side &side) {
              side.geometry.stackStages[0] = Stage::Layers;
            }),
            "geometry: stackLayers [2, 1] need \"first\" or \"last\" each in "
            "stackStages");
  EXPECT_EQ(
      refusalOfStack([](Side &side) { side.params.back().layers = {5, 7}; }),
      "params[5]: layers must be ascending and below 7, 7 is not");
}

TEST(SideChecker, refusesCastsThatDoNotFit) {
  EXPECT_EQ(refusalOfStack([](Side &side) { side.ops[8].dtype = "fp16"; }),
            "ops[8] (cast): casts bf16 to fp16, required fp32 at one end, "
            "once");
  EXPECT_EQ(refusalOfStack([](Side &side) { side.ops[8].dtype = "i64"; }),
            "ops[8] (cast): casts bf16 to i64, required fp32 at one end, "
            "once");
  EXPECT_EQ(refusalOfStack([](Side &side) { side.ops[8].dtype = "bf16"; }),
            "ops[8] (cast): casts bf16 to bf16, required fp32 at one end, "
            "once");
  EXPECT_EQ(refusalOfStack([](Side &side) {
              side.ops.push_back(example::op("cast", {19}, {20}));
              side.ops.back().dtype = "bf16";
            }),
            "ops[9] (cast): casts fp32 to bf16, required fp32 at one end, "
            "once");
  EXPECT_EQ(refusalOfStack([](Side &side) {
              side.ops.push_back(example::op("add_scalar", {19}, {20}));
            }),
            "ops[9] (add_scalar): adds to a value that was cast");
  EXPECT_EQ(
      refusalOfStack([](Side &side) { side.tensors.back().dtype = "bf16"; }),
      "tensors[6]: dtype bf16 differs from the value's fp32");
}

} // namespace

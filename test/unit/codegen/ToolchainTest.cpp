//===- ToolchainTest.cpp - Compilers, their failures, their bytes ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/Toolchain.h"
#include "SamplePlan.h"
#include "codegen/Emit.h"

#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace delta;
using delta::test::samplePlan;
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {
class ToolchainTest : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(work.create(), std::nullopt); }

  void TearDown() override {
    ::unsetenv("DELTA_CXX");
    ::unsetenv("TMPDIR");
  }

  /// A shell script that stands for a compiler.
  std::string script(const std::string &body) {
    std::string path = work.path("compiler");
    EXPECT_EQ(
        writeFile(path, "#!/bin/sh\n" + body + "\n", FileMode::Executable),
        std::nullopt);
    return path;
  }

  TemporaryFolder work;
  Installation installation = installationAt(DELTA_TEST_PREFIX);
};
} // namespace

TEST_F(ToolchainTest, SameTextSameBytes) {
  std::string text = emitHost(samplePlan()), first, second;
  ASSERT_EQ(compileHost(text, work.path("a.so"), installation), std::nullopt);
  // Another temporary folder, another output name.
  fs::create_directory(work.path("elsewhere"));
  ::setenv("TMPDIR", work.path("elsewhere").c_str(), 1);
  ASSERT_EQ(compileHost(text, work.path("b-longer.so"), installation),
            std::nullopt);
  ASSERT_EQ(readFile(work.path("a.so"), first), std::nullopt);
  ASSERT_EQ(readFile(work.path("b-longer.so"), second), std::nullopt);
  EXPECT_EQ(first, second);
  EXPECT_THAT(first, Not(HasSubstr(work.folder())));
  EXPECT_THAT(first, Not(HasSubstr(DELTA_TEST_PREFIX)));
  EXPECT_LT(first.size(), 1u << 20);
  EXPECT_TRUE(fs::is_empty(work.path("elsewhere")));
  struct stat status = {};
  ASSERT_EQ(::stat(work.path("a.so").c_str(), &status), 0);
  EXPECT_TRUE(status.st_mode & S_IXUSR);
}

TEST_F(ToolchainTest, FailureNamesCommandAndKeepsSource) {
  fs::create_directory(work.path("tmp dir"));
  ::setenv("TMPDIR", work.path("tmp dir").c_str(), 1);
  ASSERT_EQ(writeFile(work.path("out.so"), "old"), std::nullopt);
  MaybeError error =
      compileHost("int broken(", work.path("out.so"), installation);
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("the compiler failed with status 1"));
  EXPECT_THAT(*error, HasSubstr("plan.cpp:1:"));
  EXPECT_THAT(*error, HasSubstr("-fPIC -shared"));
  size_t at = error->find("source kept: ");
  ASSERT_NE(at, std::string::npos);
  std::string kept = error->substr(at + 13), source;
  ASSERT_EQ(readFile(kept, source), std::nullopt);
  EXPECT_EQ(source, "int broken(");
  ASSERT_EQ(readFile(work.path("out.so"), source), std::nullopt);
  EXPECT_EQ(source, "old");
}

TEST_F(ToolchainTest, UndefinedSymbolIsFoundWhenLinking) {
  fs::create_directory(work.path("tmp"));
  ::setenv("TMPDIR", work.path("tmp").c_str(), 1);
  MaybeError error = compileHost("#include \"codegen/device/HostKernels.h\"\n",
                                 work.path("out.so"), installation);
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("delta_plan_tables"));
  EXPECT_FALSE(fs::exists(work.path("out.so")));
}

TEST_F(ToolchainTest, ChosenCompilerMayHaveArguments) {
  // Answers with its first argument where the plan is expected.
  ::setenv("DELTA_CXX",
           (script("printf %s \"$1\" > plan.so") + "  -mine ").c_str(), 1);
  ASSERT_EQ(compileHost("", work.path("out.so"), installation), std::nullopt);
  std::string content;
  ASSERT_EQ(readFile(work.path("out.so"), content), std::nullopt);
  EXPECT_EQ(content, "-mine");
}

TEST_F(ToolchainTest, MissingCompilerIsAnError) {
  fs::create_directory(work.path("tmp"));
  ::setenv("TMPDIR", work.path("tmp").c_str(), 1);
  ::setenv("DELTA_CXX", "/nowhere/c++", 1);
  MaybeError error = compileHost("", work.path("out.so"), installation);
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("cannot start '/nowhere/c++': No such file"));
}

TEST_F(ToolchainTest, CompilerThatCrashesIsReported) {
  fs::create_directory(work.path("tmp"));
  ::setenv("TMPDIR", work.path("tmp").c_str(), 1);
  ::setenv("DELTA_CXX", script("echo out of luck >&2; kill -9 $$").c_str(), 1);
  MaybeError error = compileHost("", work.path("out.so"), installation);
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("status 137:\nout of luck\n"));
}

TEST_F(ToolchainTest, UnwritableOutputIsAnError) {
  MaybeError error = compileHost(emitHost(samplePlan()),
                                 work.path("none/out.so"), installation);
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("cannot write"));
}

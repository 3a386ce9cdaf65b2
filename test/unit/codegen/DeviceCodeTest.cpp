//===- DeviceCodeTest.cpp - Code for GPUs and the plan around it ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Which compiler is called, how, and what becomes of its output: a shell
/// script stands for nvcc. What nvcc itself makes of the text is the matter of
/// test/codegen/test_cuda_plan.py.
///
//===----------------------------------------------------------------------===//

#include "codegen/DeviceCode.h"
#include "SamplePlan.h"
#include "codegen/CompilePlan.h"
#include "codegen/Emit.h"
#include "runtime/delta_abi.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace delta;
using delta::test::samplePlan;
namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

class DeviceCodeTest : public ::testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(work.create(), std::nullopt);
    fs::create_directory(work.path("tmp"));
    ::setenv("TMPDIR", work.path("tmp").c_str(), 1);
  }

  void TearDown() override {
    for (const char *name : {"TMPDIR", "DELTA_NVCC", "DELTA_NVRTC",
                             "DELTA_CUDA_DRIVER", "CUDA_HOME"})
      ::unsetenv(name);
  }

  /// A script that stands for nvcc: it knows three architectures, and writes
  /// "code for <its options>" to its output.
  void useFakeNvcc(const std::string &body = "") {
    std::string path = work.path("nvcc");
    ASSERT_EQ(writeFile(path,
                        "#!/bin/sh\n"
                        "if [ \"$1\" = --list-gpu-code ]; then\n"
                        "  printf 'sm_80\\nsm_90\\nsm_100\\n'; exit 0\n"
                        "fi\n" +
                            body +
                            "\nfor word in \"$@\"; do out=$word; done\n"
                            "printf 'code for %s' \"$*\" > \"$out\"\n",
                        FileMode::Executable),
              std::nullopt);
    ::setenv("DELTA_NVCC", path.c_str(), 1);
  }

  /// The error of a compile for these architectures, or the cubins.
  std::string compile(const std::vector<std::string> &names,
                      const std::string &source = "") {
    std::vector<Architecture> architectures;
    MaybeError error = parseArchitectures(names, architectures);
    if (!error)
      error = compileCubins(source, architectures, installation, cubins);
    return error.value_or("");
  }

  TemporaryFolder work;
  Installation installation = installationAt(DELTA_TEST_PREFIX);
  std::vector<Cubin> cubins;
};

std::vector<std::string> namesOf(const std::vector<std::string> &names) {
  std::vector<Architecture> architectures;
  EXPECT_EQ(parseArchitectures(names, architectures), std::nullopt);
  std::vector<std::string> out;
  for (const Architecture &architecture : architectures)
    out.push_back(architecture.name());
  return out;
}

} // namespace

TEST_F(DeviceCodeTest, ArchitecturesAreReadAndOrdered) {
  EXPECT_THAT(namesOf({"sm_120", "sm_80", "sm_103", "sm_89", "sm_100"}),
              ElementsAre("sm_80", "sm_89", "sm_100", "sm_103", "sm_120"));
  std::vector<Architecture> out;
  ASSERT_EQ(parseArchitectures({"sm_103"}, out), std::nullopt);
  EXPECT_EQ(out[0].major, 10u);
  EXPECT_EQ(out[0].minor, 3u);
  EXPECT_THAT(namesOf(defaultArchitectures()),
              ElementsAre("sm_80", "sm_90", "sm_100"));
}

TEST_F(DeviceCodeTest, OtherNamesAreRefused) {
  std::vector<Architecture> out;
  for (const char *name : {"", "sm_", "sm_9", "sm_90a", "sm_100f", "compute_90",
                           "90", "sm_09", "sm_12345", "sm_-1", "SM_90"}) {
    MaybeError error = parseArchitectures({"sm_80", name}, out);
    ASSERT_TRUE(error) << name;
    EXPECT_THAT(*error, HasSubstr("architecture '" + std::string(name) +
                                  "' is not of the form sm_90"));
  }
  EXPECT_EQ(parseArchitectures({"sm_90", "sm_80", "sm_90"}, out),
            "architecture 'sm_90' is given twice");
}

TEST_F(DeviceCodeTest, EachArchitectureIsCompiledForItself) {
  useFakeNvcc();
  ASSERT_EQ(compile({"sm_100", "sm_80", "sm_90"}), "");
  ASSERT_EQ(cubins.size(), 3u);
  for (const Cubin &cubin : cubins)
    EXPECT_THAT(cubin.image,
                HasSubstr("-arch=" + cubin.architecture.name() + " -cubin"));
  EXPECT_EQ(cubins[2].architecture.name(), "sm_100");
  EXPECT_TRUE(fs::is_empty(work.path("tmp")));
}

TEST_F(DeviceCodeTest, WhatTheCompilerDoesNotKnowIsRefused) {
  useFakeNvcc();
  EXPECT_EQ(compile({"sm_80", "sm_75"}),
            "nvcc does not compile for architecture 'sm_75', only for sm_80, "
            "sm_90, sm_100");
  useFakeNvcc("exit 9");
  ::setenv("DELTA_NVCC", "/nowhere/nvcc", 1);
  EXPECT_THAT(compile({"sm_80"}), HasSubstr("cannot start '/nowhere/nvcc'"));
}

TEST_F(DeviceCodeTest, FailureNamesTheCommandAndKeepsTheSource) {
  // One of three fails, the first is not it.
  useFakeNvcc("case \"$*\" in *sm_90*) echo out of luck >&2; exit 3;; esac");
  std::string error = compile({"sm_80", "sm_90", "sm_100"}, "the text");
  EXPECT_THAT(error, HasSubstr("the compiler failed with status 3:\n"
                               "out of luck\n"));
  EXPECT_THAT(error, HasSubstr("-arch=sm_90 -cubin"));
  size_t at = error.find("source kept: ");
  ASSERT_NE(at, std::string::npos);
  std::string kept;
  ASSERT_EQ(readFile(error.substr(at + 13), kept), std::nullopt);
  EXPECT_EQ(kept, "the text");
}

TEST_F(DeviceCodeTest, WithoutACompilerBothAreNamed) {
  ::setenv("DELTA_NVRTC", "/nowhere/libnvrtc.so", 1);
  EXPECT_EQ(compile({"sm_80"}),
            "no CUDA compiler: nvcc is neither in PATH nor in CUDA_HOME, and "
            "DELTA_NVCC is not set; /nowhere/libnvrtc.so cannot be opened");
}

TEST_F(DeviceCodeTest, CodeLiesInThePlanWhichSaysThatThereIsNoDriver) {
  useFakeNvcc();
  ::setenv("DELTA_CUDA_DRIVER", "/nowhere/libcuda.so.1", 1);
  std::vector<Architecture> architectures;
  ASSERT_EQ(parseArchitectures({"sm_90", "sm_80"}, architectures),
            std::nullopt);
  std::string path = work.path("plan.so");
  MaybeError error =
      compilePlan(samplePlan(), architectures, path, installation);
  ASSERT_EQ(error, std::nullopt) << *error;
  std::string plan;
  ASSERT_EQ(readFile(path, plan), std::nullopt);
  EXPECT_THAT(plan, HasSubstr("code for -std=c++17 -O3 -DNDEBUG -arch=sm_80"));
  EXPECT_THAT(plan, HasSubstr("code for -std=c++17 -O3 -DNDEBUG -arch=sm_90"));

  void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  auto query = reinterpret_cast<decltype(&delta_plan_query)>(
      ::dlsym(library, "delta_plan_query"));
  ASSERT_NE(query, nullptr);
  const delta_plan_api_t *api = query(0x7fffffff);
  char text[256] = "";
  delta_target_t target = 7;
  EXPECT_EQ(api->check_device(&target, {text, sizeof(text)}), DELTA_NO_DEVICE);
  EXPECT_EQ(target, delta_target_t(DELTA_TARGET_CUDA));
  EXPECT_STREQ(text,
               "no NVIDIA driver: /nowhere/libcuda.so.1 cannot be opened");
  delta_sender_t *sender = nullptr;
  delta_receiver_t *receiver = nullptr;
  EXPECT_EQ(
      api->sender_create(1, nullptr, 0, 1, 1, &sender, {text, sizeof(text)}),
      DELTA_NO_DEVICE);
  EXPECT_STREQ(text, "rank 1: bind: no NVIDIA driver: /nowhere/libcuda.so.1 "
                     "cannot be opened");
  EXPECT_EQ(api->receiver_create(0, nullptr, 0, 1, 1, &receiver,
                                 {text, sizeof(text)}),
            DELTA_NO_DEVICE);
  EXPECT_STREQ(text, "rank 0: bind: no NVIDIA driver: /nowhere/libcuda.so.1 "
                     "cannot be opened");
  EXPECT_EQ(sender, nullptr);
  EXPECT_EQ(receiver, nullptr);
  ::dlclose(library);
}

TEST_F(DeviceCodeTest, SameCodeSameBytesFromEverywhere) {
  // The options, which hold paths of this machine, stay out.
  useFakeNvcc("for word in \"$@\"; do out=$word; done\n"
              "printf 'the same code' > \"$out\"; exit 0");
  std::string first, second;
  std::vector<Architecture> architectures;
  ASSERT_EQ(parseArchitectures({"sm_90"}, architectures), std::nullopt);
  ASSERT_EQ(
      compilePlan(samplePlan(), architectures, work.path("a.so"), installation),
      std::nullopt);
  fs::create_directory(work.path("another"));
  ::setenv("TMPDIR", work.path("another").c_str(), 1);
  ASSERT_EQ(
      compilePlan(samplePlan(), architectures, work.path("b.so"), installation),
      std::nullopt);
  ASSERT_EQ(readFile(work.path("a.so"), first), std::nullopt);
  ASSERT_EQ(readFile(work.path("b.so"), second), std::nullopt);
  EXPECT_TRUE(first == second);
  EXPECT_THAT(first, HasSubstr("the same code"));
  EXPECT_THAT(first, Not(HasSubstr(work.folder())));
}

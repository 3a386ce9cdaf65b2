//===- OtherPlanTest.cpp - Shared objects that are no plan for us ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// What the tools say of a `.so` of another ABI version, of another machine, or
/// of something else.
///
//===----------------------------------------------------------------------===//

#include "runtime/delta_abi.h"
#include "tools/reference/PlanFile.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <elf.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

using delta::reference::PlanFile;

static std::string refusal(const std::string &path) {
  std::string error;
  std::unique_ptr<PlanFile> plan = PlanFile::open(path, error);
  EXPECT_FALSE(plan) << path;
  if (path.rfind(testing::TempDir(), 0) == 0)
    remove(path.c_str());
  return error;
}

/// Two builds may run their tests at once.
static std::string temporary(const std::string &name) {
  return testing::TempDir() + "delta-" + std::to_string(getpid()) + "-" + name;
}

/// A copy of the demo plan with some bytes changed.
static std::string changedCopy(const std::string &name, size_t at,
                               std::vector<char> bytes, size_t size = 0) {
  std::ifstream in(DELTA_DEMO_PLAN, std::ios::binary);
  std::vector<char> file((std::istreambuf_iterator<char>(in)),
                         std::istreambuf_iterator<char>());
  EXPECT_GT(file.size(), 1000u);
  std::copy(bytes.begin(), bytes.end(), file.begin() + long(at));
  if (size)
    file.resize(size);
  std::string path = temporary(name);
  std::ofstream(path, std::ios::binary).write(file.data(), long(file.size()));
  return path;
}

TEST(OtherPlanTest, TheDemoPlanOpens) {
  std::string error;
  EXPECT_TRUE(PlanFile::open(DELTA_DEMO_PLAN, error)) << error;
}

TEST(OtherPlanTest, ANewerPlanOffersNothingThatOld) {
  void *library = dlopen(DELTA_NEWER_PLAN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  auto query = reinterpret_cast<decltype(&delta_plan_query)>(
      dlsym(library, "delta_plan_query"));
  ASSERT_TRUE(query);
  EXPECT_EQ(query(DELTA_ABI_VERSION), nullptr);
  EXPECT_NE(query(0x7fffffff), nullptr);
  dlclose(library);
  EXPECT_EQ(refusal(DELTA_NEWER_PLAN),
            DELTA_NEWER_PLAN ": plan of a newer ABI than version 2, which this "
                             "tool takes; update the tool");
}

TEST(OtherPlanTest, RefusesAnOlderVersion) {
  EXPECT_EQ(refusal(DELTA_OLDER_PLAN),
            DELTA_OLDER_PLAN ": plan of ABI version 1, this tool takes version "
                             "2; compile the model again");
}

TEST(OtherPlanTest, RefusesAShorterTable) {
  EXPECT_EQ(refusal(DELTA_SHORTER_PLAN),
            DELTA_SHORTER_PLAN ": plan of an older compiler, its table has 264 "
                               "bytes, this tool takes " +
                std::to_string(sizeof(delta_plan_api_t)) +
                "; compile the model again");
}

TEST(OtherPlanTest, RefusesALibraryThatIsNoPlan) {
  EXPECT_EQ(refusal("libm.so.6").rfind("cannot open plan: ./libm.so.6: ", 0),
            0u);
  EXPECT_EQ(refusal(DELTA_NO_PLAN),
            DELTA_NO_PLAN ": no plan: does not export delta_plan_query");
}

TEST(OtherPlanTest, RefusesAnotherMachine) {
  std::string path =
      changedCopy("other-machine.so", offsetof(Elf64_Ehdr, e_machine), {8, 0});
  EXPECT_EQ(refusal(path).rfind("cannot open plan: " + path + ": ", 0), 0u);
  path = changedCopy("other-class.so", EI_CLASS, {ELFCLASS32});
  EXPECT_EQ(refusal(path),
            "cannot open plan: " + path + ": wrong ELF class: ELFCLASS32");
}

TEST(OtherPlanTest, RefusesWhatIsNoSharedObject) {
  std::string path = changedCopy("text.so", 0, {'{', '}', '\n', '\n'});
  EXPECT_EQ(refusal(path),
            "cannot open plan: " + path + ": invalid ELF header");
  path = changedCopy("short.so", 0, {}, /*size=*/100);
  EXPECT_EQ(refusal(path).rfind("cannot open plan: " + path + ": ", 0), 0u);
  path = temporary("absent.so");
  EXPECT_EQ(refusal(path),
            "cannot open plan: " + path +
                ": cannot open shared object file: No such file or directory");
}

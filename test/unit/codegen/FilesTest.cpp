//===- FilesTest.cpp - Nothing half written -------------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/Files.h"

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace delta;
namespace fs = std::filesystem;
using ::testing::HasSubstr;

namespace {
class FilesTest : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(work.create(), std::nullopt); }

  std::string contentOf(const std::string &path) {
    std::string content;
    EXPECT_EQ(readFile(path, content), std::nullopt);
    return content;
  }
  size_t numFiles() {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(work.folder()), {}));
  }

  TemporaryFolder work;
};
} // namespace

TEST_F(FilesTest, WriteReplacesAndLeavesNothingElse) {
  std::string path = work.path("out");
  ASSERT_EQ(writeFile(path, "first"), std::nullopt);
  ASSERT_EQ(writeFile(path, std::string("\0two", 4)), std::nullopt);
  EXPECT_EQ(contentOf(path), std::string("\0two", 4));
  EXPECT_EQ(numFiles(), 1u);
}

TEST_F(FilesTest, ModeFollowsTheMask) {
  mode_t mask = ::umask(027);
  EXPECT_EQ(writeFile(work.path("data"), "x"), std::nullopt);
  EXPECT_EQ(writeFile(work.path("plan"), "x", FileMode::Executable),
            std::nullopt);
  ::umask(mask);
  struct stat status = {};
  ASSERT_EQ(::stat(work.path("data").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  ASSERT_EQ(::stat(work.path("plan").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0750u);
}

TEST_F(FilesTest, MissingFolderIsAnError) {
  MaybeError error = writeFile(work.path("none/out"), "x");
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("none/out': No such file or directory"));
  EXPECT_EQ(numFiles(), 0u);
}

TEST_F(FilesTest, FolderIsNotReplaced) {
  fs::create_directory(work.path("folder"));
  MaybeError error = writeFile(work.path("folder"), "x");
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("Is a directory"));
  EXPECT_TRUE(fs::is_directory(work.path("folder")));
}

TEST_F(FilesTest, LinkStaysALink) {
  ASSERT_EQ(writeFile(work.path("real"), "old"), std::nullopt);
  fs::create_symlink("real", work.path("link"));
  ASSERT_EQ(writeFile(work.path("link"), "new"), std::nullopt);
  EXPECT_TRUE(fs::is_symlink(work.path("link")));
  EXPECT_EQ(contentOf(work.path("real")), "new");
}

TEST_F(FilesTest, DeviceIsWrittenInPlace) {
  EXPECT_EQ(writeFile("/dev/null", "x"), std::nullopt);
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  MaybeError error = writeFile("/dev/full", "x");
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("No space left on device"));
}

TEST_F(FilesTest, MissingFileCannotBeRead) {
  std::string content = "kept";
  MaybeError error = readFile(work.path("none"), content);
  ASSERT_TRUE(error);
  EXPECT_THAT(*error, HasSubstr("cannot read"));
}

TEST(TemporaryFolderTest, IsRemovedUnlessKept) {
  std::string removed, kept;
  {
    TemporaryFolder first, second;
    ASSERT_EQ(first.create(), std::nullopt);
    ASSERT_EQ(second.create(), std::nullopt);
    EXPECT_NE(first.folder(), second.folder());
    ASSERT_EQ(writeFile(first.path("x"), ""), std::nullopt);
    second.keep();
    removed = first.folder();
    kept = second.folder();
  }
  EXPECT_FALSE(fs::exists(removed));
  EXPECT_TRUE(fs::is_directory(kept));
  fs::remove_all(kept);
}

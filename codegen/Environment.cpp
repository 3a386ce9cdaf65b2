//===- Environment.cpp - What the environment tells the compiler ----------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Environment variables, and programs looked up in PATH.
///
//===----------------------------------------------------------------------===//

#include "codegen/Environment.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <unistd.h>

using namespace delta;
namespace fs = std::filesystem;

/// The value of a variable; an empty one counts as unset.
static std::optional<std::string> variable(const char *name) {
  const char *value = std::getenv(name);
  if (!value || !*value)
    return std::nullopt;
  return std::string(value);
}

static bool isExecutable(const std::string &path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) &&
         ::access(path.c_str(), X_OK) == 0;
}

/// Full path of a program in PATH.
static std::optional<std::string> findInPath(const std::string &program) {
  std::istringstream folders(variable("PATH").value_or("/usr/bin:/bin"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string path = (folder.empty() ? "." : folder) + "/" + program;
    if (isExecutable(path))
      return path;
  }
  return std::nullopt;
}

Installation delta::installationAt(const std::string &prefix) {
  return {prefix + "/share/delta/include", prefix + "/lib/libdelta_runtime.a",
          prefix + "/lib/libdelta_runtime_cuda.a",
          prefix + "/share/delta/models"};
}

Installation delta::findInstallation() {
  std::error_code error;
  fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return installationAt(executable.parent_path().parent_path().string());
}

std::vector<std::string> delta::findHostCompiler() {
  if (auto chosen = variable("DELTA_CXX")) {
    std::istringstream words(*chosen);
    std::vector<std::string> command;
    for (std::string word; words >> word;)
      command.push_back(word);
    return command;
  }
  for (const char *program : {"c++", "g++", "clang++"})
    if (auto path = findInPath(program))
      return {*path};
  return {};
}

static std::string cudaHome() {
  return variable("CUDA_HOME").value_or("/usr/local/cuda");
}

std::optional<std::string> delta::findNvcc() {
  if (auto chosen = variable("DELTA_NVCC"))
    return chosen;
  if (variable("DELTA_NVRTC"))
    return std::nullopt;
  if (auto path = findInPath("nvcc"))
    return path;
  if (isExecutable(cudaHome() + "/bin/nvcc"))
    return cudaHome() + "/bin/nvcc";
  return std::nullopt;
}

std::vector<std::string> delta::findNvrtc() {
  if (auto chosen = variable("DELTA_NVRTC"))
    return {*chosen};
  return {"libnvrtc.so.13", cudaHome() + "/lib64/libnvrtc.so.13"};
}

std::string delta::temporaryFolder() {
  return variable("TMPDIR").value_or("/tmp");
}

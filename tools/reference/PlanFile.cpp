//===- PlanFile.cpp - A compiled plan, opened -----------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// dlopen, temporary directories and the child process.
///
//===----------------------------------------------------------------------===//

#include "tools/reference/PlanFile.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace delta::reference {

std::unique_ptr<PlanFile> PlanFile::open(const std::string &path,
                                         std::string &error) {
  // A name without a slash would be searched for among system libraries.
  const std::string file =
      path.find('/') == std::string::npos ? "./" + path : path;
  void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    error = std::string("cannot open plan: ") + dlerror();
    return nullptr;
  }
  using Query = const delta_plan_api_t *(uint32_t);
  auto *query = reinterpret_cast<Query *>(dlsym(handle, "delta_plan_query"));
  const delta_plan_api_t *table = query ? query(DELTA_ABI_VERSION) : nullptr;
  const std::string version = std::to_string(DELTA_ABI_VERSION);
  std::string what;
  if (!query)
    what = "no plan: does not export delta_plan_query";
  else if (!table)
    what = "plan of a newer ABI than version " + version +
           ", which this tool takes; update the tool";
  else if (table->version != DELTA_ABI_VERSION)
    what = "plan of ABI version " + std::to_string(table->version) +
           ", this tool takes version " + version + "; compile the model again";
  else if (table->size < sizeof(delta_plan_api_t))
    what = "plan of an older compiler, its table has " +
           std::to_string(table->size) + " bytes, this tool takes " +
           std::to_string(sizeof(delta_plan_api_t)) +
           "; compile the model again";
  if (!what.empty()) {
    error = path + ": " + what;
    dlclose(handle);
    return nullptr;
  }
  return std::unique_ptr<PlanFile>(new PlanFile(handle, table));
}

PlanFile::~PlanFile() { dlclose(handle); }

TemporaryDirectory::TemporaryDirectory() {
  std::error_code code;
  std::string pattern = (fs::temp_directory_path(code) / "delta-XXXXXX");
  if (!code && mkdtemp(pattern.data()))
    directory = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code code;
  if (!directory.empty())
    fs::remove_all(directory, code);
}

int runCompiler(const std::vector<std::string> &arguments, bool quiet,
                std::string &error) {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  const std::string compiler = self.parent_path() / "delta-compile";
  std::vector<char *> argv = {const_cast<char *>(compiler.c_str())};
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (quiet)
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  pid_t child = 0;
  const int failure = posix_spawn(&child, compiler.c_str(), &actions, nullptr,
                                  argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failure != 0) {
    error = "cannot run " + compiler + ": " + std::strerror(failure);
    return 1;
  }
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) {
      error = "cannot wait for " + compiler + ": " + std::strerror(errno);
      return 1;
    }
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  error = compiler + " was ended by signal " + std::to_string(WTERMSIG(status));
  return 1;
}

} // namespace delta::reference

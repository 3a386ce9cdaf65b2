//===- Toolchain.cpp - From emitted text to binaries ----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Command lines of the compilers, and child processes.
///
//===----------------------------------------------------------------------===//

#include "codegen/Toolchain.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace delta;

/// Everything in the archive is hidden but the one entry point.
static constexpr char versionScript[] =
    "{ global: delta_plan_query; local: *; };\n";

/// A command line that can be pasted into a shell.
static std::string quoted(const std::vector<std::string> &arguments) {
  std::string line;
  for (const std::string &argument : arguments) {
    if (!line.empty())
      line += ' ';
    bool isPlain = argument.find_first_of(" \t\n'\"\\$`*?[](){}<>|&;#~") ==
                   std::string::npos;
    if (isPlain && !argument.empty()) {
      line += argument;
      continue;
    }
    line += '\'';
    for (char c : argument)
      line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

/// Reads a pipe to its end.
static std::string drain(int pipe) {
  std::string text;
  char buffer[4096];
  ssize_t size;
  while ((size = ::read(pipe, buffer, sizeof(buffer))) != 0) {
    if (size < 0 && errno == EINTR)
      continue;
    if (size < 0)
      break;
    text.append(buffer, static_cast<size_t>(size));
  }
  return text;
}

MaybeError delta::runCommand(const std::vector<std::string> &arguments,
                             const std::string &folder, CommandResult &out) {
  int pipes[2];
  if (::pipe2(pipes, O_CLOEXEC) != 0)
    return std::string("cannot start a program: ") + std::strerror(errno);
  std::vector<char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
  posix_spawn_file_actions_addchdir_np(&actions, folder.c_str());
  pid_t child;
  int error =
      ::posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(pipes[1]);
  if (error) {
    ::close(pipes[0]);
    return "cannot start '" + arguments[0] + "': " + std::strerror(error);
  }
  out.output = drain(pipes[0]);
  ::close(pipes[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  out.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return std::nullopt;
}

MaybeError delta::runStep(const std::vector<std::string> &arguments,
                          const TemporaryFolder &work,
                          std::string_view sourceName) {
  CommandResult result;
  MaybeError error = runCommand(arguments, work.folder(), result);
  if (!error && result.status == 0)
    return std::nullopt;
  std::string text = error ? *error
                           : "the compiler failed with status " +
                                 std::to_string(result.status) + ":\n" +
                                 result.output;
  if (text.back() != '\n')
    text += '\n';
  return text + "command: cd " + work.folder() + " && " + quoted(arguments) +
         "\nsource kept: " + work.path(sourceName);
}

std::string delta::cubinSymbol(const Architecture &architecture) {
  return "delta_cubin_" + architecture.name();
}

/// Writes the cubins to `work`, and as `fileName` the assembler text that puts
/// their bytes under their symbols.
static MaybeError writeCubins(const std::vector<Cubin> &cubins,
                              const TemporaryFolder &work,
                              std::string_view fileName) {
  std::string text = "\t.section .rodata\n";
  for (const Cubin &cubin : cubins) {
    const std::string name = cubin.architecture.name() + ".cubin";
    const std::string symbol = cubinSymbol(cubin.architecture);
    if (MaybeError error = writeFile(work.path(name), cubin.image))
      return error;
    text += "\t.balign 64\n\t.globl " + symbol + "\n\t.hidden " + symbol +
            "\n" + symbol + ":\n\t.incbin \"" + name + "\"\n";
  }
  // Without this note the linker makes the stack executable.
  text += "\t.section .note.GNU-stack,\"\",%progbits\n";
  return writeFile(work.path(fileName), text);
}

MaybeError delta::compileHost(const std::string &source,
                              const std::string &outputPath,
                              const Installation &installation,
                              const std::vector<Cubin> &cubins) {
  std::vector<std::string> command = findHostCompiler();
  if (command.empty())
    return std::string("no host compiler: none of c++, g++, clang++ is in "
                       "PATH, and DELTA_CXX is not set");
  TemporaryFolder work;
  if (MaybeError error = work.create())
    return error;
  if (MaybeError error = writeFile(work.path("plan.cpp"), source))
    return error;
  if (MaybeError error = writeFile(work.path("plan.map"), versionScript))
    return error;

  if (!cubins.empty())
    if (MaybeError error = writeCubins(cubins, work, "cubins.s"))
      return error;

  // Names inside the output would change from run to run: the compiler works
  // in the folder on fixed names, and the rest is stripped.
  for (const char *argument :
       {"-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-shared",
        "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections",
        "-frandom-seed=delta", "-pthread"})
    command.push_back(argument);
  command.push_back("-ffile-prefix-map=" + work.folder() + "=.");
  command.push_back("-I" + installation.includeFolder);
  command.push_back("plan.cpp");
  if (!cubins.empty())
    command.push_back("cubins.s");
  command.push_back("-Wl,--whole-archive");
  command.push_back(cubins.empty() ? installation.runtimeArchive
                                   : installation.cudaRuntimeArchive);
  for (const char *argument :
       {"-Wl,--no-whole-archive", "-Wl,--version-script=plan.map",
        "-Wl,--no-undefined", "-Wl,--gc-sections", "-Wl,--build-id=none",
        "-Wl,--as-needed", "-Wl,-z,relro", "-s", "-o", "plan.so"})
    command.push_back(argument);
  if (!cubins.empty())
    command.push_back("-ldl"); // part of libc since glibc 2.34
  if (MaybeError error = runStep(command, work, "plan.cpp")) {
    work.keep();
    return error;
  }

  std::string plan;
  if (MaybeError error = readFile(work.path("plan.so"), plan))
    return error;
  return writeFile(outputPath, plan, FileMode::Executable);
}

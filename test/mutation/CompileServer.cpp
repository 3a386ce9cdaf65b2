//===- CompileServer.cpp - delta-compile, started once --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Most of the time of a small compilation goes into loading LLVM. This is
/// delta-compile itself, which loads once and forks for every line of standard
/// input: files for standard output and standard error, then the arguments,
/// with tabs between. It answers with the exit code, 128 and more for a signal.
///
//===----------------------------------------------------------------------===//

#define main compilerMain
#include "tools/delta-compile/delta-compile.cpp"
#undef main

#include <cstdio>
#include <fcntl.h>
#include <iostream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

/// Sends a stream to a new file.
static void redirect(int stream, const std::string &path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 || ::dup2(file, stream) < 0)
    ::_exit(127);
  ::close(file);
}

/// What a child does; its exit code.
static int serve(std::vector<std::string> words, char *program) {
  redirect(STDOUT_FILENO, words[0]);
  redirect(STDERR_FILENO, words[1]);
  std::vector<char *> arguments = {program};
  for (size_t i = 2; i < words.size(); ++i)
    arguments.push_back(words[i].data());
  arguments.push_back(nullptr);
  return compilerMain(int(arguments.size()) - 1, arguments.data());
}

int main(int, char **argv) {
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; std::getline(stream, word, '\t');)
      words.push_back(word);
    if (words.size() < 2)
      return 2;
    const pid_t child = ::fork();
    if (child == 0)
      std::exit(serve(std::move(words), argv[0]));
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child)
      return 1;
    std::printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status)
                                          : 128 + WTERMSIG(status));
    std::fflush(stdout);
  }
  return 0;
}

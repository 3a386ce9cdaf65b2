//===- CompileServer.cpp - delta-compile, started once --------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Most of the time of a small compilation goes into loading LLVM. This is
/// delta-compile itself, which loads once and compiles for every line of
/// standard input: files for standard output and standard error, then the
/// arguments, with tabs between. It answers with the exit code, 128 and more
/// for a signal. A child serves some lines, so that a crash ends one line, and
/// what a compilation leaves behind (it never frees options or passes) goes.
///
//===----------------------------------------------------------------------===//

#define main compilerMain
#include "tools/delta-compile/delta-compile.cpp"
#undef main

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

/// Lines that a child serves, and its exit codes when all of them, or all
/// there are, have been answered.
static constexpr int linesOfChild = 100;
static constexpr int goOn = 100, endOfInput = 101, badLine = 102;

static bool answer(int pipe, int code) {
  std::string line = std::to_string(code) + "\n";
  return ::write(pipe, line.data(), line.size()) == ssize_t(line.size());
}

/// What a child does; its exit code.
static int serve(int answers, char *program) {
  std::string line;
  for (int i = 0; i < linesOfChild; ++i) {
    if (!std::getline(std::cin, line))
      return endOfInput;
    std::vector<std::string> words;
    std::istringstream stream(line);
    for (std::string word; std::getline(stream, word, '\t');)
      words.push_back(word);
    if (words.size() < 2)
      return badLine;
    redirect(STDOUT_FILENO, words[0]);
    redirect(STDERR_FILENO, words[1]);
    std::vector<char *> arguments = {program};
    for (size_t w = 2; w < words.size(); ++w)
      arguments.push_back(words[w].data());
    arguments.push_back(nullptr);
    cl::ResetAllOptionOccurrences();
    const int code = compilerMain(int(arguments.size()) - 1, arguments.data());
    llvm::outs().flush();
    if (!answer(answers, code))
      return badLine;
  }
  return goOn;
}

int main(int, char **argv) {
  const int answers = ::dup(STDOUT_FILENO);
  for (int status = 0;;) {
    const pid_t child = ::fork();
    if (child == 0)
      ::_exit(serve(answers, argv[0]));
    if (child < 0 || ::waitpid(child, &status, 0) != child)
      return 1;
    const int code =
        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == endOfInput || code == badLine)
      return code == endOfInput ? 0 : 2;
    // It ended in the middle of a line.
    if (code != goOn && !answer(answers, code))
      return 1;
  }
}

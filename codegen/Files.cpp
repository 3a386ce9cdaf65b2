//===- Files.cpp - Whole files, written at once or not at all -------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Thin cover over the POSIX calls that atomic replacement needs.
///
//===----------------------------------------------------------------------===//

#include "codegen/Files.h"

#include "codegen/Environment.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace delta;
namespace fs = std::filesystem;

/// "cannot read 'x': No such file or directory", from errno.
static std::string systemError(const char *action, const std::string &path) {
  return std::string("cannot ") + action + " '" + path +
         "': " + std::strerror(errno);
}

static bool writeAll(int file, std::string_view content) {
  while (!content.empty()) {
    ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

MaybeError delta::readFile(const std::string &path, std::string &out) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return systemError("read", path);
  out.clear();
  char buffer[1 << 16];
  ssize_t size;
  while ((size = ::read(file, buffer, sizeof(buffer))) != 0) {
    if (size < 0 && errno == EINTR)
      continue;
    if (size < 0) {
      std::string error = systemError("read", path);
      ::close(file);
      return error;
    }
    out.append(buffer, static_cast<size_t>(size));
  }
  ::close(file);
  return std::nullopt;
}

/// Pipes and devices cannot be replaced by renaming.
static MaybeError writeInPlace(const std::string &path,
                               std::string_view content) {
  int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0)
    return systemError("write", path);
  MaybeError error;
  if (!writeAll(file, content))
    error = systemError("write", path);
  ::close(file);
  return error;
}

MaybeError delta::writeFile(const std::string &path, std::string_view content,
                            FileMode mode) {
  std::error_code status;
  if (fs::is_directory(path, status)) {
    errno = EISDIR;
    return systemError("write", path);
  }
  if (fs::exists(path, status) && !fs::is_regular_file(path, status))
    return writeInPlace(path, content);

  // A link stays a link; the file that it names is replaced.
  fs::path target = fs::weakly_canonical(path, status);
  if (status)
    target = path;
  std::string temporary = target.string() + ".XXXXXX";
  int file = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0)
    return systemError("write", path);
  mode_t mask = ::umask(0);
  ::umask(mask);
  mode_t permissions = mode == FileMode::Executable ? 0777 : 0666;
  bool isWritten =
      writeAll(file, content) && ::fchmod(file, permissions & ~mask) == 0;
  MaybeError error;
  if (!isWritten)
    error = systemError("write", path);
  if (::close(file) != 0 && !error)
    error = systemError("write", path);
  if (!error && ::rename(temporary.c_str(), target.c_str()) != 0)
    error = systemError("write", path);
  if (error)
    ::unlink(temporary.c_str());
  return error;
}

MaybeError TemporaryFolder::create() {
  root = temporaryFolder() + "/delta-XXXXXX";
  if (::mkdtemp(root.data()))
    return std::nullopt;
  std::string error = systemError("create", root);
  root.clear();
  return error;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!root.empty() && !isKept)
    fs::remove_all(root, ignored);
}

std::string TemporaryFolder::path(std::string_view name) const {
  return root + "/" + std::string(name);
}

//===- Files.h - Whole files, written at once or not at all -----*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Reading and writing of whole files, and a private temporary folder. Errors
/// are text: a file name and the system's reason.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_CODEGEN_FILES_H
#define DELTA_CODEGEN_FILES_H

#include <optional>
#include <string>
#include <string_view>

namespace delta {

/// An error text, or nothing after success.
using MaybeError = std::optional<std::string>;

enum class FileMode { Plain, Executable };

/// Reads all of `path` into `out`.
MaybeError readFile(const std::string &path, std::string &out);

/// Writes `path` so that a reader sees the old content or all of the new one:
/// a temporary file in the same folder is renamed. What is no regular file
/// (`/dev/stdout`) is written in place.
MaybeError writeFile(const std::string &path, std::string_view content,
                     FileMode mode = FileMode::Plain);

/// A folder of our own, removed with all that is in it unless kept.
class TemporaryFolder {
public:
  TemporaryFolder() = default;
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;

  MaybeError create();
  /// Leaves the folder to the user.
  void keep() { isKept = true; }
  /// Full path of a file in the folder.
  std::string path(std::string_view name) const;
  const std::string &folder() const { return root; }

private:
  std::string root;
  bool isKept = false;
};

} // namespace delta

#endif // DELTA_CODEGEN_FILES_H

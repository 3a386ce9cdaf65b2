//===- DeviceCode.cpp - From CUDA text to code for GPUs -------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/DeviceCode.h"

#include "codegen/Nvrtc.h"
#include "codegen/Toolchain.h"

#include <algorithm>
#include <atomic>
#include <sstream>
#include <thread>

using namespace delta;

//===----------------------------------------------------------------------===//
// Names of architectures
//===----------------------------------------------------------------------===//

const std::vector<std::string> &delta::defaultArchitectures() {
  static const std::vector<std::string> names = {"sm_80", "sm_90", "sm_100"};
  return names;
}

/// The last digit is the minor number: sm_100 is 10.0.
static MaybeError parseArchitecture(const std::string &name,
                                    Architecture &out) {
  size_t numDigits = name.size() < 3 ? 0 : name.size() - 3;
  bool isName = name.compare(0, 3, "sm_") == 0 && numDigits >= 2 &&
                numDigits <= 4 && name[3] != '0' &&
                name.find_first_not_of("0123456789", 3) == name.npos;
  if (!isName)
    return "architecture '" + name +
           "' is not of the form sm_90: features of one architecture alone "
           "(sm_90a) are not used, and no intermediate code (compute_90) is "
           "embedded";
  uint32_t number = uint32_t(std::stoul(name.substr(3)));
  out = {number / 10, number % 10};
  return std::nullopt;
}

MaybeError delta::parseArchitectures(const std::vector<std::string> &names,
                                     std::vector<Architecture> &out) {
  out.clear();
  for (const std::string &name : names) {
    Architecture architecture = {};
    if (MaybeError error = parseArchitecture(name, architecture))
      return error;
    for (const Architecture &other : out)
      if (other.name() == name)
        return "architecture '" + name + "' is given twice";
    out.push_back(architecture);
  }
  std::sort(out.begin(), out.end(),
            [](const Architecture &a, const Architecture &b) {
              return std::pair(a.major, a.minor) < std::pair(b.major, b.minor);
            });
  return std::nullopt;
}

/// `compiler` is "nvcc" or "NVRTC"; `known` are the names that it compiles for.
static MaybeError checkKnown(const std::vector<Architecture> &architectures,
                             const std::vector<std::string> &known,
                             const std::string &compiler) {
  for (const Architecture &architecture : architectures) {
    if (std::find(known.begin(), known.end(), architecture.name()) !=
        known.end())
      continue;
    std::string list;
    for (const std::string &name : known)
      list += (list.empty() ? "" : ", ") + name;
    return compiler + " does not compile for architecture '" +
           architecture.name() + "', only for " + list;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Compilers
//===----------------------------------------------------------------------===//

namespace {
/// Compiles the file plan.cu of a folder for one architecture. Called by
/// several threads at once.
class DeviceCompiler {
public:
  virtual ~DeviceCompiler() = default;
  virtual MaybeError check(const std::vector<Architecture> &architectures) = 0;
  virtual MaybeError compile(const std::string &source,
                             const TemporaryFolder &work, Cubin &cubin) = 0;
};

class NvccCompiler : public DeviceCompiler {
public:
  NvccCompiler(std::string program, const Installation &installation)
      : program(std::move(program)), installation(installation) {}

  MaybeError check(const std::vector<Architecture> &architectures) override {
    CommandResult result;
    if (MaybeError error =
            runCommand({program, "--list-gpu-code"}, ".", result))
      return error;
    if (result.status != 0)
      return "'" + program + " --list-gpu-code' failed with status " +
             std::to_string(result.status) + ":\n" + result.output;
    std::vector<std::string> known;
    std::istringstream lines(result.output);
    for (std::string line; std::getline(lines, line);)
      known.push_back(line);
    return checkKnown(architectures, known, "nvcc");
  }

  MaybeError compile(const std::string &source, const TemporaryFolder &work,
                     Cubin &cubin) override {
    const std::string name = cubin.architecture.name();
    const std::string output = name + ".cubin";
    if (MaybeError error =
            runStep({program, "-std=c++17", "-O3", "-DNDEBUG", "-arch=" + name,
                     "-cubin", "-I" + installation.includeFolder, "plan.cu",
                     "-o", output},
                    work, "plan.cu"))
      return error;
    return readFile(work.path(output), cubin.image);
  }

private:
  const std::string program;
  const Installation &installation;
};

class NvrtcCompiler : public DeviceCompiler {
public:
  NvrtcCompiler(const Nvrtc &library, const Installation &installation)
      : library(library), installation(installation) {}

  MaybeError check(const std::vector<Architecture> &architectures) override {
    std::vector<std::string> known;
    if (MaybeError error = library.architectures(known))
      return error;
    return checkKnown(architectures, known, "NVRTC");
  }

  MaybeError compile(const std::string &source, const TemporaryFolder &work,
                     Cubin &cubin) override {
    MaybeError error = library.compile(source,
                                       {"-std=c++17", "-DNDEBUG",
                                        // Code without a mark is not refused
                                        // as the host's.
                                        "-default-device",
                                        "-arch=" + cubin.architecture.name(),
                                        "-I" + installation.includeFolder},
                                       cubin.image);
    if (error)
      return *error + "\nsource kept: " + work.path("plan.cu");
    return error;
  }

private:
  const Nvrtc &library;
  const Installation &installation;
};
} // namespace

/// nvcc, or NVRTC where that was chosen or nvcc is missing.
static MaybeError findCompiler(const Installation &installation, Nvrtc &nvrtc,
                               std::unique_ptr<DeviceCompiler> &out) {
  std::optional<std::string> nvcc = findNvcc();
  if (nvcc) {
    out = std::make_unique<NvccCompiler>(*nvcc, installation);
    return std::nullopt;
  }
  if (MaybeError error = nvrtc.open(findNvrtc()))
    return "no CUDA compiler: nvcc is neither in PATH nor in CUDA_HOME, and "
           "DELTA_NVCC is not set; " +
           *error;
  out = std::make_unique<NvrtcCompiler>(nvrtc, installation);
  return std::nullopt;
}

MaybeError delta::compileCubins(const std::string &source,
                                const std::vector<Architecture> &architectures,
                                const Installation &installation,
                                std::vector<Cubin> &out) {
  Nvrtc nvrtc;
  std::unique_ptr<DeviceCompiler> compiler;
  if (MaybeError error = findCompiler(installation, nvrtc, compiler))
    return error;
  if (MaybeError error = compiler->check(architectures))
    return error;
  TemporaryFolder work;
  if (MaybeError error = work.create())
    return error;
  if (MaybeError error = writeFile(work.path("plan.cu"), source))
    return error;

  out.clear();
  for (const Architecture &architecture : architectures)
    out.push_back({architecture, {}});
  std::vector<MaybeError> errors(out.size());
  std::atomic<size_t> next{0};
  auto workOff = [&] {
    for (size_t i; (i = next++) < out.size();)
      errors[i] = compiler->compile(source, work, out[i]);
  };
  std::vector<std::thread> threads;
  size_t jobs = std::max(1u, std::thread::hardware_concurrency());
  for (size_t i = 1; i < std::min(jobs, out.size()); ++i)
    threads.emplace_back(workOff);
  workOff();
  for (std::thread &thread : threads)
    thread.join();
  for (const MaybeError &error : errors)
    if (error) {
      work.keep();
      return error;
    }
  return std::nullopt;
}

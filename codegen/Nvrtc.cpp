//===- Nvrtc.cpp - NVIDIA's compiler as a library -------------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/Nvrtc.h"

#include <dlfcn.h>

using namespace delta;

/// The entry points; types as in nvrtc.h, results as numbers.
struct Nvrtc::Symbols {
  using Program = void *;
  const char *(*nvrtcGetErrorString)(int);
  int (*nvrtcGetNumSupportedArchs)(int *);
  int (*nvrtcGetSupportedArchs)(int *);
  int (*nvrtcCreateProgram)(Program *, const char *source, const char *name,
                            int numHeaders, const char *const *headers,
                            const char *const *headerNames);
  int (*nvrtcDestroyProgram)(Program *);
  int (*nvrtcCompileProgram)(Program, int numOptions,
                             const char *const *options);
  int (*nvrtcGetProgramLogSize)(Program, size_t *);
  int (*nvrtcGetProgramLog)(Program, char *);
  int (*nvrtcGetCUBINSize)(Program, size_t *);
  int (*nvrtcGetCUBIN)(Program, char *);

  /// The first that is missing; null: none is.
  const char *load(void *library) {
#define DELTA_NVRTC_SYMBOL(name)                                               \
  if (!(name = reinterpret_cast<decltype(name)>(dlsym(library, #name))))       \
    return #name;
    DELTA_NVRTC_SYMBOL(nvrtcGetErrorString)
    DELTA_NVRTC_SYMBOL(nvrtcGetNumSupportedArchs)
    DELTA_NVRTC_SYMBOL(nvrtcGetSupportedArchs)
    DELTA_NVRTC_SYMBOL(nvrtcCreateProgram)
    DELTA_NVRTC_SYMBOL(nvrtcDestroyProgram)
    DELTA_NVRTC_SYMBOL(nvrtcCompileProgram)
    DELTA_NVRTC_SYMBOL(nvrtcGetProgramLogSize)
    DELTA_NVRTC_SYMBOL(nvrtcGetProgramLog)
    DELTA_NVRTC_SYMBOL(nvrtcGetCUBINSize)
    DELTA_NVRTC_SYMBOL(nvrtcGetCUBIN)
#undef DELTA_NVRTC_SYMBOL
    return nullptr;
  }
};

Nvrtc::Nvrtc() = default;
Nvrtc::~Nvrtc() = default;

//===----------------------------------------------------------------------===//
// Headers of the C library
//===----------------------------------------------------------------------===//

namespace {
struct Header {
  const char *name;
  const char *text;
};
} // namespace

/// What codegen/device uses of each. memcpy and memset are known to the
/// compiler.
static constexpr Header headers[] = {
    {"stddef.h", R"(#pragma once
typedef decltype(sizeof(0)) size_t;
typedef decltype((char *)0 - (char *)0) ptrdiff_t;
#define offsetof(type, member) __builtin_offsetof(type, member)
)"},
    {"stdint.h", R"(#pragma once
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
)"},
    {"string.h", "#pragma once\n"},
};

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

MaybeError Nvrtc::open(const std::vector<std::string> &libraries) {
  std::string tried;
  for (const std::string &library : libraries) {
    if (void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      symbols = std::make_unique<Symbols>();
      if (const char *missing = symbols->load(handle))
        return library + " has no " + missing;
      return std::nullopt;
    }
    tried += (tried.empty() ? "" : ", ") + library;
  }
  return tried + " cannot be opened";
}

MaybeError Nvrtc::check(const char *call, int result) const {
  if (result == 0)
    return std::nullopt;
  return std::string(call) + ": " + symbols->nvrtcGetErrorString(result);
}

MaybeError Nvrtc::architectures(std::vector<std::string> &out) const {
  int count = 0;
  if (MaybeError error = check("nvrtcGetNumSupportedArchs",
                               symbols->nvrtcGetNumSupportedArchs(&count)))
    return error;
  std::vector<int> numbers(static_cast<size_t>(count));
  if (MaybeError error = check("nvrtcGetSupportedArchs",
                               symbols->nvrtcGetSupportedArchs(numbers.data())))
    return error;
  out.clear();
  for (int number : numbers)
    out.push_back("sm_" + std::to_string(number));
  return std::nullopt;
}

MaybeError Nvrtc::compile(const std::string &source,
                          const std::vector<std::string> &options,
                          std::string &outCubin) const {
  std::vector<const char *> texts, names, arguments;
  for (const Header &header : headers) {
    texts.push_back(header.text);
    names.push_back(header.name);
  }
  std::string command = "nvrtc plan.cu";
  for (const std::string &option : options) {
    arguments.push_back(option.c_str());
    command += " " + option;
  }
  Symbols::Program program = nullptr;
  if (MaybeError error =
          check("nvrtcCreateProgram",
                symbols->nvrtcCreateProgram(&program, source.c_str(), "plan.cu",
                                            static_cast<int>(texts.size()),
                                            texts.data(), names.data())))
    return error;
  MaybeError error =
      check("nvrtcCompileProgram",
            symbols->nvrtcCompileProgram(
                program, static_cast<int>(arguments.size()), arguments.data()));
  size_t size = 0;
  if (error) {
    if (symbols->nvrtcGetProgramLogSize(program, &size) == 0 && size > 1) {
      std::string log(size, '\0');
      if (symbols->nvrtcGetProgramLog(program, log.data()) == 0)
        *error += ":\n" + log.substr(0, log.find('\0'));
    }
    *error += "\ncommand: " + command;
  } else if (!(error = check("nvrtcGetCUBINSize",
                             symbols->nvrtcGetCUBINSize(program, &size)))) {
    outCubin.resize(size);
    error = check("nvrtcGetCUBIN",
                  symbols->nvrtcGetCUBIN(program, outCubin.data()));
  }
  (void)symbols->nvrtcDestroyProgram(&program);
  return error;
}

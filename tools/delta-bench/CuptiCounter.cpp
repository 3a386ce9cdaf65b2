//===- CuptiCounter.cpp - Launches as CUPTI sees them ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchCounter.h"

#include <cupti.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <vector>

using namespace delta::bench;

namespace {
/// The functions that are used, or null.
struct Cupti {
  decltype(&cuptiSubscribe) subscribe = nullptr;
  decltype(&cuptiUnsubscribe) unsubscribe = nullptr;
  decltype(&cuptiEnableDomain) enableDomain = nullptr;
  decltype(&cuptiGetResultString) resultString = nullptr;

  /// Empty, or why there is none.
  std::string open();

private:
  template <typename Function>
  void find(void *handle, const char *name, Function &out) {
    out = reinterpret_cast<Function>(dlsym(handle, name));
  }
};

class CuptiCounter final : public LaunchCounter {
public:
  ~CuptiCounter() override {
    if (isSubscribed)
      cupti.unsubscribe(subscriber);
  }
  LaunchCounts take() override {
    return {kernels.exchange(0), graphs.exchange(0), copies.exchange(0),
            fills.exchange(0)};
  }
  /// Empty, or why it does not count.
  std::string start();

private:
  static void CUPTIAPI called(void *self, CUpti_CallbackDomain domain,
                              CUpti_CallbackId id, const void *data);

  Cupti cupti;
  CUpti_SubscriberHandle subscriber = nullptr;
  bool isSubscribed = false;
  std::atomic<uint64_t> kernels{0}, graphs{0}, copies{0}, fills{0};
};
} // namespace

std::string Cupti::open() {
  std::vector<std::string> folders;
  const char *const homes[] = {std::getenv("CUDA_HOME"), "/usr/local/cuda"};
  for (const char *home : homes)
    if (home && *home)
      for (const char *part : {"/extras/CUPTI/lib64/", "/lib64/"})
        folders.push_back(std::string(home) + part);
  folders.push_back(""); // LD_LIBRARY_PATH and the loader's own
  const std::string names[] = {
      "libcupti.so." + std::to_string(CUDA_VERSION / 1000), "libcupti.so"};
  for (const std::string &folder : folders)
    for (const std::string &name : names) {
      // Stays open: the driver knows of it.
      void *handle = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!handle)
        continue;
      find(handle, "cuptiSubscribe", subscribe);
      find(handle, "cuptiUnsubscribe", unsubscribe);
      find(handle, "cuptiEnableDomain", enableDomain);
      find(handle, "cuptiGetResultString", resultString);
      if (subscribe && unsubscribe && enableDomain && resultString)
        return "";
    }
  return names[0] + " cannot be opened in $CUDA_HOME/extras/CUPTI/lib64 nor "
                    "where the loader looks";
}

std::string CuptiCounter::start() {
  std::string why = cupti.open();
  if (!why.empty())
    return why;
  const char *call = "cuptiSubscribe";
  CUptiResult result = cupti.subscribe(&subscriber, called, this);
  isSubscribed = result == CUPTI_SUCCESS;
  if (isSubscribed) {
    call = "cuptiEnableDomain";
    result = cupti.enableDomain(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API);
  }
  if (result == CUPTI_SUCCESS)
    return "";
  const char *text = nullptr;
  cupti.resultString(result, &text);
  return std::string(call) + ": " + (text ? text : "unknown error");
}

/// By name, so that variants of a call (cuLaunchKernelEx, ..._ptsz) count too,
/// those of later drivers included.
void CuptiCounter::called(void *self, CUpti_CallbackDomain domain,
                          CUpti_CallbackId, const void *data) {
  auto *call = static_cast<const CUpti_CallbackData *>(data);
  if (domain != CUPTI_CB_DOMAIN_DRIVER_API ||
      call->callbackSite != CUPTI_API_ENTER || !call->functionName)
    return;
  auto *counter = static_cast<CuptiCounter *>(self);
  auto begins = [&](const char *prefix) {
    return strncmp(call->functionName, prefix, strlen(prefix)) == 0;
  };
  if (begins("cuLaunch") && !begins("cuLaunchHostFunc"))
    ++counter->kernels;
  else if (begins("cuGraphLaunch"))
    ++counter->graphs;
  else if (begins("cuMemcpy"))
    ++counter->copies;
  else if (begins("cuMemset"))
    ++counter->fills;
}

std::unique_ptr<LaunchCounter> LaunchCounter::open(std::string &why) {
  auto made = std::make_unique<CuptiCounter>();
  why = made->start();
  if (!why.empty())
    return nullptr;
  return made;
}

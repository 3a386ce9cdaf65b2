//===- CudaDeviceTest.cpp - A GPU through a driver that is a fake ---------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeCuda.h"

#include "runtime/device/OpenDevice.h"

#include <cstdlib>
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <thread>

using namespace delta::runtime;
using delta::test::FakeCuda;
using delta::test::FakeCudaGetter;
using ::testing::ElementsAre;
using ::testing::Pair;

namespace {

/// An image of the fake driver: the names in it.
std::string imageWith(const std::string &more) {
  std::string image = more;
#define DELTA_DEVICE_KERNEL(enumerator, name, arguments, body, file, threads,  \
                            blocks, shared)                                    \
  image += " delta_" #name;
#include "codegen/device/DeviceKernels.def"
  return image;
}

/// Kernels of a plan with code for 8.0, 9.0 and 10.0.
struct FakeKernels : delta_kernels_t {
  explicit FakeKernels(std::string text = "delta_boxes delta_images")
      : delta_kernels_t(), image(imageWith(text)) {
    auto *bytes = reinterpret_cast<const unsigned char *>(image.c_str());
    uint32_t majors[] = {8, 9, 10};
    for (uint32_t i = 0; i < 3; ++i)
      table[i] = {majors[i], 0, bytes, image.size()};
    num_cubins = 3;
    cubins = table;
  }
  std::string image;
  delta_cubin_t table[3] = {};
};

class CudaDeviceTest : public ::testing::Test {
protected:
  void SetUp() override {
    // Read at the first use, which is not before.
    ::setenv("DELTA_CUDA_DRIVER", DELTA_FAKE_CUDA, 1);
    void *library = ::dlopen(DELTA_FAKE_CUDA, RTLD_NOW);
    ASSERT_NE(library, nullptr) << ::dlerror();
    auto *getter =
        reinterpret_cast<FakeCudaGetter *>(::dlsym(library, "delta_fake_cuda"));
    ASSERT_NE(getter, nullptr);
    driver = getter();
    driver->setCurrent(driver->context(1));
  }

  void TearDown() override {
    device.reset();
    EXPECT_EQ(driver->numBlocks, 0);
    EXPECT_EQ(driver->numPinnedBlocks, 0);
    EXPECT_EQ(driver->numModules, 0);
    EXPECT_EQ(driver->numStreams, 0);
    EXPECT_EQ(driver->numEvents, 0);
    EXPECT_EQ(driver->numPrimary, 0);
  }

  /// The next call of this name fails.
  void fail(const char *name, int result) {
    driver->failing = name;
    driver->result = result;
  }

  void open() {
    Status status = openDevice(kernels, device);
    ASSERT_FALSE(status.failed()) << status.getText();
    ASSERT_NE(device, nullptr);
  }

  FakeCuda *driver = nullptr;
  FakeKernels kernels;
  std::shared_ptr<Device> device;
};

TEST_F(CudaDeviceTest, HostPlanNeedsNoDevice) {
  delta_kernels_t host = {};
  EXPECT_FALSE(checkDevice(host).failed());
  EXPECT_FALSE(openDevice(host, device).failed());
  EXPECT_EQ(device, nullptr);
}

TEST_F(CudaDeviceTest, CodeIsChosenByComputeCapability) {
  auto check = [&](int major, int minor) {
    driver->major = major;
    driver->minor = minor;
    Status status = checkDevice(kernels);
    EXPECT_EQ(status.getCode(), status.failed() ? DELTA_NO_DEVICE : DELTA_OK);
    return status.getText();
  };
  EXPECT_EQ(check(8, 0), "");
  EXPECT_EQ(check(8, 9), "");
  EXPECT_EQ(check(10, 3), "");
  EXPECT_EQ(check(7, 5), "the device has compute capability 7.5, the plan has "
                         "code for 8.0, 9.0, 10.0");
  EXPECT_EQ(check(12, 0), "the device has compute capability 12.0, the plan "
                          "has code for 8.0, 9.0, 10.0");
  // The highest that the device runs: 8.6 on 8.9 and not on 8.0.
  FakeKernels newer("of_newer");
  kernels.table[1] = {8, 6, newer.table[0].image, newer.table[0].size};
  kernels.table[2] = {8, 7, newer.table[0].image, newer.table[0].size};
  kernels.image.clear(); // has no kernels
  driver->major = 8;
  driver->minor = 6;
  EXPECT_FALSE(openDevice(kernels, device).failed());
  device.reset();
  driver->minor = 0;
  EXPECT_EQ(openDevice(kernels, device).getText(),
            "delta_diff: cuModuleGetFunction: named symbol not found");
  driver->major = 9;
}

TEST_F(CudaDeviceTest, TablesAreFoundWhereThePlanHasSome) {
  open();
  EXPECT_NE(device->getBoxes(), nullptr);
  EXPECT_NE(device->getImages(), nullptr);
  EXPECT_NE(static_cast<const void *>(device->getBoxes()),
            static_cast<const void *>(device->getImages()));
  EXPECT_EQ(device->getNumProcessors(), 132u);
  device.reset();
  FakeKernels empty("none");
  ASSERT_FALSE(openDevice(empty, device).failed());
  EXPECT_EQ(device->getBoxes(), nullptr);
  EXPECT_EQ(device->getImages(), nullptr);
}

TEST_F(CudaDeviceTest, OneDeviceForAContextAndAPlan) {
  open();
  std::shared_ptr<Device> other;
  ASSERT_FALSE(openDevice(kernels, other).failed());
  EXPECT_EQ(other, device);
  EXPECT_EQ(driver->numModules, 1);
  FakeKernels otherPlan;
  ASSERT_FALSE(openDevice(otherPlan, other).failed());
  EXPECT_NE(other, device);
  EXPECT_EQ(driver->numModules, 2);
  driver->setCurrent(driver->context(2));
  ASSERT_FALSE(openDevice(kernels, other).failed());
  EXPECT_NE(other, device);
  // A new context at an old address.
  driver->renew(2);
  std::shared_ptr<Device> renewed;
  ASSERT_FALSE(openDevice(kernels, renewed).failed());
  EXPECT_NE(renewed, other);
  EXPECT_EQ(driver->numModules, 3);
  other.reset();
  EXPECT_EQ(driver->numModules, 2);
  EXPECT_EQ(driver->numPrimary, 0);
}

TEST_F(CudaDeviceTest, WithoutAContextThePrimaryOneIsTaken) {
  driver->setCurrent(nullptr);
  EXPECT_FALSE(checkDevice(kernels).failed());
  EXPECT_EQ(driver->numPrimary, 0) << "a question takes nothing";
  open();
  EXPECT_EQ(driver->numPrimary, 1);
  EXPECT_EQ(driver->getCurrent(), nullptr) << "the caller has what he had";
  std::shared_ptr<Device> same;
  ASSERT_FALSE(openDevice(kernels, same).failed());
  EXPECT_EQ(same, device);
  EXPECT_EQ(driver->numPrimary, 1);
  fail("cuDevicePrimaryCtxRetain", 2);
  EXPECT_EQ(openDevice(kernels, same).getText(),
            "cuDevicePrimaryCtxRetain: out of memory");
}

TEST_F(CudaDeviceTest, CallsMayComeFromAnyThread) {
  open();
  void *own = driver->context(2);
  void *block = nullptr;
  std::thread([&] {
    EXPECT_EQ(driver->getCurrent(), nullptr);
    EXPECT_FALSE(device->allocate(64, block).failed());
    EXPECT_EQ(driver->getCurrent(), nullptr);
    driver->setCurrent(own);
    EXPECT_FALSE(device->fill(block, 7, 64, nullptr).failed());
    EXPECT_EQ(driver->getCurrent(), own);
  }).join();
  EXPECT_EQ(static_cast<uint8_t *>(block)[63], 7);
  device->free(block);
}

TEST_F(CudaDeviceTest, PointersAreToldApart) {
  open();
  DeviceBuffer memory, pinned;
  ASSERT_FALSE(memory.allocate(device, 100).failed());
  ASSERT_FALSE(pinned.allocate(device, 100, /*pinned=*/true).failed());
  int local = 0;
  EXPECT_EQ(device->kindOf(memory.as(99)), MemoryKind::Device);
  EXPECT_EQ(device->kindOf(pinned.as(99)), MemoryKind::Pinned);
  EXPECT_EQ(device->kindOf(&local), MemoryKind::Host);
  EXPECT_EQ(device->kindOf(nullptr), MemoryKind::Unknown);
  driver->ofOtherDevice = &local;
  EXPECT_EQ(device->kindOf(&local), MemoryKind::Unknown);
  driver->ofOtherDevice = nullptr;
  fail("cuPointerGetAttributes", 700);
  EXPECT_EQ(device->kindOf(memory.as()), MemoryKind::Unknown);
}

TEST_F(CudaDeviceTest, WorkGoesToTheStreamOfTheCall) {
  open();
  Stream stream = nullptr;
  void *event = nullptr;
  ASSERT_FALSE(device->createStream(stream).failed());
  ASSERT_FALSE(device->createEvent(event).failed());
  char from[8] = "1234567", to[8] = "";
  driver->calls.clear();
  EXPECT_FALSE(device->copy(to, from, 8, stream).failed());
  EXPECT_FALSE(device->fill(to + 4, '-', 3, nullptr).failed());
  EXPECT_FALSE(device->record(event, stream).failed());
  EXPECT_FALSE(device->await(event, nullptr).failed());
  EXPECT_FALSE(device->wait(stream).failed());
  EXPECT_STREQ(to, "1234---");
  // Nothing to do is no call.
  EXPECT_FALSE(device->copy(nullptr, nullptr, 0, stream).failed());
  EXPECT_FALSE(device->fill(nullptr, 1, 0, stream).failed());
  EXPECT_THAT(driver->calls, ElementsAre(Pair("cuMemcpyAsync", stream),
                                         Pair("cuMemsetD8Async", nullptr),
                                         Pair("cuEventRecord", stream),
                                         Pair("cuStreamWaitEvent", nullptr),
                                         Pair("cuStreamSynchronize", stream)));
  device->destroyEvent(event);
  device->destroyStream(stream);
}

TEST_F(CudaDeviceTest, TellsWhichStreamIsCaptured) {
  open();
  Stream stream = nullptr;
  ASSERT_FALSE(device->createStream(stream).failed());
  EXPECT_FALSE(device->isCapturing(stream));
  driver->capturing = stream;
  EXPECT_TRUE(device->isCapturing(stream));
  EXPECT_FALSE(device->isCapturing(nullptr));
  // The driver says nothing of its default stream while others are captured.
  driver->failing = "cuStreamIsCapturing";
  EXPECT_FALSE(device->isCapturing(stream));
  driver->capturing = nullptr;
  device->destroyStream(stream);
}

TEST_F(CudaDeviceTest, LaunchTakesItsKernelAndArguments) {
  open();
  driver->launches.clear();
  uint64_t before = device->getNumLaunches(), arguments = 0x0102030405060708u;
  ASSERT_FALSE(
      device->launch(DeviceKernel::Diff, 528, &arguments, &before).failed());
  EXPECT_EQ(device->getNumLaunches(), before + 1);
  ASSERT_EQ(driver->launches.size(), 1u);
  const FakeCuda::Launch &launch = driver->launches[0];
  EXPECT_EQ(launch.kernel, "delta_diff");
  EXPECT_EQ(launch.numBlocks, 528u);
  EXPECT_EQ(launch.numThreads, shapeOf(DeviceKernel::Diff).numThreads);
  // What one block can have, less the 8,192 that the kernel takes itself.
  EXPECT_EQ(launch.sharedBytes, 232448u - 8192);
  EXPECT_EQ(driver->dynamicShared["delta_diff"], 232448 - 8192);
  EXPECT_EQ(driver->dynamicShared.count("delta_seal"), 0u);
  EXPECT_EQ(launch.stream, &before);
  EXPECT_THAT(launch.arguments, ElementsAre(8, 7, 6, 5, 4, 3, 2, 1));
}

TEST_F(CudaDeviceTest, TooLittleSharedMemoryIsRefused) {
  driver->sharedOfProcessor = 100 << 10;
  driver->sharedOfBlock = 99 << 10;
  Status status = openDevice(kernels, device);
  EXPECT_EQ(status.getCode(), DELTA_NO_DEVICE);
  EXPECT_EQ(status.getText(),
            "delta_diff: the device has 101376 bytes of shared memory for a "
            "block, required: 155648");
  EXPECT_EQ(device, nullptr);
  driver->sharedOfProcessor = 233472;
  driver->sharedOfBlock = 232448;
}

TEST_F(CudaDeviceTest, FailureNamesTheCallAndTheDriversWords) {
  open();
  void *out = &out;
  uint64_t arguments = 0;
  auto text = [&](const char *call, int result, auto body) {
    fail(call, result);
    Status status = body();
    EXPECT_EQ(status.getCode(), result == 2 ? DELTA_NO_MEMORY : DELTA_INTERNAL);
    EXPECT_EQ(driver->failing, "") << call << " was not called";
    return status.getText();
  };
  EXPECT_EQ(text("cuMemAlloc", 2, [&] { return device->allocate(1, out); }),
            "cuMemAlloc: out of memory");
  EXPECT_EQ(
      text("cuMemHostAlloc", 2, [&] { return device->allocatePinned(1, out); }),
      "cuMemHostAlloc: out of memory");
  EXPECT_EQ(out, &out) << "set in spite of the failure";
  EXPECT_EQ(text("cuLaunchKernel", 700,
                 [&] {
                   return device->launch(DeviceKernel::Diff, 1, &arguments,
                                         nullptr);
                 }),
            "cuLaunchKernel: an illegal memory access was encountered");
  EXPECT_EQ(
      text("cuStreamSynchronize", 700, [&] { return device->wait(nullptr); }),
      "cuStreamSynchronize: an illegal memory access was encountered");
  EXPECT_EQ(text("cuMemcpyAsync", 12345,
                 [&] { return device->copy(&out, &arguments, 8, nullptr); }),
            "cuMemcpyAsync: error 12345");
  // Whether the plan can run is asked with one code.
  fail("cuCtxGetDevice", 700);
  Status status = checkDevice(kernels);
  EXPECT_EQ(status.getCode(), DELTA_NO_DEVICE);
  EXPECT_EQ(status.getText(), "no usable NVIDIA GPU: cuCtxGetDevice: an "
                              "illegal memory access was encountered");
}

TEST_F(CudaDeviceTest, NothingIsLeftOfADeviceThatFailsToOpen) {
  driver->setCurrent(nullptr);
  for (const char *call : {"cuCtxGetId", "cuCtxPushCurrent", "cuModuleLoadData",
                           "cuModuleGetFunction", "cuModuleGetGlobal"}) {
    fail(call, 2);
    Status status = openDevice(kernels, device);
    EXPECT_EQ(status.getCode(), DELTA_NO_MEMORY) << call;
    EXPECT_THAT(status.getText(),
                ::testing::HasSubstr(std::string(call) + ": out of memory"));
    EXPECT_EQ(device, nullptr);
    EXPECT_EQ(driver->numModules, 0) << call;
    EXPECT_EQ(driver->numPrimary, 0) << call;
    EXPECT_EQ(driver->getCurrent(), nullptr);
  }
}

} // namespace

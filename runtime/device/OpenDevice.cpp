//===- OpenDevice.cpp - The device of a plan for GPUs ---------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// Finds the context, the device and the code for it, and shares what is open.
///
//===----------------------------------------------------------------------===//

#include "runtime/device/OpenDevice.h"

#include "runtime/device/CudaDevice.h"

#include <map>
#include <mutex>

using namespace delta::runtime;
using namespace delta::runtime::cuda;

namespace {
/// What a plan runs on.
struct Place {
  const CudaSymbols *symbols = nullptr;
  CudaContext context = nullptr; ///< null: none is current
  CudaOrdinal ordinal = 0;       ///< the context's device, or the first one
  const delta_cubin_t *cubin = nullptr;
};
} // namespace

static Status findContext(Place &out) {
  const CudaSymbols &symbols = *out.symbols;
  Status status = DELTA_CUDA_CALL(symbols, contextGetCurrent, (&out.context));
  if (status.failed())
    return status;
  return out.context
             ? DELTA_CUDA_CALL(symbols, contextGetDevice, (&out.ordinal))
             : DELTA_CUDA_CALL(symbols, deviceGet, (&out.ordinal, 0));
}

/// Code for compute capability major.x runs on major.y where x <= y.
static Status findCubin(const delta_kernels_t &kernels, Place &out) {
  int major = 0, minor = 0;
  Status status = DELTA_CUDA_CALL(
      *out.symbols, deviceGetAttribute,
      (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, out.ordinal));
  if (!status.failed())
    status = DELTA_CUDA_CALL(
        *out.symbols, deviceGetAttribute,
        (&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, out.ordinal));
  if (status.failed())
    return status;
  std::string list;
  for (uint32_t i = 0; i < kernels.num_cubins; ++i) {
    const delta_cubin_t &cubin = kernels.cubins[i];
    list += (i ? ", " : "") + std::to_string(cubin.major) + "." +
            std::to_string(cubin.minor);
    if (int(cubin.major) == major && int(cubin.minor) <= minor &&
        (!out.cubin || out.cubin->minor < cubin.minor))
      out.cubin = &cubin;
  }
  if (!out.cubin)
    return Status::error(DELTA_NO_DEVICE,
                         "the device has compute capability %d.%d, the plan "
                         "has code for %s",
                         major, minor, list.c_str());
  return {};
}

/// Fails with DELTA_NO_DEVICE, whatever the driver said: the plan cannot run
/// here.
static Status findPlace(const delta_kernels_t &kernels, Place &out) {
  Status status = CudaSymbols::get(out.symbols);
  if (status.failed())
    return status;
  status = findContext(out);
  if (!status.failed())
    status = findCubin(kernels, out);
  if (status.failed() && status.getCode() != DELTA_NO_DEVICE)
    return Status::error(DELTA_NO_DEVICE, "no usable NVIDIA GPU: %s",
                         status.getText().c_str());
  return status;
}

namespace {
/// What is open. A context's number is of its own: a destroyed one's address
/// may come again. Never destroyed, for handles may outlive it at exit.
struct OpenDevices {
  using Key = std::pair<const delta_kernels_t *, unsigned long long>;
  std::mutex lock;
  std::map<Key, std::weak_ptr<Device>> devices;

  static OpenDevices &get() {
    static OpenDevices *const open = new OpenDevices;
    return *open;
  }
};
} // namespace

/// `out` is what is open at this place already, or the device that now is.
static Status share(const delta_kernels_t &kernels, const Place &place,
                    std::shared_ptr<CudaDevice> device,
                    std::shared_ptr<Device> &out) {
  unsigned long long id = 0;
  Status status =
      DELTA_CUDA_CALL(*place.symbols, contextGetId, (place.context, &id));
  if (status.failed())
    return status;
  OpenDevices &open = OpenDevices::get();
  std::lock_guard<std::mutex> guard(open.lock);
  std::weak_ptr<Device> &known = open.devices[{&kernels, id}];
  if ((out = known.lock()))
    return {};
  status = device->load(*place.cubin);
  if (status.failed())
    return status;
  known = device;
  out = std::move(device);
  return {};
}

Status delta::runtime::checkDevice(const delta_kernels_t &kernels) {
  Place place;
  return kernels.num_cubins ? findPlace(kernels, place) : Status();
}

Status delta::runtime::openDevice(const delta_kernels_t &kernels,
                                  std::shared_ptr<Device> &out) {
  out = nullptr;
  if (kernels.num_cubins == 0)
    return {};
  Place place;
  Status status = findPlace(kernels, place);
  const bool ownsContext = !place.context;
  if (!status.failed() && ownsContext)
    status = DELTA_CUDA_CALL(*place.symbols, primaryRetain,
                             (&place.context, place.ordinal));
  if (status.failed())
    return status;
  // From here on a retained context is released with its device.
  return share(kernels, place,
               std::make_shared<CudaDevice>(*place.symbols, place.ordinal,
                                            place.context, ownsContext),
               out);
}

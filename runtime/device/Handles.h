//===- Handles.h - What handles of a plan use on a device -------*- C++ -*-===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
///
/// \file
/// The parts of senders, receivers and mailboxes that touch memory, for a
/// device that openDevice gave; for null, those of the host.
///
//===----------------------------------------------------------------------===//

#ifndef DELTA_RUNTIME_DEVICE_HANDLES_H
#define DELTA_RUNTIME_DEVICE_HANDLES_H

#include "runtime/Inproc.h"
#include "runtime/Intake.h"
#include "runtime/Sender.h"
#include "runtime/device/Device.h"

namespace delta::runtime {

Sender::PackingMaker packingOn(const std::shared_ptr<Device> &device,
                               const delta_tables_t &tables);
/// Null: the receiver takes that of the host.
std::unique_ptr<Intake> intakeOn(const std::shared_ptr<Device> &device,
                                 const delta_tables_t &tables);
Status messagesOn(const std::shared_ptr<Device> &device,
                  std::shared_ptr<MessageMemory> &out);

} // namespace delta::runtime

#endif // DELTA_RUNTIME_DEVICE_HANDLES_H

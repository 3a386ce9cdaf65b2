//===- Values.cpp - What a value becomes on its way -----------------------===//
//
// Part of the delta project, under the Apache License v2.0 with LLVM
// Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/reference/Values.h"

#include "tools/reference/MapSource.h"

#include <cmath>
#include <cstring>

namespace delta::reference {

delta_dtype_t dtypeNumber(const std::string &dtype) {
  for (const delta_dtype_t number :
       {DELTA_BF16, DELTA_FP16, DELTA_FP32, DELTA_INT64})
    if (dtypeName(number) == dtype)
      return number;
  return 0;
}

//===--- ops --------------------------------------------------------------===//

std::optional<delta_value_op_t> neutralOp(const ValueFacts &source) {
  if (source.scalars.empty())
    return DELTA_VALUE_ID;
  if (source.scalars == std::vector<double>{1.0})
    return DELTA_VALUE_ADD_ONE;
  return std::nullopt;
}

std::optional<delta_value_op_t> engineOp(const ValueFacts &source,
                                         const std::string &sourceDtype,
                                         const EngineType &type) {
  std::optional<delta_value_op_t> op = neutralOp(source);
  if (!op)
    return op;
  if (type.tensorDtype != sourceDtype &&
      (!type.form.empty() || type.dtype != type.tensorDtype))
    *op |= DELTA_VALUE_VIA(dtypeNumber(type.tensorDtype));
  if (type.form == "neg_exp")
    *op |= DELTA_VALUE_NEG_EXP;
  if (type.form == "add_one")
    *op |= DELTA_VALUE_PLUS_ONE;
  return op;
}

std::string valueOpText(delta_value_op_t op) {
  std::string text;
  if (op & DELTA_VALUE_ADD_ONE)
    text += " +1";
  if (DELTA_VALUE_VIA_TYPE(op))
    text += " via " + dtypeName(DELTA_VALUE_VIA_TYPE(op));
  if (op & DELTA_VALUE_NEG_EXP)
    text += " -exp";
  if (op & DELTA_VALUE_PLUS_ONE)
    text += text.empty() ? " engine's +1" : " then +1";
  const delta_value_op_t known = DELTA_VALUE_ADD_ONE | DELTA_VALUE_NEG_EXP |
                                 DELTA_VALUE_PLUS_ONE | DELTA_VALUE_VIA(0xffu);
  if (op & ~known)
    return "an unknown value op";
  return text.empty() ? "no value op" : "value op" + text;
}

//===--- values -----------------------------------------------------------===//

/// Between any two types, by way of fp32, in which 16 bits are exact.
static std::function<uint64_t(uint64_t)> convert(const std::string &from,
                                                 const std::string &to) {
  const CastFunction widen = castOf(from, "fp32"), narrow = castOf("fp32", to);
  if (from == to || (!widen && !narrow))
    return [](uint64_t bits) { return bits; };
  if (!widen || !narrow)
    return widen ? widen : narrow;
  return [widen, narrow](uint64_t bits) { return narrow(widen(bits)); };
}

static uint32_t negExp(uint32_t bits) {
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return bits | 0x400000u;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  value = float(-std::exp(double(value)));
  std::memcpy(&bits, &value, sizeof(value));
  return bits;
}

std::function<uint64_t(uint64_t)> engineValue(const EngineType &type) {
  const auto plain = convert(type.tensorDtype, type.dtype);
  if (type.form == "neg_exp") {
    const auto widen = convert(type.tensorDtype, "fp32");
    const auto narrow = convert("fp32", type.dtype);
    return [widen, narrow](uint64_t bits) {
      return narrow(negExp(uint32_t(widen(bits))));
    };
  }
  if (type.form == "add_one")
    return [plain, dtype = type.tensorDtype](uint64_t bits) {
      Array<uint64_t> one(Shape{1});
      one.data[0] = bits;
      addScalar(one, dtype, 1.0);
      return plain(one.data[0]);
    };
  if (type.dtype == type.tensorDtype)
    return nullptr;
  return plain;
}

} // namespace delta::reference

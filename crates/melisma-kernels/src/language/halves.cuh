// Floats as two BF16 numbers each, x = high + low, which errs by 2^-17 of x at most.
#pragma once
#include "device.cuh"

// Two neighbouring numbers, both of their parts.
struct Operand {
  u32 high, low;
};

__device__ __forceinline__ Operand operand(float a, float b) {
  const u32 high = pack_bf16(a, b);
  return {high, pack_bf16(a - __uint_as_float(high << 16), b - __uint_as_float(high & 0xffff0000u))};
}

// The exponential function and its relatives, by the operations of `curve.rs` one by one.
#pragma once
#include "device.cuh"

// e^x within 2 units in the last place for -87 <= x <= 88; beyond, the value at the nearer end. NaN stays NaN.
__device__ __forceinline__ float curve_exp(float x) {
  // Adding and subtracting it rounds to an integer, which is then in the low bits.
  const float round = 12582912.0f;
  x = x < -87.0f ? -87.0f : x;
  x = x > 88.0f ? 88.0f : x;
  const float shifted = fused_multiply_add(x, 1.44269504088896340736f, round), n = shifted - round;
  float r = fused_multiply_add(n, -0.6933594f, x);
  r = fused_multiply_add(n, 2.1219444e-4f, r);
  float p = 1.9875691e-4f;
  p = fused_multiply_add(p, r, 1.3981999e-3f);
  p = fused_multiply_add(p, r, 8.333452e-3f);
  p = fused_multiply_add(p, r, 4.1665796e-2f);
  p = fused_multiply_add(p, r, 1.6666665e-1f);
  p = fused_multiply_add(p, r, 0.5f);
  const float value = fused_multiply_add(p, r * r, r) + 1.0f;
  return value * __uint_as_float((__float_as_uint(shifted) - __float_as_uint(round) + 127u) << 23);
}

// x / (1 + e^-x)
__device__ __forceinline__ float curve_silu(float x) { return x / (1.0f + curve_exp(-x)); }

// Small Fourier transforms in registers: butterfly<R>(re, im) for R of 2, 3, 4, 5, 8, 16, 25 and 32, in natural order.
#pragma once
#include "device.cuh"

// (re + i im) w
__device__ __forceinline__ void times(float& re, float& im, float2 w) {
  const float x = re;
  re = fused_multiply_add(-im, w.y, x * w.x);
  im = fused_multiply_add(im, w.x, x * w.y);
}

// cos(2 pi j / 32)
__device__ __forceinline__ float cos_32(int j) {
  switch (j) {
    case 0: return 1.0f;
    case 1: return 0.98078528f;
    case 2: return 0.923879533f;
    case 3: return 0.831469612f;
    case 4: return 0.707106781f;
    case 5: return 0.555570233f;
    case 6: return 0.382683432f;
    case 7: return 0.195090322f;
    default: return 0.0f;
  }
}

// e^{-2 pi i j / R} for the index products that a butterfly needs. All arguments are constants
// after unrolling.
template <int R>
__device__ __forceinline__ float2 root(int j) {
  if (R == 25) {
    switch (j) {
      case 1: return make_float2(0.968583161f, -0.248689887f);
      case 2: return make_float2(0.87630668f, -0.481753674f);
      case 3: return make_float2(0.728968627f, -0.684547106f);
      case 4: return make_float2(0.535826795f, -0.844327926f);
      case 6: return make_float2(0.0627905195f, -0.998026728f);
      case 8: return make_float2(-0.425779292f, -0.904827052f);
      case 9: return make_float2(-0.63742399f, -0.770513243f);
      case 12: return make_float2(-0.992114701f, -0.125333234f);
      default: return make_float2(-0.63742399f, 0.770513243f);
    }
  }
  const int turn = j * (32 / R);
  if (turn <= 8) return make_float2(cos_32(turn), -cos_32(8 - turn));
  if (turn <= 16) return make_float2(-cos_32(16 - turn), -cos_32(turn - 8));
  return make_float2(-cos_32(turn - 16), cos_32(24 - turn));
}

// (re + i im) e^{-2 pi i j / R}
template <int R>
__device__ __forceinline__ void turn(float& re, float& im, int j) {
  if (j == 0) return;
  const float x = re, y = im;
  if (4 * j == R) {
    re = y, im = -x;
  } else if (8 * j == R) {
    re = (x + y) * 0.707106781f, im = (y - x) * 0.707106781f;
  } else if (8 * j == 3 * R) {
    re = (y - x) * 0.707106781f, im = (x + y) * -0.707106781f;
  } else {
    times(re, im, root<R>(j));
  }
}

template <int R>
__device__ __forceinline__ void butterfly(float (&a)[R], float (&b)[R]);

template <>
__device__ __forceinline__ void butterfly<2>(float (&a)[2], float (&b)[2]) {
  const float x = a[0], y = b[0];
  a[0] = x + a[1], b[0] = y + b[1];
  a[1] = x - a[1], b[1] = y - b[1];
}

template <>
__device__ __forceinline__ void butterfly<3>(float (&a)[3], float (&b)[3]) {
  const float sine = 0.8660254f;
  const float sum_a = a[1] + a[2], sum_b = b[1] + b[2];
  const float dif_a = (a[1] - a[2]) * sine, dif_b = (b[1] - b[2]) * sine;
  const float mid_a = fused_multiply_add(sum_a, -0.5f, a[0]), mid_b = fused_multiply_add(sum_b, -0.5f, b[0]);
  a[0] += sum_a, b[0] += sum_b;
  a[1] = mid_a + dif_b, b[1] = mid_b - dif_a;
  a[2] = mid_a - dif_b, b[2] = mid_b + dif_a;
}

template <>
__device__ __forceinline__ void butterfly<4>(float (&a)[4], float (&b)[4]) {
  const float p = a[0] + a[2], q = b[0] + b[2], r = a[0] - a[2], s = b[0] - b[2];
  const float t = a[1] + a[3], u = b[1] + b[3], v = a[1] - a[3], w = b[1] - b[3];
  a[0] = p + t, b[0] = q + u;
  a[2] = p - t, b[2] = q - u;
  a[1] = r + w, b[1] = s - v;
  a[3] = r - w, b[3] = s + v;
}

template <>
__device__ __forceinline__ void butterfly<5>(float (&a)[5], float (&b)[5]) {
  const float c1 = 0.309017f, c2 = -0.809017f, s1 = 0.9510565f, s2 = 0.58778524f;
  const float pa = a[1] + a[4], pb = b[1] + b[4], qa = a[2] + a[3], qb = b[2] + b[3];
  const float ra = a[1] - a[4], rb = b[1] - b[4], sa = a[2] - a[3], sb = b[2] - b[3];
  const float near_a = fused_multiply_add(qa, c2, fused_multiply_add(pa, c1, a[0]));
  const float near_b = fused_multiply_add(qb, c2, fused_multiply_add(pb, c1, b[0]));
  const float far_a = fused_multiply_add(qa, c1, fused_multiply_add(pa, c2, a[0]));
  const float far_b = fused_multiply_add(qb, c1, fused_multiply_add(pb, c2, b[0]));
  const float u = fused_multiply_add(sa, s2, ra * s1), v = fused_multiply_add(sb, s2, rb * s1);
  const float w = fused_multiply_add(sa, -s1, ra * s2), x = fused_multiply_add(sb, -s1, rb * s2);
  a[0] += pa + qa, b[0] += pb + qb;
  a[1] = near_a + v, b[1] = near_b - u;
  a[4] = near_a - v, b[4] = near_b + u;
  a[2] = far_a + x, b[2] = far_b - w;
  a[3] = far_a - x, b[3] = far_b + w;
}

template <>
__device__ __forceinline__ void butterfly<8>(float (&a)[8], float (&b)[8]) {
  const float h = 0.70710678f;
  float even_a[4] = {a[0] + a[4], a[1] + a[5], a[2] + a[6], a[3] + a[7]};
  float even_b[4] = {b[0] + b[4], b[1] + b[5], b[2] + b[6], b[3] + b[7]};
  const float ta = a[0] - a[4], tb = b[0] - b[4], ua = a[2] - a[6], ub = b[2] - b[6];
  const float va = a[1] - a[5], vb = b[1] - b[5], wa = a[3] - a[7], wb = b[3] - b[7];
  butterfly<4>(even_a, even_b);
  a[0] = even_a[0], b[0] = even_b[0];
  a[2] = even_a[1], b[2] = even_b[1];
  a[4] = even_a[2], b[4] = even_b[2];
  a[6] = even_a[3], b[6] = even_b[3];
  const float da = va - wa, db = vb - wb, sa = va + wa, sb = vb + wb;
  const float down_a = da + sb, down_b = db - sa, up_a = da - sb, up_b = db + sa;
  const float low_a = ta + ub, low_b = tb - ua, high_a = ta - ub, high_b = tb + ua;
  a[1] = fused_multiply_add(down_a, h, low_a), b[1] = fused_multiply_add(down_b, h, low_b);
  a[5] = fused_multiply_add(down_a, -h, low_a), b[5] = fused_multiply_add(down_b, -h, low_b);
  a[3] = fused_multiply_add(up_a, -h, high_a), b[3] = fused_multiply_add(up_b, -h, high_b);
  a[7] = fused_multiply_add(up_a, h, high_a), b[7] = fused_multiply_add(up_b, h, high_b);
}

// R = A B, with n = B a + b and k = i + A j: A-point transforms over a, twiddles, B-point
// transforms over b.
template <int A, int B>
__device__ __forceinline__ void compose(float (&re)[A * B], float (&im)[A * B]) {
  float p[B][A], q[B][A];
#pragma unroll
  for (int b = 0; b < B; b++) {
#pragma unroll
    for (int a = 0; a < A; a++) p[b][a] = re[B * a + b], q[b][a] = im[B * a + b];
    butterfly<A>(p[b], q[b]);
#pragma unroll
    for (int i = 0; i < A; i++) turn<A * B>(p[b][i], q[b][i], b * i);
  }
#pragma unroll
  for (int i = 0; i < A; i++) {
    float x[B], y[B];
#pragma unroll
    for (int b = 0; b < B; b++) x[b] = p[b][i], y[b] = q[b][i];
    butterfly<B>(x, y);
#pragma unroll
    for (int j = 0; j < B; j++) re[i + A * j] = x[j], im[i + A * j] = y[j];
  }
}

template <>
__device__ __forceinline__ void butterfly<16>(float (&a)[16], float (&b)[16]) {
  compose<4, 4>(a, b);
}
template <>
__device__ __forceinline__ void butterfly<25>(float (&a)[25], float (&b)[25]) {
  compose<5, 5>(a, b);
}
template <>
__device__ __forceinline__ void butterfly<32>(float (&a)[32], float (&b)[32]) {
  compose<4, 8>(a, b);
}

// Element types to and from f32. A thread converts four groups of four neighbouring elements. The
// groups are a block's width apart, so a warp's accesses are contiguous and four are in flight.
#include "device.cuh"

// One element as stored in memory.
struct F16 {
  u16 bits;
};
struct BF16 {
  u16 bits;
};
struct I24 {
  u8 bytes[3];
};

__device__ __forceinline__ float value(float x) { return x; }
__device__ __forceinline__ float value(F16 x) { return f16_to_f32(x.bits); }
__device__ __forceinline__ float value(BF16 x) { return bf16_to_f32(x.bits); }
__device__ __forceinline__ float value(i16 x) { return (float)x * (1.0f / 32768.0f); }
__device__ __forceinline__ float value(u8 x) { return ((float)x - 128.0f) * (1.0f / 128.0f); }
__device__ __forceinline__ float value(I24 x) {
  const u32 high = ((u32)x.bytes[2] << 24) | ((u32)x.bytes[1] << 16) | ((u32)x.bytes[0] << 8);
  return (float)((i32)high >> 8) * (1.0f / 8388608.0f);
}

// The integer nearest to x * full_scale, ties to even, clipped; 0 for NaN.
__device__ __forceinline__ i32 quantize(float x, float full_scale) {
  const float scaled = fminf(fmaxf(x * full_scale, -full_scale), full_scale - 1.0f);
  return x == x ? round_to_int(scaled) : 0;
}

__device__ __forceinline__ void store(F16& to, float x) { to.bits = f32_to_f16(x); }
__device__ __forceinline__ void store(BF16& to, float x) { to.bits = f32_to_bf16(x); }
__device__ __forceinline__ void store(i16& to, float x) { to = (i16)quantize(x, 32768.0f); }
__device__ __forceinline__ void store(u8& to, float x) { to = (u8)(quantize(x, 128.0f) + 128); }
__device__ __forceinline__ void store(float& to, float x) { to = x; }
__device__ __forceinline__ void store(I24& to, float x) {
  const i32 integer = quantize(x, 8388608.0f);
  to.bytes[0] = (u8)integer;
  to.bytes[1] = (u8)(integer >> 8);
  to.bytes[2] = (u8)(integer >> 16);
}

// Four elements in words: 16 bytes of f32, 8 of 16-bit types, 12 of i24, 4 of u8.
template <class T>
struct Four {
  union {
    u32 words[sizeof(T)];
    T elements[4];
  };
  __device__ Four() {}
  __device__ __forceinline__ void load(const T* from) {
    const u32* source = reinterpret_cast<const u32*>(from);
    if constexpr (sizeof(T) == 4) {
      *reinterpret_cast<uint4*>(words) = *reinterpret_cast<const uint4*>(source);
    } else if constexpr (sizeof(T) == 2) {
      *reinterpret_cast<uint2*>(words) = *reinterpret_cast<const uint2*>(source);
    } else {
#pragma unroll
      for (int i = 0; i < (int)sizeof(T); i++) words[i] = source[i];
    }
  }
  __device__ __forceinline__ void save(T* to) const {
    u32* target = reinterpret_cast<u32*>(to);
    if constexpr (sizeof(T) == 4) {
      *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(words);
    } else if constexpr (sizeof(T) == 2) {
      *reinterpret_cast<uint2*>(target) = *reinterpret_cast<const uint2*>(words);
    } else {
#pragma unroll
      for (int i = 0; i < (int)sizeof(T); i++) target[i] = words[i];
    }
  }
};

constexpr int GROUPS = 4;

// Views start on the allocation's alignment, so groups of four are aligned; the last n % 4 elements
// are converted one by one.
template <class S, class D>
__device__ __forceinline__ void convert(const S* src, D* dst, u64 n) {
  const u64 n_groups = n / 4;
  const u64 width = blockDim.x;
  for (u64 first = (u64)blockIdx.x * width * GROUPS + threadIdx.x; first < n_groups;
       first += (u64)gridDim.x * width * GROUPS) {
    Four<S> in[GROUPS];
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      if (first + g * width < n_groups) in[g].load(src + 4 * (first + g * width));
    }
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      if (first + g * width < n_groups) {
        Four<D> out;
#pragma unroll
        for (int i = 0; i < 4; i++) store(out.elements[i], value(in[g].elements[i]));
        out.save(dst + 4 * (first + g * width));
      }
    }
  }
  const u64 rest = 4 * n_groups + threadIdx.x;
  if (blockIdx.x == 0 && rest < n) store(dst[rest], value(src[rest]));
}

// budget: 56 registers, 0 spill
extern "C" __global__ void convert_f32_f16(const float* src, F16* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_f32_bf16(const float* src, BF16* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_f32_i16(const float* src, i16* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_f32_i24(const float* src, I24* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_f32_u8(const float* src, u8* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_f16_f32(const F16* src, float* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_bf16_f32(const BF16* src, float* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_i16_f32(const i16* src, float* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_i24_f32(const I24* src, float* dst, u64 n) { convert(src, dst, n); }
// budget: 56 registers, 0 spill
extern "C" __global__ void convert_u8_f32(const u8* src, float* dst, u64 n) { convert(src, dst, n); }

// The base header of all .cu files: integer names and the few operations that are instructions
// rather than C++. NVRTC compiles the first form of each; the host shim (MELISMA_SHIM) compiles its
// C++ twin. "Shared" and "global" in a parameter's name say which memory the pointer must point to.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

static_assert(sizeof(u16) == 2 && sizeof(u32) == 4 && sizeof(u64) == 8, "the names state the widths");

constexpr u32 FULL_WARP = 0xffffffffu;

// for GRID_STRIDE(i, n) { ... }: i runs over 0..n, distributed over the threads of a
// one-dimensional grid.
#define GRID_STRIDE(i, n)                                                                                    \
  (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, i##_step = (u64)gridDim.x * blockDim.x; i < (u64)(n); \
   i += i##_step)

// A pointer `name` to the launch's dynamic shared memory, aligned to 16 bytes.
#ifdef MELISMA_SHIM
#define DYNAMIC_SHARED(type, name) type* name = reinterpret_cast<type*>(shim_context->dynamic_shared)
#else
#define DYNAMIC_SHARED(type, name)                                        \
  extern __shared__ __align__(16) unsigned char melisma_dynamic_shared[]; \
  type* name = reinterpret_cast<type*>(melisma_dynamic_shared)
#endif

// ---- bits and warps -------------------------------------------------------------------------------------------------

__device__ __forceinline__ u32 lane_id() {
#ifdef MELISMA_SHIM
  return shim_context->lane;
#else
  u32 lane;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
#endif
}

__device__ __forceinline__ u32 popc(u32 x) { return (u32)__popc(x); }
__device__ __forceinline__ u32 popc(u64 x) { return (u32)__popcll(x); }
// 32 (or 64) for zero.
__device__ __forceinline__ u32 clz(u32 x) { return (u32)__clz((int)x); }
__device__ __forceinline__ u32 clz(u64 x) { return (u32)__clzll((long long)x); }

__device__ __forceinline__ void sync_warp(u32 mask = FULL_WARP) { __syncwarp(mask); }
__device__ __forceinline__ u32 ballot(u32 mask, bool predicate) { return __ballot_sync(mask, predicate); }

// For i32, u32, float, i64, u64 and double.
template <class T>
__device__ __forceinline__ T shfl_idx(u32 mask, T value, u32 lane, int width = 32) {
  return __shfl_sync(mask, value, (int)lane, width);
}
template <class T>
__device__ __forceinline__ T shfl_up(u32 mask, T value, u32 delta, int width = 32) {
  return __shfl_up_sync(mask, value, delta, width);
}
template <class T>
__device__ __forceinline__ T shfl_down(u32 mask, T value, u32 delta, int width = 32) {
  return __shfl_down_sync(mask, value, delta, width);
}
template <class T>
__device__ __forceinline__ T shfl_xor(u32 mask, T value, u32 lane_mask, int width = 32) {
  return __shfl_xor_sync(mask, value, (int)lane_mask, width);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

#ifdef MELISMA_SHIM
inline void melisma_check_aligned(const void* pointer) {
  if ((u64)pointer % 16) shim_context->fail("a 16-byte access at an address that is not a multiple of 16");
}
#endif

// Copies 16 bytes from global to shared memory; they have arrived after the matching
// `cp_async_wait`. The first `bytes` (0 to 16) are read, the others become zero.
__device__ __forceinline__ void cp_async_16(void* shared, const void* global, u32 bytes = 16) {
#ifdef MELISMA_SHIM
  melisma_check_aligned(shared);
  melisma_check_aligned(global);
  shim_context->copy_async(shared, global, bytes);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(shared)),
               "l"(global), "r"(bytes)
               : "memory");
#endif
}

// Closes a group of copies.
__device__ __forceinline__ void cp_async_commit() {
#ifdef MELISMA_SHIM
  shim_context->copy_commit();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until at most the LEFT newest groups of this thread are in flight. Copies of other threads
// also need a barrier after this.
template <int LEFT>
__device__ __forceinline__ void cp_async_wait() {
#ifdef MELISMA_SHIM
  shim_context->copy_wait(LEFT);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

// Prefetches the line of a valid address into L2.
__device__ __forceinline__ void prefetch(const void* global) {
#ifndef MELISMA_SHIM
  asm volatile("prefetch.global.L2 [%0];" ::"l"(global));
#else
  (void)global;
#endif
}

// Loads a value that nobody writes during the launch, so that the compiler may load it early and
// reuse it.
template <class T>
__device__ __forceinline__ T load_constant(const T* global) {
#ifdef MELISMA_SHIM
  return *global;
#else
  return __ldg(global);
#endif
}

// Loads data that nobody writes during the launch.
__device__ __forceinline__ uint4 load_streaming(const uint4* global) {
#ifdef MELISMA_SHIM
  melisma_check_aligned(global);
  return *global;
#else
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(global));
  return v;
#endif
}
__device__ __forceinline__ float4 load_streaming(const float4* global) {
  uint4 v = load_streaming(reinterpret_cast<const uint4*>(global));
  return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

// Stores data that is not read again soon.
__device__ __forceinline__ void store_streaming(uint4* global, uint4 v) {
#ifdef MELISMA_SHIM
  melisma_check_aligned(global);
  *global = v;
#else
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
#endif
}
__device__ __forceinline__ void store_streaming(float4* global, float4 v) {
  store_streaming(reinterpret_cast<uint4*>(global),
                  make_uint4(__float_as_uint(v.x), __float_as_uint(v.y), __float_as_uint(v.z), __float_as_uint(v.w)));
}

// ---- numbers --------------------------------------------------------------------------------------------------------

// One rounding, on every device.
__device__ __forceinline__ float fused_multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
// To nearest, ties to even; saturates, and NaN becomes 0.
__device__ __forceinline__ i32 round_to_int(float x) { return __float2int_rn(x); }

// Conversions give the same bits as the `half` crate: ties to even; a NaN keeps its sign and upper
// payload and becomes quiet.

__device__ __forceinline__ u16 f32_to_bf16(float x) {
  u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (u16)(bits >> 16 | 0x0040u);
  return (u16)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

__device__ __forceinline__ float bf16_to_f32(u16 half) {
  u32 quiet = (half & 0x7fffu) > 0x7f80u ? 0x0040u : 0u;
  return __uint_as_float((half | quiet) << 16);
}

__device__ __forceinline__ u16 f32_to_f16(float x) {
  u32 bits = __float_as_uint(x), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (u16)(sign | 0x7e00u | (magnitude >> 13 & 0x03ffu));
#ifdef MELISMA_SHIM
  if (magnitude >= 0x477ff000u) return (u16)(sign | 0x7c00u);  // 65520 and above rounds to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is subnormal: adding 0.5 leaves the rounded result in the lowest bits.
    u32 shifted = __float_as_uint(__fadd_rn(__uint_as_float(magnitude), 0.5f));
    return (u16)(sign | (shifted - 0x3f000000u));
  }
  u32 rounded = magnitude + 0x0fffu + (magnitude >> 13 & 1u);
  return (u16)(sign | (rounded - 0x38000000u) >> 13);
#else
  u16 half;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
  return half;
#endif
}

__device__ __forceinline__ float f16_to_f32(u16 half) {
  u32 sign = (u32)(half & 0x8000u) << 16, magnitude = half & 0x7fffu;
  if (magnitude > 0x7c00u) return __uint_as_float(sign | 0x7fc00000u | magnitude << 13);
#ifdef MELISMA_SHIM
  if (magnitude == 0x7c00u) return __uint_as_float(sign | 0x7f800000u);
  if (magnitude >= 0x0400u) return __uint_as_float(sign | ((magnitude << 13) + 0x38000000u));
  return __uint_as_float(sign | __float_as_uint((float)magnitude * 5.9604644775390625e-8f));  // 2^-24
#else
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(half));
  return x;
#endif
}

// Packs the nearest BF16 numbers into one register, `low` in the lower 16 bits; every NaN becomes
// some NaN.
__device__ __forceinline__ u32 pack_bf16(float low, float high) {
#ifdef MELISMA_SHIM
  return (u32)f32_to_bf16(low) | (u32)f32_to_bf16(high) << 16;
#else
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
#endif
}

// Packs two halves into one register for `mma_bf16` and `mma_f16`: `low` in the lower 16 bits.
__device__ __forceinline__ u32 pack_halves(u16 low, u16 high) { return (u32)low | (u32)high << 16; }

// Rounds to the 10 bits of mantissa that `mma_tf32` reads, ties away from zero.
__device__ __forceinline__ u32 f32_to_tf32(float x) {
#ifdef MELISMA_SHIM
  u32 bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return (bits & 0x7fffffu) ? 0x7fffffffu : bits;
  return (bits + 0x1000u) & 0xffffe000u;
#else
  u32 tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "f"(x));
  return tf32;
#endif
}

// ---- tensor cores ---------------------------------------------------------------------------------------------------
// d (16 x 8, f32) += a (16 x K, row by row) * b (K x 8, column by column), done by all 32 lanes of a warp.
// With g = lane / 4 and t = lane % 4 a lane holds
//   d[0], d[1]: row g,     columns 2t, 2t+1        d[2], d[3]: row g + 8, the same columns
//   K = 8  (tf32):      a[0]: (g, t)  a[1]: (g+8, t)  a[2]: (g, t+4)  a[3]: (g+8, t+4)      b[0]: (t, g)  b[1]: (t+4, g)
//   K = 8  (bf16):      a[0]: (g, 2t..2t+1)  a[1]: (g+8, 2t..)                               b: (2t..2t+1, g)
//   K = 16 (bf16, f16): a[0]: (g, 2t..2t+1)  a[1]: (g+8, 2t..)  a[2]: (g, 2t+8..)  a[3]: (g+8, 2t+8..)
//                       b[0]: (2t..2t+1, g)  b[1]: (2t+8.., g)

#ifdef MELISMA_SHIM

struct MelismaFragments {
  u32 a[4], b[2];
};

// `decode(word, part)` extracts one value of a register; `n_parts` values of consecutive K share a
// register.
template <u32 n_parts, class Decode>
inline void melisma_mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], const char* operation, Decode decode) {
  MelismaFragments mine = {{a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
  const shim::Slot* slots = shim::exchange(FULL_WARP, operation, mine);
  u32 group = shim_context->lane / 4, pair = shim_context->lane % 4;
  for (u32 i = 0; i < 4; i++) {
    u32 upper = i / 2, column = 2 * pair + i % 2;
    double sum = d[i];
    for (u32 half = 0; half < 2; half++)
      for (u32 t = 0; t < 4; t++) {
        MelismaFragments row = shim::value_of<MelismaFragments>(slots, group * 4 + t);
        MelismaFragments col = shim::value_of<MelismaFragments>(slots, column * 4 + t);
        for (u32 part = 0; part < n_parts; part++)
          sum += (double)decode(row.a[2 * half + upper], part) * (double)decode(col.b[half], part);
      }
    d[i] = (float)sum;
  }
}

inline void mma_tf32(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  melisma_mma<1>(d, a, b, "mma_tf32", [](u32 word, u32) { return __uint_as_float(word & 0xffffe000u); });
}
inline void mma_bf16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  melisma_mma<2>(d, a, b, "mma_bf16", [](u32 word, u32 part) { return bf16_to_f32((u16)(word >> 16 * part)); });
}
inline void mma_bf16_k8(float (&d)[4], const u32 (&a)[2], u32 b) {
  const u32 wide_a[4] = {a[0], a[1], 0, 0}, wide_b[2] = {b, 0};
  mma_bf16(d, wide_a, wide_b);
}
inline void mma_f16(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
  melisma_mma<2>(d, a, b, "mma_f16", [](u32 word, u32 part) { return f16_to_f32((u16)(word >> 16 * part)); });
}

#else

#define MELISMA_MMA(NAME, SHAPE)                                                                              \
  __device__ __forceinline__ void NAME(float (&d)[4], const u32(&a)[4], const u32(&b)[2]) {                   \
    asm volatile("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                         \
  }
MELISMA_MMA(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
MELISMA_MMA(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MELISMA_MMA(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
#undef MELISMA_MMA

__device__ __forceinline__ void mma_bf16_k8(float (&d)[4], const u32 (&a)[2], u32 b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
}

#endif

// CUDA's language and built-in functions for kernels compiled as C++.
#pragma once

extern "C" {
__attribute__((visibility("default"))) shim::Context* shim_context;
void* memcpy(void*, const void*, unsigned long) noexcept;
void* memset(void*, int, unsigned long) noexcept;
int printf(const char*, ...);
}

#ifndef MELISMA_SHIM_SCAN
#define __global__
#define __launch_bounds__(...)
#endif
#define __device__
#define __host__
#define __grid_constant__
#define __constant__ __attribute__((visibility("default")))
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (shim_context->thread)
#define blockIdx (shim_context->block)
#define blockDim (shim_context->block_dim)
#define gridDim (shim_context->grid_dim)
constexpr int warpSize = 32;

using uint3 = shim::Dim;
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

#define SHIM_VECTORS(T, N, A1, A2, A4)                 \
  struct N##1 { T x; };                                \
  struct alignas(A2) N##2 { T x, y; };                 \
  struct alignas(A4) N##4 { T x, y, z, w; };           \
  inline N##1 make_##N##1(T x) { return {x}; }         \
  inline N##2 make_##N##2(T x, T y) { return {x, y}; } \
  inline N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
SHIM_VECTORS(signed char, char, 1, 2, 4)
SHIM_VECTORS(unsigned char, uchar, 1, 2, 4)
SHIM_VECTORS(short, short, 2, 4, 8)
SHIM_VECTORS(unsigned short, ushort, 2, 4, 8)
SHIM_VECTORS(int, int, 4, 8, 16)
SHIM_VECTORS(unsigned, uint, 4, 8, 16)
SHIM_VECTORS(long long, longlong, 8, 16, 16)
SHIM_VECTORS(unsigned long long, ulonglong, 8, 16, 16)
SHIM_VECTORS(float, float, 4, 8, 16)
SHIM_VECTORS(double, double, 8, 16, 16)
#undef SHIM_VECTORS
struct float3 {
  float x, y, z;
};
struct int3 {
  int x, y, z;
};
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

inline void __syncthreads() { shim_context->block_barrier(0); }
inline int __syncthreads_count(int predicate) { return shim_context->block_barrier(predicate != 0); }
inline int __syncthreads_or(int predicate) { return __syncthreads_count(predicate) != 0; }
inline int __syncthreads_and(int predicate) { return __syncthreads_count(!predicate) == 0; }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() {
  shim_context->fail("__trap");
  __builtin_unreachable();
}

namespace shim {

template <class T>
inline const Slot* exchange(unsigned mask, const char* operation, const T& value) {
  static_assert(sizeof(T) <= sizeof(Slot), "a warp exchange carries at most 32 bytes a lane");
  return shim_context->warp_exchange(mask, operation, &value, sizeof(T));
}

template <class T>
inline T value_of(const Slot* slots, unsigned lane) {
  T value;
  memcpy(&value, slots[lane].bytes, sizeof(T));
  return value;
}

inline unsigned lanes_with_value(unsigned mask, const char* operation, unsigned value, unsigned wanted) {
  const Slot* slots = exchange(mask, operation, value);
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < 32; lane++)
    if (mask >> lane & 1 && value_of<unsigned>(slots, lane) == wanted) lanes |= 1u << lane;
  return lanes;
}

}  // namespace shim

inline void __syncwarp(unsigned mask = 0xffffffffu) { shim::exchange(mask, "__syncwarp", 0u); }
inline unsigned __activemask() { return 0xffffffffu; }
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return shim::lanes_with_value(mask, "__ballot_sync", predicate != 0, 1);
}
inline int __any_sync(unsigned mask, int predicate) {
  return shim::lanes_with_value(mask, "__any_sync", predicate != 0, 1) != 0;
}
inline int __all_sync(unsigned mask, int predicate) {
  return shim::lanes_with_value(mask, "__all_sync", predicate == 0, 1) == 0;
}
inline unsigned __match_any_sync(unsigned mask, unsigned value) {
  return shim::lanes_with_value(mask, "__match_any_sync", value, value);
}

// The segment arithmetic of the shfl instruction: a lane outside its segment reads its own value.
template <class T>
inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const shim::Slot* slots = shim::exchange(mask, "__shfl_sync", value);
  unsigned segment = shim_context->lane & ~unsigned(width - 1);
  return shim::value_of<T>(slots, segment | (unsigned(source) & unsigned(width - 1)));
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const shim::Slot* slots = shim::exchange(mask, "__shfl_up_sync", value);
  unsigned lane = shim_context->lane, segment = lane & ~unsigned(width - 1);
  return shim::value_of<T>(slots, lane >= segment + delta ? lane - delta : lane);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  const shim::Slot* slots = shim::exchange(mask, "__shfl_down_sync", value);
  unsigned lane = shim_context->lane, last = lane | unsigned(width - 1);
  return shim::value_of<T>(slots, lane + delta <= last ? lane + delta : lane);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) {
  const shim::Slot* slots = shim::exchange(mask, "__shfl_xor_sync", value);
  unsigned lane = shim_context->lane, last = lane | unsigned(width - 1), source = lane ^ unsigned(lane_mask);
  return shim::value_of<T>(slots, source <= last ? source : lane);
}

#define SHIM_REDUCE(NAME, T, START, STEP)                         \
  inline T NAME(unsigned mask, T value) {                         \
    const shim::Slot* slots = shim::exchange(mask, #NAME, value); \
    T sum = START;                                                \
    for (unsigned lane = 0; lane < 32; lane++)                    \
      if (mask >> lane & 1) {                                     \
        T other = shim::value_of<T>(slots, lane);                 \
        sum = STEP;                                               \
      }                                                           \
    return sum;                                                   \
  }
SHIM_REDUCE(__reduce_add_sync, unsigned, 0, sum + other)
SHIM_REDUCE(__reduce_add_sync, int, 0, sum + other)
SHIM_REDUCE(__reduce_min_sync, unsigned, ~0u, other < sum ? other : sum)
SHIM_REDUCE(__reduce_min_sync, int, 0x7fffffff, other < sum ? other : sum)
SHIM_REDUCE(__reduce_max_sync, unsigned, 0, other > sum ? other : sum)
SHIM_REDUCE(__reduce_max_sync, int, -0x7fffffff - 1, other > sum ? other : sum)
SHIM_REDUCE(__reduce_and_sync, unsigned, ~0u, (sum & other))
SHIM_REDUCE(__reduce_or_sync, unsigned, 0, sum | other)
SHIM_REDUCE(__reduce_xor_sync, unsigned, 0, sum ^ other)
#undef SHIM_REDUCE

// Threads of a launch never run at the same time, so an atomic is a plain update.
#define SHIM_ATOMIC(NAME, NEXT)           \
  template <class T, class U>             \
  inline T NAME(T* address, U operand) {  \
    T old = *address, value = T(operand); \
    *address = NEXT;                      \
    return old;                           \
  }
SHIM_ATOMIC(atomicAdd, T(old + value))
SHIM_ATOMIC(atomicSub, T(old - value))
SHIM_ATOMIC(atomicMin, value < old ? value : old)
SHIM_ATOMIC(atomicMax, value > old ? value : old)
SHIM_ATOMIC(atomicOr, T(old | value))
SHIM_ATOMIC(atomicAnd, T((old & value)))
SHIM_ATOMIC(atomicXor, T(old ^ value))
SHIM_ATOMIC(atomicExch, value)
SHIM_ATOMIC(atomicInc, old >= value ? T(0) : T(old + 1))
#undef SHIM_ATOMIC
template <class T, class U, class V>
inline T atomicCAS(T* address, U expected, V desired) {
  T old = *address;
  if (old == T(expected)) *address = T(desired);
  return old;
}

template <class T>
inline T __ldg(const T* address) {
  return *address;
}
template <class T>
inline T __ldcs(const T* address) {
  return *address;
}
template <class T>
inline void __stcs(T* address, T value) {
  *address = value;
}

// What the appended registration lines of a kernel expand to.
namespace shim {
template <class Kernel>
struct Signature;
template <class... P>
struct Signature<void (*)(P...)> {
  template <unsigned long... I>
  struct Indices {};
  template <unsigned long... I>
  static void unpack(void (*kernel)(P...), void** args, Indices<I...>) {
    kernel(*static_cast<P*>(args[I])...);
  }
  static void call(void (*kernel)(P...), void** args) {
    unpack(kernel, args, Indices<__integer_pack(sizeof...(P))...>{});
  }
  static constexpr unsigned long sizes[] = {sizeof...(P), sizeof(P)...};
};
}  // namespace shim

#define SHIM_KERNEL(NAME, ...)                                                                 \
  extern "C" __attribute__((visibility("default"))) void shim_entry_##NAME(void** args) {      \
    shim::Signature<decltype(&NAME)>::call(&NAME, args);                                       \
  }                                                                                            \
  extern "C" __attribute__((visibility("default"))) const unsigned long* shim_sizes_##NAME() { \
    return shim::Signature<decltype(&NAME)>::sizes;                                            \
  }                                                                                            \
  extern "C" __attribute__((visibility("default"))) int shim_bounds_##NAME() {                 \
    constexpr int bounds[] = {__VA_ARGS__};                                                    \
    return bounds[0];                                                                          \
  }

// Kernels of the self-test: every helper of device.cuh at least once.
#include "device.cuh"

#ifndef BLOCK
#define BLOCK 256
#endif

extern "C" __global__ void vector_add(const float* a, const float* b, float* sum, u64 n) {
  for
    GRID_STRIDE(i, n) sum[i] = fused_multiply_add(a[i], 1.0f, b[i]);
}

extern "C" __global__ void __launch_bounds__(BLOCK) block_sum(const u32* values, u32* sums) {
  __shared__ u32 partial[BLOCK];
  partial[threadIdx.x] = values[blockIdx.x * BLOCK + threadIdx.x];
  for (u32 half = BLOCK / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

// Per lane: sum by xor, inclusive sum by up, last lane's value, next lane's value, lanes with an odd value.
extern "C" __global__ void warp_helpers(const u64* values, u64* out) {
  u32 lane = lane_id();
  u64 value = values[threadIdx.x], sum = value, prefix = value;
  for (u32 step = 16; step > 0; step /= 2) sum += shfl_xor(FULL_WARP, sum, step);
  for (u32 step = 1; step < 32; step *= 2) {
    u64 below = shfl_up(FULL_WARP, prefix, step);
    if (lane >= step) prefix += below;
  }
  u32 odd = ballot(FULL_WARP, value & 1);
  sync_warp();
  u64* mine = out + threadIdx.x * 6;
  mine[0] = sum;
  mine[1] = prefix;
  mine[2] = shfl_idx(FULL_WARP, value, 31);
  mine[3] = (u64)shfl_down(FULL_WARP, (float)value, 1);
  mine[4] = popc(odd) + popc(value);
  mine[5] = clz(odd) + clz(value);
}

// Half of each warp talks among itself, the other half does something else.
extern "C" __global__ void half_warps(u32* out) {
  u32 lane = lane_id();
  if (lane < 16)
    out[threadIdx.x] = ballot(0x0000ffffu, lane % 2) + shfl_xor(0x0000ffffu, lane, 1);
  else
    out[threadIdx.x] = shfl_idx(0xffff0000u, lane, 20);
}

// Reverses tiles of 4 * blockDim floats through shared memory, one tile ahead; the last tile may be cut off.
extern "C" __global__ void reverse_tiles(const float4* in, float4* out, u32 n, u32 n_tiles) {
  DYNAMIC_SHARED(float4, tile);
  u32 size = blockDim.x, t = threadIdx.x;
  auto fetch = [&](u32 which) {
    u32 at = which * size + t;
    cp_async_16(&tile[which % 2 * size + t], at < n ? in + at : in, at < n ? 16 : 0);
    cp_async_commit();
  };
  fetch(0);
  for (u32 which = 0; which < n_tiles; which++) {
    if (which + 1 < n_tiles) {
      fetch(which + 1);
      cp_async_wait<1>();
    } else {
      cp_async_wait<0>();
    }
    __syncthreads();
    store_streaming(out + which * size + t, tile[which % 2 * size + size - 1 - t]);
    __syncthreads();
  }
}

extern "C" __global__ void copy_streaming(const float4* in, uint4* out) {
  float4 v = load_streaming(in + threadIdx.x);
  store_streaming(reinterpret_cast<float4*>(out) + threadIdx.x, v);
}

extern "C" __global__ void halves_round_trip(u16* f16, u16* bf16) {
  u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  f16[i] = f32_to_f16(f16_to_f32((u16)i));
  bf16[i] = f32_to_bf16(bf16_to_f32((u16)i));
}

extern "C" __global__ void convert(const float* in, u16* f16, u16* bf16, u32* tf32, i32* whole, u32 n) {
  for
    GRID_STRIDE(i, n) {
      f16[i] = f32_to_f16(in[i]);
      bf16[i] = f32_to_bf16(in[i]);
      tf32[i] = f32_to_tf32(in[i]);
      whole[i] = round_to_int(in[i]);
    }
}

// a: 16 x 8, b: 8 x 8, d: 16 x 8, all row by row.
extern "C" __global__ void multiply_tf32(const float* a, const float* b, float* d) {
  u32 g = lane_id() / 4, t = lane_id() % 4;
  u32 fa[4], fb[2];
  for (u32 i = 0; i < 4; i++) fa[i] = f32_to_tf32(a[(g + i % 2 * 8) * 8 + t + i / 2 * 4]);
  for (u32 i = 0; i < 2; i++) fb[i] = f32_to_tf32(b[(t + i * 4) * 8 + g]);
  float fd[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  mma_tf32(fd, fa, fb);
  for (u32 i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = fd[i];
}

// a: 16 x 16, b: 16 x 8, d: 16 x 8, all row by row.
template <class Encode, class Multiply>
__device__ void multiply_halves(const float* a, const float* b, float* d, Encode encode, Multiply multiply) {
  u32 g = lane_id() / 4, t = lane_id() % 4;
  u32 fa[4], fb[2];
  for (u32 i = 0; i < 4; i++) {
    const float* at = a + (g + i % 2 * 8) * 16 + 2 * t + i / 2 * 8;
    fa[i] = pack_halves(encode(at[0]), encode(at[1]));
  }
  for (u32 i = 0; i < 2; i++) {
    const float* at = b + (2 * t + i * 8) * 8 + g;
    fb[i] = pack_halves(encode(at[0]), encode(at[8]));
  }
  float fd[4] = {1.0f, 1.0f, 1.0f, 1.0f};
  multiply(fd, fa, fb);
  for (u32 i = 0; i < 4; i++) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = fd[i];
}

extern "C" __global__ void multiply_bf16(const float* a, const float* b, float* d) {
  multiply_halves(
      a, b, d, [](float x) { return f32_to_bf16(x); },
      [](float (&d)[4], const u32(&a)[4], const u32(&b)[2]) { mma_bf16(d, a, b); });
}
extern "C" __global__ void multiply_f16(const float* a, const float* b, float* d) {
  multiply_halves(
      a, b, d, [](float x) { return f32_to_f16(x); },
      [](float (&d)[4], const u32(&a)[4], const u32(&b)[2]) { mma_f16(d, a, b); });
}

extern "C" __global__ void early_exit(u32* out) {
  if (threadIdx.x % 2) return;
  __syncthreads();
  atomicAdd(out, 1u);
}

extern "C" __global__ void scale(float* values, float factor, u32 n) {
  for
    GRID_STRIDE(i, n) values[i] *= factor;
}

extern "C" {
__constant__ float table[4];
}
extern "C" __global__ void read_table(float* out) { out[threadIdx.x] = table[threadIdx.x]; }

extern "C" __global__ void read_past(const u8* bytes, u8* out, u32 n) { out[0] = bytes[n]; }
extern "C" __global__ void overrun(u8* bytes, u32 n) { bytes[n] = 1; }
extern "C" __global__ void deadlock() {
  if (threadIdx.x < 16) __syncthreads();
  __syncwarp();
}

// Latents to codes: a block quantises one frame, level by level, four groups of latents at once, so
// that they share the reads of the codebook. Sums have the order of `cpu.rs`.
#include "step.cuh"

constexpr u32 THREADS = 256, WARPS = THREADS / 32, GROUPS = 4;

// All but the first two are offsets: `places` into the places, the others into the floats.
struct Level {
  i64 stride, n_codes, places, codebook, directions, in_weight, in_bias, out_weight, out_bias;
};

struct Shape {
  Step step;
  Timeline timeline;
  Memory memory;
  const Level* levels;
  const i64* places;
  // [N, D], [D, N], [D, C], [D], [D, C] and [C] of all levels.
  const float* floats;
  const float* x;
  i32* codes;
  // May be null.
  float* margins;
  u32 n_levels, n_channels, dim, frame_latents, frame_codes;
};

// The code of the largest cosine, and the two largest cosines.
struct Nearest {
  float best, second;
  u32 code;

  __device__ __forceinline__ void see(float cosine, u32 index) {
    if (cosine > best) {
      second = best;
      best = cosine;
      code = index;
    } else if (cosine > second) {
      second = cosine;
    }
  }
  // Of equals the first code wins.
  __device__ __forceinline__ void merge(Nearest other) {
    second = max(min(best, other.best), max(second, other.second));
    if (other.best > best || (other.best == best && other.code < code)) {
      best = other.best;
      code = other.code;
    }
  }
  __device__ __forceinline__ Nearest across(u32 lane_mask) const {
    return {shfl_xor(FULL_WARP, best, lane_mask), shfl_xor(FULL_WARP, second, lane_mask),
            shfl_xor(FULL_WARP, code, lane_mask)};
  }
};

// Shared memory of a block.
struct Scratch {
  // [D, 4]: the projected means of four groups.
  float* vectors;
  // [L, C]
  float* residual;
  // [4, C]
  float* means;
};

__device__ __forceinline__ void average(const Shape& shape, Scratch scratch, u32 stride, u32 first, u32 n_groups) {
  const u32 n = shape.n_channels;
  for (u32 i = threadIdx.x; i < n_groups * n; i += THREADS) {
    const float* residual = scratch.residual + (first + i / n) * stride * n + i % n;
    float sum = residual[0];
    for (u32 t = 1; t < stride; t++) sum += residual[t * n];
    scratch.means[i] = sum / (float)stride;
  }
}

// A warp computes one element of one vector.
__device__ __forceinline__ void project(const Shape& shape, Scratch scratch, const Level& level, u32 n_groups) {
  const u32 n = shape.n_channels, lane = lane_id();
  for (u32 i = threadIdx.x / 32; i < n_groups * shape.dim; i += WARPS) {
    const u32 group = i / shape.dim, d = i % shape.dim;
    const float* weight = shape.floats + level.in_weight + (u64)d * n;
    const float* mean = scratch.means + group * n;
    float sum = 0.0f;
#pragma unroll 4
    for (u32 c = lane; c < n; c += 32) sum = fused_multiply_add(__ldg(weight + c), mean[c], sum);
#pragma unroll
    for (u32 distance = 16; distance; distance /= 2) sum += shfl_xor(FULL_WARP, sum, distance);
    if (lane == 0) scratch.vectors[d * GROUPS + group] = sum + __ldg(shape.floats + level.in_bias + d);
  }
}

// Threads below `GROUPS` scale one vector each; vectors beyond the last group become zero.
__device__ __forceinline__ void normalise(const Shape& shape, Scratch scratch, u32 n_groups) {
  const u32 group = threadIdx.x;
  if (group >= GROUPS) return;
  float square = 0.0f;
  for (u32 d = 0; d < shape.dim; d++) {
    float& v = scratch.vectors[d * GROUPS + group];
    if (group >= n_groups) v = 0.0f;
    square = fused_multiply_add(v, v, square);
  }
  const float length = sqrtf(square), norm = length > 1e-12f ? length : 1e-12f;
  for (u32 d = 0; d < shape.dim; d++) scratch.vectors[d * GROUPS + group] /= norm;
}

// The best of the codes that a thread looks at, for each group.
__device__ __forceinline__ void search(const Shape& shape, Scratch scratch, const Level& level,
                                       Nearest (&nearest)[GROUPS]) {
  const float minus_infinity = -__int_as_float(0x7f800000);
#pragma unroll
  for (u32 group = 0; group < GROUPS; group++) nearest[group] = {minus_infinity, minus_infinity, 0};
  const float* directions = shape.floats + level.directions;
  const u32 n_codes = (u32)level.n_codes;
  for (u32 code = threadIdx.x; code < n_codes; code += THREADS) {
    const float* direction = directions + code;
    float4 cosines = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (u32 d = 0; d < shape.dim; d++) {
      const float value = __ldg(direction + d * n_codes);
      const float4 vectors = *reinterpret_cast<const float4*>(scratch.vectors + d * GROUPS);
      cosines.x = fused_multiply_add(value, vectors.x, cosines.x);
      cosines.y = fused_multiply_add(value, vectors.y, cosines.y);
      cosines.z = fused_multiply_add(value, vectors.z, cosines.z);
      cosines.w = fused_multiply_add(value, vectors.w, cosines.w);
    }
    nearest[0].see(cosines.x, code);
    nearest[1].see(cosines.y, code);
    nearest[2].see(cosines.z, code);
    nearest[3].see(cosines.w, code);
  }
}

// Subtracts the projected code vectors of `codes` from the latents of their groups.
__device__ __forceinline__ void subtract(const Shape& shape, Scratch scratch, const Level& level, u32 first,
                                         u32 n_groups, const u32* codes) {
  const u32 n = shape.n_channels, stride = (u32)level.stride;
  for (u32 i = threadIdx.x; i < n_groups * n; i += THREADS) {
    const u32 group = i / n, c = i % n;
    const float* row = shape.floats + level.codebook + (u64)codes[group] * shape.dim;
    const float* weight = shape.floats + level.out_weight + c;
    float sum = __ldg(shape.floats + level.out_bias + c);
    for (u32 d = 0; d < shape.dim; d++) sum = fused_multiply_add(__ldg(weight + (u64)d * n), __ldg(row + d), sum);
    float* residual = scratch.residual + (first + group) * stride * n + c;
    for (u32 t = 0; t < stride; t++) residual[t * n] -= sum;
  }
}

// The codes of a frame whose latents are in `scratch.residual`, to `codes` and `margins`.
__device__ __forceinline__ void quantize(const Shape& shape, Scratch scratch, i32* codes, float* margins) {
  __shared__ Nearest of_warps[WARPS][GROUPS];
  __shared__ u32 chosen[GROUPS];
  for (u32 l = 0; l < shape.n_levels; l++) {
    const Level& level = shape.levels[l];
    const u32 n_all = shape.frame_latents / (u32)level.stride;
    for (u32 first = 0; first < n_all; first += GROUPS) {
      const u32 n_groups = min(GROUPS, n_all - first);
      average(shape, scratch, (u32)level.stride, first, n_groups);
      __syncthreads();
      project(shape, scratch, level, n_groups);
      __syncthreads();
      normalise(shape, scratch, n_groups);
      __syncthreads();
      Nearest nearest[GROUPS];
      search(shape, scratch, level, nearest);
#pragma unroll
      for (u32 group = 0; group < GROUPS; group++) {
#pragma unroll
        for (u32 distance = 16; distance; distance /= 2) nearest[group].merge(nearest[group].across(distance));
        if (lane_id() == 0) of_warps[threadIdx.x / 32][group] = nearest[group];
      }
      __syncthreads();
      if (threadIdx.x < n_groups) {
        Nearest found = of_warps[0][threadIdx.x];
        for (u32 warp = 1; warp < WARPS; warp++) found.merge(of_warps[warp][threadIdx.x]);
        const i64 place = shape.places[level.places + first + threadIdx.x];
        codes[place] = (i32)found.code;
        if (margins) margins[place] = found.best - found.second;
        chosen[threadIdx.x] = found.code;
      }
      __syncthreads();
      if (l + 1 < shape.n_levels) subtract(shape, scratch, level, first, n_groups, chosen);
    }
    __syncthreads();
  }
}

// Grid: x over frames of a stream, y over streams. Shared memory: `Scratch`.
// budget: 48 registers, 0 spill
extern "C" __global__ void __launch_bounds__(THREADS) quantize_f32(Shape shape) {
  DYNAMIC_SHARED(float, shared);
  const u32 n = shape.n_channels, n_latents = shape.step.n_latents, n_frames = n_latents / shape.frame_latents;
  float* residual = shared + shape.dim * GROUPS;
  const Scratch scratch = {shared, residual, residual + shape.frame_latents * n};
  const u32 frame = blockIdx.x, latent = frame * shape.frame_latents;
  for (u32 stream = blockIdx.y; stream < shape.step.n_rows && frame < n_frames; stream += gridDim.y) {
    const u64 at = ((u64)stream * n_frames + frame) * shape.frame_codes;
    float* margins = shape.margins ? shape.margins + at : nullptr;
    if (!live_outputs(shape.step.rows[stream], shape.timeline, n_latents).has(latent)) {
      for (u32 i = threadIdx.x; i < shape.frame_codes; i += THREADS) {
        shape.codes[at + i] = 0;
        if (margins) margins[i] = 0.0f;
      }
      continue;
    }
    const History seen = history(shape.step, shape.memory, shape.x, stream, n_latents);
    for (u32 i = threadIdx.x; i < shape.frame_latents * n; i += THREADS) residual[i] = seen.row(latent + i / n)[i % n];
    __syncthreads();
    quantize(shape, scratch, shape.codes + at, margins);
  }
  roll(shape.step, shape.memory, shape.x, n_latents);
}

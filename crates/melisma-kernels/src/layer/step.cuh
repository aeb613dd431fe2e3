// Code that the layers of a step share: rows, time, memory, Snake. The host's side is `step.rs` and
// `layer/cuda.rs`.
#pragma once
#include "device.cuh"

struct Row {
  i64 slot, n_steps, start, end, seed, noise;
};

struct Step {
  const Row* rows;
  u32 n_rows, n_latents;
};

struct Timeline {
  u32 rate, lag;
};

// Outputs `from` .. `to` of a row's step exist.
struct Live {
  u32 from, to;
  __device__ __forceinline__ bool has(u32 index) const { return index >= from && index < to; }
};

__device__ __forceinline__ i64 first_output(const Row& row, Timeline timeline) {
  return row.start * timeline.rate - timeline.lag;
}

__device__ __forceinline__ Live live_outputs(const Row& row, Timeline timeline, u32 n_latents) {
  const i64 first = first_output(row, timeline), len = (i64)n_latents * timeline.rate;
  const i64 to = min(max(row.end * timeline.rate - first, (i64)0), len);
  return {(u32)min(max(-first, (i64)0), to), (u32)to};
}

// One layer's memory for all slots: the last `n_past` rows of its input, twice. A step reads the
// copy selected by the slot's number of steps and writes the other, so no block waits for another.
struct Memory {
  float* arena;
  u64 slot_len, offset;
  u32 n_past, n_channels;

  __device__ __forceinline__ float* copy(const Row& row, u32 which) const {
    return arena + row.slot * slot_len + offset + (u64)which * n_past * n_channels;
  }
  __device__ __forceinline__ const float* past(const Row& row) const { return copy(row, row.n_steps & 1); }
};

// The rows that a stream's step can see: the remembered rows, then the rows of the step.
struct History {
  const float *past, *now;
  u32 n_past, n_channels;

  __device__ __forceinline__ const float* row(u32 index) const {
    return index < n_past ? past + (u64)index * n_channels : now + (u64)(index - n_past) * n_channels;
  }
};

// The rows that stream `stream` sees when each stream has `len` rows in `x`.
__device__ __forceinline__ History history(const Step& step, const Memory& memory, const float* x, u32 stream,
                                           u32 len) {
  const float* now = x + (u64)stream * len * memory.n_channels;
  return {memory.past(step.rows[stream]), now, memory.n_past, memory.n_channels};
}

// Remembers form(channel, value) of the last rows of `x`, distributed over all threads of the grid.
// Empty rows write nothing, because they may share their slot with another row.
template <class Form>
__device__ __forceinline__ void roll(const Step& step, const Memory& memory, const float* x, u32 len, Form form) {
  const u32 size = memory.n_past * memory.n_channels;
  const u32 block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const u32 n_threads = blockDim.x * blockDim.y * blockDim.z;
  const u32 thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const u64 n_workers = (u64)gridDim.x * gridDim.y * gridDim.z * n_threads;
  for (u64 i = (u64)block * n_threads + thread; i < (u64)size * step.n_rows; i += n_workers) {
    // 64-bit divisions are slow and rarely needed.
    const u32 stream = i >> 32 ? (u32)(i / size) : (u32)i / size, at = (u32)(i - (u64)stream * size);
    const Row& row = step.rows[stream];
    if (row.end == 0) continue;
    const History seen = history(step, memory, x, stream, len);
    const u32 from = at / memory.n_channels + len, c = at % memory.n_channels;
    const float value = seen.row(from)[c];
    memory.copy(row, ~row.n_steps & 1)[at] = from < memory.n_past ? value : form(c, value);
  }
}

__device__ __forceinline__ void roll(const Step& step, const Memory& memory, const float* x, u32 len) {
  roll(step, memory, x, len, [](u32, float value) { return value; });
}

// y = x + sin²(αx)/α: αx is reduced to r in [-π/2, π/2] by two fused steps, and sin r is r times a
// polynomial in r². As accurate as on the CPU, see `snake.rs`: for |αx| below 2^20 the error of
// sin² is at most 3e-7.
__device__ __forceinline__ float snake(float x, float alpha, float inverse) {
  const float z = alpha * x;
  // Adding 1.5 · 2^23 leaves no room for a fraction, which rounds to the nearest integer at full
  // rate.
  const float turns = (z * 0.318309886183790671538f + 12582912.0f) - 12582912.0f;
  const float r = fused_multiply_add(turns, 8.742278e-8f, fused_multiply_add(turns, -3.1415927f, z));
  const float square = r * r, most = 1.57079632679489661923f * 1.57079632679489661923f;
  const float u = square > most ? most : square;
  float p = fused_multiply_add(2.608316e-6f, u, -1.9810691e-4f);
  p = fused_multiply_add(p, u, 8.333079e-3f);
  p = fused_multiply_add(p, u, -1.666666e-1f);
  const float ratio = fused_multiply_add(p, u, 1.0f);
  return fused_multiply_add(inverse, u * ratio * ratio, x);
}

// α of all channels, then 1/(α + 1e-9), each padded to a multiple of four channels.
struct Snake {
  const float *alpha, *inverse;

  __device__ __forceinline__ float at(u32 channel, float x) const {
    return snake(x, __ldg(alpha + channel), __ldg(inverse + channel));
  }
  // The constants of four channels. The inverse is needed last, so it is loaded late to save
  // registers.
  struct Four {
    float4 a;
    const float* inverse;
    __device__ __forceinline__ float4 of(float4 x) const {
      const float4 i = __ldg(reinterpret_cast<const float4*>(inverse));
      return make_float4(snake(x.x, a.x, i.x), snake(x.y, a.y, i.y), snake(x.z, a.z, i.z), snake(x.w, a.w, i.w));
    }
  };
  __device__ __forceinline__ Four four(u32 channel) const {
    return {__ldg(reinterpret_cast<const float4*>(alpha + channel)), inverse + channel};
  }
};

// `Shape` of the layers with a stride: half of a column's inputs is padded to `padded`, a multiple of a chunk.
struct Strided {
  Step step;
  Timeline timeline;
  Memory memory;
  Snake snake;
  const float *x, *bias;
  float *z, *y;
  u32 n_columns, n_in, n_out, stride, padded;
};

// z = S(x), `[n_rows, n]`. Grid: x over channels, y over rows.
__device__ __forceinline__ void snake_rows(const Snake& constants, const float* x, float* z, u32 n_rows, u32 n) {
  const u32 c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= n) return;
  const float alpha = __ldg(constants.alpha + c), inverse = __ldg(constants.inverse + c);
  for (u32 row = blockIdx.y; row < n_rows; row += gridDim.y) {
    z[(u64)row * n + c] = snake(x[(u64)row * n + c], alpha, inverse);
  }
}

// Four floats starting at `channel` of a row of `n_channels`; zero past its end.
__device__ __forceinline__ float4 load4(const float* row, u32 channel, u32 n_channels) {
  const float* from = row + channel;
  if (channel + 4 <= n_channels && ((u64)from & 15) == 0) return *reinterpret_cast<const float4*>(from);
  float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  if (channel < n_channels) v.x = from[0];
  if (channel + 1 < n_channels) v.y = from[1];
  if (channel + 2 < n_channels) v.z = from[2];
  if (channel + 3 < n_channels) v.w = from[3];
  return v;
}

__device__ __forceinline__ void store4(float* row, u32 channel, u32 n_channels, float4 v) {
  float* to = row + channel;
  if (channel + 4 <= n_channels && ((u64)to & 15) == 0) {
    *reinterpret_cast<float4*>(to) = v;
    return;
  }
  if (channel < n_channels) to[0] = v.x;
  if (channel + 1 < n_channels) to[1] = v.y;
  if (channel + 2 < n_channels) to[2] = v.z;
  if (channel + 3 < n_channels) to[3] = v.w;
}

__device__ __forceinline__ float4 add4(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

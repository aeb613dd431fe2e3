// Attention inside windows: one warp per latent and head. Memory stores q, k, v and x unrotated; q
// and k are rotated where they are used.
#include "step.cuh"

struct Shape {
  Step step;
  Timeline timeline;
  // [k | v] of the last 2 (W - 1) inputs, [q | x] of the last W - 1.
  Memory keys, queries;
  // [W, D/2]: cos, sin
  const float2* rotation;
  const float *qkv, *x;
  float *mixed, *skip;
  u32 n_channels, head_dim, window;
  float scale;

  // Element `c` of [k | v] or [q | x] for row `index` of memory and step joined.
  __device__ __forceinline__ float key(const Row& row, u32 stream, u32 index, u32 c) const {
    if (index < keys.n_past) return keys.past(row)[(u64)index * keys.n_channels + c];
    return qkv[((u64)stream * step.n_latents + index - keys.n_past) * 3 * n_channels + n_channels + c];
  }
  __device__ __forceinline__ float query(const Row& row, u32 stream, u32 index, u32 c) const {
    if (index < queries.n_past) return queries.past(row)[(u64)index * queries.n_channels + c];
    const u64 now = (u64)stream * step.n_latents + index - queries.n_past;
    return c < n_channels ? qkv[now * 3 * n_channels + c] : x[now * n_channels + c - n_channels];
  }
};

constexpr u32 WARPS = 4;

// Grid: x over latents and heads of a stream, y over streams; shared memory: head_dim + window
// floats per warp.
// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128) attention_f32(Shape shape) {
  DYNAMIC_SHARED(float, shared);
  const u32 n = shape.n_channels, dim = shape.head_dim, half = dim / 2, window = shape.window;
  const u32 warp = threadIdx.x / 32, lane = lane_id(), n_heads = n / dim;
  const u32 index = blockIdx.x * WARPS + warp, t = index / n_heads, head = index % n_heads * dim;
  if (t >= shape.step.n_latents) return;
  float* query = shared + warp * (dim + window);
  float* powers = query + dim;
  for (u32 stream = blockIdx.y; stream < shape.step.n_rows; stream += gridDim.y) {
    const Row& row = shape.step.rows[stream];
    const bool live = live_outputs(row, shape.timeline, shape.step.n_latents).has(t);
    const u64 to = ((u64)stream * shape.step.n_latents + t) * n + head;
    for (u32 d = lane; d < dim; d += 32) {
      shape.mixed[to + d] = 0.0f;
      shape.skip[to + d] = live ? shape.query(row, stream, t, n + head + d) : 0.0f;
    }
    if (!live) continue;
    const i64 position = first_output(row, shape.timeline) + t;
    const u32 before = (u32)(position % window);
    const u32 n_keys = (u32)min((i64)window, row.end - (position - before));
    // Row t of [q | x] and row t + W - 1 of [k | v] are the same latent.
    const u32 first = t + window - 1 - before;
    sync_warp();
    for (u32 d = lane; d < half; d += 32) {
      const float a = shape.query(row, stream, t, head + d), b = shape.query(row, stream, t, head + d + half);
      const float2 turn = shape.rotation[before * half + d];
      query[d] = fused_multiply_add(a, turn.x, -(b * turn.y));
      query[d + half] = fused_multiply_add(b, turn.x, a * turn.y);
    }
    sync_warp();
    float most = -__int_as_float(0x7f800000);
    for (u32 j = lane; j < n_keys; j += 32) {
      float score = 0.0f;
      for (u32 d = 0; d < half; d++) {
        const float a = shape.key(row, stream, first + j, head + d),
                    b = shape.key(row, stream, first + j, head + d + half);
        const float2 turn = shape.rotation[j * half + d];
        score = fused_multiply_add(query[d], fused_multiply_add(a, turn.x, -(b * turn.y)), score);
        score = fused_multiply_add(query[d + half], fused_multiply_add(b, turn.x, a * turn.y), score);
      }
      powers[j] = score * shape.scale;
      most = powers[j] > most ? powers[j] : most;
    }
#pragma unroll
    for (u32 distance = 16; distance; distance /= 2) most = fmaxf(most, shfl_xor(FULL_WARP, most, distance));
    float sum = 0.0f;
    for (u32 j = lane; j < n_keys; j += 32) {
      powers[j] = expf(powers[j] - most);
      sum += powers[j];
    }
#pragma unroll
    for (u32 distance = 16; distance; distance /= 2) sum += shfl_xor(FULL_WARP, sum, distance);
    sync_warp();
    for (u32 d = lane; d < dim; d += 32) {
      float mixed = 0.0f;
      for (u32 j = 0; j < n_keys; j++) {
        mixed = fused_multiply_add(powers[j] / sum, shape.key(row, stream, first + j, n + head + d), mixed);
      }
      shape.mixed[to + d] = mixed;
    }
    sync_warp();
  }
}

// budget: 48 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) attention_remember(Shape shape) {
  const u32 width = 2 * shape.n_channels, n_keys = shape.keys.n_past, n_queries = shape.queries.n_past;
  for
    GRID_STRIDE(i, (u64)shape.step.n_rows * (n_keys + n_queries) * width) {
      const u32 stream = (u32)(i / ((n_keys + n_queries) * width)), at = (u32)(i % ((n_keys + n_queries) * width));
      const u32 index = at / width, c = at % width, len = shape.step.n_latents;
      const Row& row = shape.step.rows[stream];
      if (row.end == 0) continue;
      const u32 other = ~row.n_steps & 1;
      if (index < n_keys) {
        shape.keys.copy(row, other)[at] = shape.key(row, stream, index + len, c);
      } else {
        shape.queries.copy(row, other)[at - n_keys * width] = shape.query(row, stream, index - n_keys + len, c);
      }
    }
}

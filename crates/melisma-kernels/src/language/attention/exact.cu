// Attention over a paged cache in F32. A block has one row and one key head: each warp takes every n-th page
// for all G queries of the head, and after each round the pages are added in their order. So a
// query's bits depend on its own past alone, not on the number of warps.
#include "curve.cuh"
#include "tokens.cuh"

struct Shape {
  Tokens tokens;
  CacheShape shape;
  u32 n_heads;
  // [R, (Q + 2 H) D]; keys first, then values, in `cache`.
  const float *qkv, *cache;
  // [R, Q D]
  float* y;
  // Not used here.
  float* partial;
  float scale;
  // G
  u32 n_group;
};

// Shared memory of a block.
struct Scratch {
  // [G, D], the queries and the weighted values so far; [warps, G, P] and [warps, G, D].
  float *queries, *y, *scores, *mixed;
  // [G] the largest score and the sum so far; [warps, G] those of a page, then the factors of what was
  // there before and of the page.
  float2 *totals, *pages;
};

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (u32 distance = 16; distance; distance /= 2) {
    const float other = shfl_xor(FULL_WARP, value, distance);
    value = other > value ? other : value;
  }
  return value;
}

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (u32 distance = 16; distance; distance /= 2) value += shfl_xor(FULL_WARP, value, distance);
  return value;
}

// The scores of up to four queries with a page's keys. Eight lanes share a token, so a warp has four
// tokens at a time.
__device__ __forceinline__ void score(const Shape& all, const float* queries, const float* keys, float* scores,
                                      u32 n_tokens, u32 n_queries) {
  const u32 dim = all.shape.head_dim, lane = lane_id();
#pragma unroll 4
  for (u32 first = 0; first < n_tokens; first += 4) {
    const u32 token = first + lane / 8;
    // Past the end, the last token is read again and its scores are dropped.
    const float* key = keys + (u64)min(token, n_tokens - 1) * dim;
    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll 4
    for (u32 d = 4 * (lane % 8); d < dim; d += 32) {
      const float4 k = *reinterpret_cast<const float4*>(key + d);
#pragma unroll
      for (u32 q = 0; q < 4; q++) {
        if (q >= n_queries) break;
        const float4 x = *reinterpret_cast<const float4*>(queries + q * dim + d);
        sums[q] = fused_multiply_add(x.x, k.x, sums[q]);
        sums[q] = fused_multiply_add(x.y, k.y, sums[q]);
        sums[q] = fused_multiply_add(x.z, k.z, sums[q]);
        sums[q] = fused_multiply_add(x.w, k.w, sums[q]);
      }
    }
#pragma unroll
    for (u32 q = 0; q < 4; q++) {
#pragma unroll
      for (u32 distance = 4; distance; distance /= 2) sums[q] += shfl_xor(FULL_WARP, sums[q], distance);
      if (q < n_queries && lane % 8 == 0 && token < n_tokens)
        scores[q * all.shape.page_len + token] = sums[q] * all.scale;
    }
  }
}

// Turns a page's scores into weights; returns the largest score and the sum of the weights.
__device__ __forceinline__ float2 soften(float* scores, u32 n_tokens) {
  const u32 lane = lane_id();
  float most = -__int_as_float(0x7f800000);
  for (u32 j = lane; j < n_tokens; j += 32) most = scores[j] > most ? scores[j] : most;
  most = warp_max(most);
  float sum = 0.0f;
  for (u32 j = lane; j < n_tokens; j += 32) {
    scores[j] = curve_exp(scores[j] - most);
    sum += scores[j];
  }
  return make_float2(most, warp_sum(sum));
}

// The sum of a page's values for up to four queries, tokens ascending; a lane has four channels.
__device__ __forceinline__ void mix(const Shape& all, const float* weights, const float* values, float* mixed,
                                    u32 n_tokens, u32 n_queries) {
  const u32 dim = all.shape.head_dim, page_len = all.shape.page_len;
  for (u32 d = 4 * lane_id(); d < dim; d += 128) {
    float4 sums[4];
#pragma unroll
    for (u32 q = 0; q < 4; q++) sums[q] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 16
    for (u32 j = 0; j < n_tokens; j++) {
      const float4 v = *reinterpret_cast<const float4*>(values + (u64)j * dim + d);
#pragma unroll
      for (u32 q = 0; q < 4; q++) {
        if (q >= n_queries) break;
        const float weight = weights[q * page_len + j];
        sums[q].x = fused_multiply_add(weight, v.x, sums[q].x);
        sums[q].y = fused_multiply_add(weight, v.y, sums[q].y);
        sums[q].z = fused_multiply_add(weight, v.z, sums[q].z);
        sums[q].w = fused_multiply_add(weight, v.w, sums[q].w);
      }
    }
#pragma unroll
    for (u32 q = 0; q < 4; q++) {
      if (q < n_queries) *reinterpret_cast<float4*>(mixed + q * dim + d) = sums[q];
    }
  }
}

// Adds the pages of a round to the totals: `pages` becomes the factors with which they are added.
__device__ __forceinline__ void weigh(const Scratch& scratch, u32 q, u32 n_group, u32 n_pages) {
  float2 total = scratch.totals[q];
  for (u32 page = 0; page < n_pages; page++) {
    const float2 own = scratch.pages[page * n_group + q];
    const float most = own.x > total.x ? own.x : total.x;
    const float before = curve_exp(total.x - most), now = curve_exp(own.x - most);
    total = make_float2(most, fused_multiply_add(total.y, before, own.y * now));
    scratch.pages[page * n_group + q] = make_float2(before, now);
  }
  scratch.totals[q] = total;
}

// Grid: x over key heads, y over rows; block: (32, warps). Shared memory: `Scratch`.
// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(512) attention_f32(Shape all) {
  DYNAMIC_SHARED(float, shared);
  const u32 dim = all.shape.head_dim, page_len = all.shape.page_len, n_group = all.n_group, n_warps = blockDim.y;
  const u32 warp = threadIdx.y, thread = 32 * warp + threadIdx.x, n_threads = 32 * n_warps, len = n_group * dim;
  Scratch scratch;
  scratch.queries = shared;
  scratch.y = scratch.queries + len;
  scratch.mixed = scratch.y + len;
  scratch.totals = reinterpret_cast<float2*>(scratch.mixed + n_warps * len);
  scratch.pages = scratch.totals + n_group;
  scratch.scores = reinterpret_cast<float*>(scratch.pages + n_warps * n_group);
  const u32 head = blockIdx.x;
  for (u32 row = blockIdx.y; row < all.tokens.n_rows; row += gridDim.y) {
    const u32 n_seen = all.tokens.position(row) + 1, n_pages = (n_seen + page_len - 1) / page_len;
    const u32* pages = all.tokens.pages(row);
    const float* from = all.qkv + ((u64)row * (all.n_heads + 2 * all.shape.n_heads) + head * n_group) * dim;
    for (u32 i = thread; i < len; i += n_threads) {
      scratch.queries[i] = from[i];
      scratch.y[i] = 0.0f;
    }
    for (u32 q = thread; q < n_group; q += n_threads)
      scratch.totals[q] = make_float2(-__int_as_float(0x7f800000), 0.0f);
    __syncthreads();
    for (u32 first = 0; first < n_pages; first += n_warps) {
      const u32 number = first + warp;
      if (number < n_pages) {
        const u32 page = pages[number], n_tokens = min(page_len, n_seen - number * page_len);
        float* scores = scratch.scores + warp * n_group * page_len;
        for (u32 q = 0; q < n_group; q += 4)
          score(all, scratch.queries + q * dim, all.cache + all.shape.keys(page, head), scores + q * page_len, n_tokens,
                min(4u, n_group - q));
        sync_warp();
        for (u32 q = 0; q < n_group; q++) {
          const float2 of_page = soften(scores + q * page_len, n_tokens);
          if (threadIdx.x == 0) scratch.pages[warp * n_group + q] = of_page;
        }
        sync_warp();
        for (u32 q = 0; q < n_group; q += 4)
          mix(all, scores + q * page_len, all.cache + all.shape.values(page, head),
              scratch.mixed + (warp * n_group + q) * dim, n_tokens, min(4u, n_group - q));
      }
      __syncthreads();
      const u32 n_added = min(n_warps, n_pages - first);
      for (u32 q = thread; q < n_group; q += n_threads) weigh(scratch, q, n_group, n_added);
      __syncthreads();
      for (u32 i = thread; i < len; i += n_threads) {
        float y = scratch.y[i];
        for (u32 page = 0; page < n_added; page++) {
          const float2 factors = scratch.pages[page * n_group + i / dim];
          y = fused_multiply_add(y, factors.x, scratch.mixed[page * len + i] * factors.y);
        }
        scratch.y[i] = y;
      }
      __syncthreads();
    }
    float* to = all.y + ((u64)row * all.n_heads + head * n_group) * dim;
    for (u32 i = thread; i < len; i += n_threads) to[i] = scratch.y[i] / scratch.totals[i / dim].y;
    __syncthreads();
  }
}

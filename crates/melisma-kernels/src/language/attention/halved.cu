// Attention over a paged cache in BF16, on tensor cores. Up to 32 tokens of a page are a unit; a chain has
// every sixteenth unit and adds them in their order, and in the end the chains are added. So a query's bits
// depend on its own past alone, and neither on the warps, of which each has one or more chains, nor on the
// blocks, of which several share a row and key head where there are few.
//
// Eight queries and 128 channels are a pass. A number of a query and a weight is split into two BF16 numbers,
// x = high + low, which errs by 2^-17 at most. `device.cuh` shows the fragments.
#include "curve.cuh"
#include "halves.cuh"
#include "tokens.cuh"

constexpr u32 CHAINS = 16, UNIT = 32, QUERIES = 8, CHANNELS = 128;
// Floats between the weights of two queries, so that eight lanes read all banks.
constexpr u32 WEIGHTS_ROW = UNIT + 4;

struct Shape {
  Tokens tokens;
  CacheShape shape;
  u32 n_heads;
  // [R, (Q + 2 H) D]
  const float* qkv;
  // Keys first, then values.
  const u16* cache;
  // [R, Q D]
  float* y;
  // For each row and key head its `Chains`, where several blocks share them.
  float* partial;
  float scale;
  // G
  u32 n_group;
};

// What the chains of a row and key head have found.
struct Chains {
  // [CHAINS, G, D], the weighted values.
  float* sums;
  // [CHAINS, G]: the largest score and the sum of the weights.
  float2* totals;

  __device__ __forceinline__ Chains(float* at, u32 n_group, u32 dim)
      : sums(at), totals(reinterpret_cast<float2*>(at + CHAINS * n_group * dim)) {}
};

// Some tokens of a page.
struct Unit {
  const u16 *keys, *values;
  u32 n_tokens;
};

__device__ __forceinline__ uint4 eight(const u16* from, bool exists) {
  return exists ? load_streaming(reinterpret_cast<const uint4*>(from)) : make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ u32 word(uint4 eight, u32 i) {
  return i == 0 ? eight.x : i == 1 ? eight.y : i == 2 ? eight.z : eight.w;
}

// Number `i` of eight of each of two rows.
__device__ __forceinline__ u32 pair(uint4 a, uint4 b, u32 i) {
  const u32 first = word(a, i / 2), second = word(b, i / 2);
  return i % 2 ? first >> 16 | (second & 0xffff0000u) : (first & 0xffffu) | second << 16;
}

// Numbers between two rows of queries, so that eight lanes read all banks.
__device__ __forceinline__ u32 query_row(u32 dim) { return (dim + 31) / 32 * 32 + 8; }

// A warp's chain of units, for `n_queries` queries and the channels from `first` on.
template <u32 DIM>
__device__ __forceinline__ void follow(const Shape& all, u32 chain, u32 row, const u16* queries, float* weights,
                                       u32 n_queries, u32 first, float* sums, float2* totals) {
  constexpr u32 AHEAD = DIM ? DIM / 32 : 1;
  const u32 lane = threadIdx.x, g = lane / 4, t = lane % 4, dim = DIM ? DIM : all.shape.head_dim;
  const u32 page_len = all.shape.page_len, per_page = (page_len + UNIT - 1) / UNIT;
  const u32 n_seen = all.tokens.position(row) + 1, head = blockIdx.x, row_len = query_row(dim);
  const u32* pages = all.tokens.pages(row);
  const float least = -__int_as_float(0x7f800000);
  // Of the queries 2t and 2t + 1; sums of the channels first + 8g + i, and of those 64 further.
  float most[2] = {least, least}, total[2] = {0.0f, 0.0f}, mixed[8][4];
#pragma unroll
  for (u32 i = 0; i < 32; i++) mixed[i / 4][i % 4] = 0.0f;
  for (u32 number = chain;; number += CHAINS) {
    const u32 page = number / per_page, skipped = number % per_page * UNIT, before = page * page_len + skipped;
    if (page * page_len >= n_seen) break;
    if (before >= n_seen) continue;
    const Unit unit = {all.cache + all.shape.keys(pages[page], head) + (u64)skipped * dim,
                       all.cache + all.shape.values(pages[page], head) + (u64)skipped * dim,
                       min(min(UNIT, page_len - skipped), n_seen - before)};
    const u32 last = unit.n_tokens - 1;
    // Tokens 4t to 4t + 3 of each sixteen. Past the end, the last one is read again.
    uint4 values[2][2][4];
    const auto read_values = [&](u32 step) {
#pragma unroll
      for (u32 i = 0; i < 8; i++) {
        const u32 channel = first + i / 4 * 64 + 8 * g;
        values[step][i / 4][i % 4] =
            eight(unit.values + (u64)min(16 * step + 4 * t + i % 4, last) * dim + channel, channel < dim);
      }
    };
    // All loads are on their way before the first is waited for.
    uint4 ahead[AHEAD][2][2];
    const auto read_keys = [&](u32 k, uint4(&keys)[2][2]) {
#pragma unroll
      for (u32 i = 0; i < 4; i++)
        keys[i / 2][i % 2] = eight(unit.keys + (u64)min(8 * i + g, last) * dim + k + 8 * t, k + 8 * t < dim);
    };
#pragma unroll
    for (u32 i = 0; i < AHEAD; i++) read_keys(32 * i, ahead[i]);
    read_values(0);
    read_values(1);
    float scores[2][4];
#pragma unroll
    for (u32 i = 0; i < 8; i++) scores[i / 4][i % 4] = 0.0f;
#pragma unroll
    for (u32 k = 0; k < dim; k += 32) {
      if (AHEAD == 1 && k > 0) read_keys(k, ahead[0]);
      const auto& keys = ahead[AHEAD == 1 ? 0 : k / 32];
      const uint4 high = *reinterpret_cast<const uint4*>(queries + g * row_len + k + 8 * t);
      const uint4 low = *reinterpret_cast<const uint4*>(queries + (QUERIES + g) * row_len + k + 8 * t);
#pragma unroll
      for (u32 step = 0; step < 4; step++) {
        const bool second = step / 2;
        const uint4 of_x = step % 2 ? high : low;
        const u32 b[2] = {second ? of_x.z : of_x.x, second ? of_x.w : of_x.y};
#pragma unroll
        for (u32 m = 0; m < 2; m++) {
          const uint4 upper = keys[m][0], lower = keys[m][1];
          const u32 a[4] = {second ? upper.z : upper.x, second ? lower.z : lower.x, second ? upper.w : upper.y,
                            second ? lower.w : lower.y};
          mma_bf16(scores[m], a, b);
        }
      }
    }
#pragma unroll
    for (u32 j = 0; j < 2; j++) {
      float own[4], largest = least, sum = 0.0f;
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        own[i] = 8 * i + g < unit.n_tokens ? scores[i / 2][i % 2 * 2 + j] * all.scale : least;
        largest = own[i] > largest ? own[i] : largest;
      }
#pragma unroll
      for (u32 distance = 4; distance < 32; distance *= 2) {
        const float other = shfl_xor(FULL_WARP, largest, distance);
        largest = other > largest ? other : largest;
      }
      const float now = largest > most[j] ? largest : most[j], factor = curve_exp(most[j] - now);
#pragma unroll
      for (u32 i = 0; i < 4; i++) {
        const float weight = 8 * i + g < unit.n_tokens ? curve_exp(own[i] - now) : 0.0f;
        weights[(2 * t + j) * WEIGHTS_ROW + 8 * i + g] = weight;
        sum += weight;
      }
#pragma unroll
      for (u32 distance = 4; distance < 32; distance *= 2) sum += shfl_xor(FULL_WARP, sum, distance);
      total[j] = fused_multiply_add(total[j], factor, sum);
      most[j] = now;
#pragma unroll
      for (u32 i = 0; i < 8; i++) mixed[i][j] *= factor, mixed[i][2 + j] *= factor;
    }
    sync_warp();
#pragma unroll
    for (u32 step = 0; step < 2; step++) {
      const float4 four = *reinterpret_cast<const float4*>(weights + g * WEIGHTS_ROW + 16 * step + 4 * t);
      const Operand front = operand(four.x, four.y), back = operand(four.z, four.w);
      const u32 low[2] = {front.low, back.low}, high[2] = {front.high, back.high};
#pragma unroll
      for (u32 i = 0; i < 8; i++) {
        const auto& of = values[step];
        const u32 a[4] = {pair(of[0][0], of[0][1], i), pair(of[1][0], of[1][1], i), pair(of[0][2], of[0][3], i),
                          pair(of[1][2], of[1][3], i)};
        mma_bf16(mixed[i], a, low);
        mma_bf16(mixed[i], a, high);
      }
    }
    sync_warp();
  }
#pragma unroll
  for (u32 j = 0; j < 2; j++) {
    const u32 q = 2 * t + j;
    if (q >= n_queries) continue;
    if (g == 0) totals[q] = make_float2(most[j], total[j]);
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
      const u32 further = i / 2, four = i % 2 * 4, channel = first + 64 * further + 8 * g + four;
      if (channel < dim)
        *reinterpret_cast<float4*>(sums + q * dim + channel) =
            make_float4(mixed[four][2 * further + j], mixed[four + 1][2 * further + j],
                        mixed[four + 2][2 * further + j], mixed[four + 3][2 * further + j]);
    }
  }
}

// Adds the chains of a row and key head. `factors` has room for [CHAINS, G].
__device__ __forceinline__ void add(const Shape& all, const Chains& chains, float* factors, u32 row, u32 n_chains) {
  const u32 dim = all.shape.head_dim, n_group = all.n_group;
  const u32 thread = threadIdx.y * 32 + threadIdx.x, n_threads = 32 * blockDim.y;
  for (u32 i = thread; i < n_chains * n_group; i += n_threads) {
    float most = -__int_as_float(0x7f800000);
    for (u32 chain = 0; chain < n_chains; chain++) {
      const float other = chains.totals[chain * n_group + i % n_group].x;
      most = other > most ? other : most;
    }
    factors[i] = curve_exp(chains.totals[i].x - most);
  }
  __syncthreads();
  float* to = all.y + ((u64)row * all.n_heads + blockIdx.x * n_group) * dim;
  for (u32 i = thread; i < n_group * dim; i += n_threads) {
    float y = 0.0f, total = 0.0f;
#pragma unroll 4
    for (u32 chain = 0; chain < n_chains; chain++) {
      const u32 own = chain * n_group + i / dim;
      y = fused_multiply_add(chains.sums[chain * n_group * dim + i], factors[own], y);
      total = fused_multiply_add(chains.totals[own].y, factors[own], total);
    }
    to[i] = y / total;
  }
}

__device__ __forceinline__ u32 chains_of(const Shape& all, u32 row) {
  const u32 per_page = (all.shape.page_len + UNIT - 1) / UNIT;
  return min(CHAINS, (all.tokens.position(row) / all.shape.page_len + 1) * per_page);
}

// Where the chains of a row and of the block's key head are, in `partial`.
__device__ __forceinline__ Chains partial_of(const Shape& all, u32 row) {
  const u32 dim = all.shape.head_dim, len = CHAINS * all.n_group * (dim + 2);
  return Chains(all.partial + ((u64)row * gridDim.x + blockIdx.x) * len, all.n_group, dim);
}

// Grid: x over key heads, y over rows, z over chains; block: (32, warps). Shared memory: queries in two parts,
// the weights of the warps, then, without `partial`, `Chains` and their factors. DIM is D, or 0 for any.
template <u32 DIM>
__device__ __forceinline__ void attention(const Shape& all) {
  DYNAMIC_SHARED(float, shared);
  const u32 dim = DIM ? DIM : all.shape.head_dim, n_group = all.n_group, n_warps = blockDim.y, warp = threadIdx.y;
  const u32 thread = 32 * warp + threadIdx.x, n_threads = 32 * n_warps, row_len = query_row(dim);
  u16* queries = reinterpret_cast<u16*>(shared);
  float* weights = shared + QUERIES * row_len;
  float* own = weights + n_warps * QUERIES * WEIGHTS_ROW;
  for (u32 row = blockIdx.y; row < all.tokens.n_rows; row += gridDim.y) {
    const u32 n_chains = chains_of(all, row);
    const Chains chains = all.partial ? partial_of(all, row) : Chains(own, n_group, dim);
    const float* from = all.qkv + ((u64)row * (all.n_heads + 2 * all.shape.n_heads) + blockIdx.x * n_group) * dim;
    for (u32 query = 0; query < n_group; query += QUERIES) {
      const u32 n_queries = min(QUERIES, n_group - query);
      for (u32 i = thread; i < QUERIES * row_len / 2; i += n_threads) {
        const u32 q = i / (row_len / 2), k = i % (row_len / 2) * 2;
        const float* at = from + (query + q) * dim + k;
        const bool exists = q < n_queries && k < dim;
        const Operand both = operand(exists ? at[0] : 0.0f, exists ? at[1] : 0.0f);
        reinterpret_cast<u32*>(queries)[i] = both.high;
        reinterpret_cast<u32*>(queries)[QUERIES * row_len / 2 + i] = both.low;
      }
      __syncthreads();
      for (u32 chain = blockIdx.z + gridDim.z * warp; chain < n_chains; chain += gridDim.z * n_warps) {
        for (u32 first = 0; first < dim; first += CHANNELS)
          follow<DIM>(all, chain, row, queries, weights + warp * QUERIES * WEIGHTS_ROW, n_queries, first,
                      chains.sums + (chain * n_group + query) * dim, chains.totals + chain * n_group + query);
      }
      __syncthreads();
    }
    if (!all.partial) {
      add(all, chains, own + CHAINS * n_group * (dim + 2), row, n_chains);
      __syncthreads();
    }
  }
}

// budget: 255 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128, 2) attention_bf16(Shape all) { attention<0>(all); }
// budget: 255 registers, 0 spill
extern "C" __global__ void __launch_bounds__(128, 2) attention_128(Shape all) { attention<128>(all); }

// Grid: x over key heads, y over rows; block: (32, warps). Shared memory: [CHAINS, G].
__device__ __forceinline__ void add_all(const Shape& all) {
  DYNAMIC_SHARED(float, factors);
  for (u32 row = blockIdx.y; row < all.tokens.n_rows; row += gridDim.y) {
    add(all, partial_of(all, row), factors, row, chains_of(all, row));
    __syncthreads();
  }
}

// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) attention_add(Shape all) { add_all(all); }

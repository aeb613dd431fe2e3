// Draws of tokens, one block for each. Everything after the logits is integers and the operations of
// `cpu.rs`, so the CPU draws the same tokens. A warp owns neighbouring tokens, so its lanes read the
// weights that they wrote themselves.
#include "curve.cuh"

constexpr u32 MAX_WARPS = 32, NONE = 0xffffffffu;

struct Sample {
  float penalty, temperature;
  u32 top_k;
  // The weight of the largest logit, and the least weight that min-p keeps.
  float one;
  u32 least;
  // 1 - p of top-p, or below 0.
  double dropped;
};

// One draw.
struct Draw {
  const float* logits;
  // Bit i % 64 of word i / 64 says that token i was seen.
  const u64* seen;
  // [N], scratch.
  u32* weights;
  u64 n, bits;
};

// The token, and NONE; or the first logit that is not finite, and its number.
struct Drawn {
  u32 token, bad;
};

// Results of the warps, in two copies that take turns: one barrier orders two reductions.
struct Exchange {
  u64 of_warps[2][MAX_WARPS];
};

template <class Join>
__device__ __forceinline__ u64 reduce_warp(u64 value, const Join& join) {
#pragma unroll
  for (u32 distance = 16; distance; distance /= 2) value = join(value, shfl_xor(FULL_WARP, value, distance));
  return value;
}

// A draw as one warp sees it.
struct Part {
  Draw draw;
  Sample sample;
  Exchange* exchange;
  u32 n_warps, warp, lane, first, end, turn;

  __device__ __forceinline__ float score(u32 i) const {
    const float logit = draw.logits[i];
    if (!(draw.seen[i / 64] >> i % 64 & 1)) return logit;
    return logit < 0.0f ? logit * sample.penalty : logit / sample.penalty;
  }

  // Joins the values of all threads by an operation whose order does not matter; `none` changes nothing.
  template <class Join>
  __device__ __forceinline__ u64 reduce(u64 value, u64 none, const Join& join) {
    value = reduce_warp(value, join);
    if (lane == 0) exchange->of_warps[turn][warp] = value;
    __syncthreads();
    value = reduce_warp(lane < n_warps ? exchange->of_warps[turn][lane] : none, join);
    turn ^= 1;
    return value;
  }
  __device__ __forceinline__ u64 sum(u64 value) {
    return reduce(value, 0, [](u64 a, u64 b) { return a + b; });
  }
  __device__ __forceinline__ u64 least(u64 value) {
    return reduce(value, ~0ull, [](u64 a, u64 b) { return a < b ? a : b; });
  }
};

// Larger floats have larger keys.
__device__ __forceinline__ u32 key_of(float x) {
  const u32 bits = __float_as_uint(x);
  return bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ float of_key(u32 key) {
  return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xffffffffu));
}

// The largest number for which `holds`, which holds for 0 and for all below that number.
template <class Holds>
__device__ __forceinline__ u32 largest(const Holds& holds) {
  u32 found = 0;
  for (u32 bit = 0x80000000u; bit; bit /= 2) {
    if (holds(found | bit)) found |= bit;
  }
  return found;
}

// The K-th largest score.
__device__ __forceinline__ float least_score(Part& part) {
  return of_key(largest([&](u32 key) {
    u64 count = 0;
    for (u32 i = part.first + part.lane; i < part.end; i += 32) count += key_of(part.score(i)) >= key;
    return part.sum(count) >= part.sample.top_k;
  }));
}

// The smallest weight that top-p keeps: those below it make up at most the share that is dropped.
__device__ __forceinline__ u32 least_weight(Part& part, u64 total) {
  const u64 dropped = (u64)(part.sample.dropped * (double)total);
  return largest([&](u32 weight) {
    u64 below = 0;
    for (u32 i = part.first + part.lane; i < part.end; i += 32) {
      const u32 own = part.draw.weights[i];
      below += own < weight ? own : 0;
    }
    return part.sum(below) <= dropped;
  });
}

// Writes the weights, those that are dropped as 0, and returns the sum of the thread's own.
__device__ __forceinline__ u64 weigh(Part& part, u32 most_key) {
  const Sample sample = part.sample;
  const float most = of_key(most_key);
  const bool has_least = sample.top_k > 0 && sample.top_k < part.draw.n;
  const float least = has_least ? least_score(part) : -__int_as_float(0x7f800000);
  u64 total = 0;
  for (u32 i = part.first + part.lane; i < part.end; i += 32) {
    const float score = part.score(i);
    const float value = curve_exp((score - most) / sample.temperature) * sample.one;
    const u32 weight = score < least ? 0 : (u32)(value + 0.5f);
    part.draw.weights[i] = weight;
    total += weight;
  }
  u32 kept = sample.least;
  // The largest logit stays, whatever top-p says.
  if (sample.dropped >= 0.0) kept = max(kept, min(least_weight(part, part.sum(total)), (u32)sample.one));
  u64 sum = 0;
  for (u32 i = part.first + part.lane; i < part.end; i += 32) {
    if (part.draw.weights[i] < kept) part.draw.weights[i] = 0;
    sum += part.draw.weights[i];
  }
  return sum;
}

// The first token whose weight, together with those before it, is above `left`; for one warp.
__device__ __forceinline__ u32 find(const Part& part, u64 left) {
  for (u32 first = part.first; first < part.end; first += 32) {
    const u32 i = first + part.lane;
    u64 sum = i < part.end ? part.draw.weights[i] : 0;
#pragma unroll
    for (u32 distance = 1; distance < 32; distance *= 2) {
      const u64 other = shfl_up(FULL_WARP, sum, distance);
      if (part.lane >= distance) sum += other;
    }
    const u32 above = ballot(FULL_WARP, sum > left);
    if (above) return first + (u32)__ffs((int)above) - 1;
    left -= shfl_idx(FULL_WARP, sum, 31);
  }
  return NONE;
}

// Grid: draws; block: (32, warps), at most 32.
// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(1024, 1)
    sample_draw(const Draw* draws, Drawn* results, u32 n_draws, Sample sample) {
  __shared__ Exchange exchange;
  __shared__ u64 of_warps[MAX_WARPS];
  const u32 n_warps = blockDim.y;
  for (u32 place = blockIdx.x; place < n_draws; place += gridDim.x) {
    Part part = {draws[place], sample, &exchange, n_warps, threadIdx.y, threadIdx.x, 0, 0, 0};
    const u32 n = (u32)part.draw.n, len = (n + 32 * n_warps - 1) / (32 * n_warps) * 32;
    part.first = min(part.warp * len, n);
    part.end = min(part.first + len, n);
    u64 bad = NONE, most = 0;
    for (u32 i = part.first + part.lane; i < part.end; i += 32) {
      const float score = part.score(i);
      const bool is_finite = (__float_as_uint(score) & 0x7f800000u) != 0x7f800000u;
      if (!is_finite && i < bad) bad = i;
      // Of equal scores the first: its place counts down. -0 equals 0.
      const u64 own = (u64)key_of(score == 0.0f ? 0.0f : score) << 32 | (NONE - i);
      if (own > most) most = own;
    }
    bad = part.least(bad);
    // The largest is the least of the complements.
    most = ~part.least(~most);
    u32 token = NONE;
    bool is_own = part.warp == 0;
    if (bad != NONE) {
      token = __float_as_uint(part.score((u32)bad));
    } else if (sample.temperature == 0.0f) {
      token = NONE - (u32)most;
      for (u32 i = part.first + part.lane; i < part.end; i += 32)
        part.draw.weights[i] = i == token ? (u32)sample.one : 0;
    } else {
      const u64 own = reduce_warp(weigh(part, (u32)(most >> 32)), [](u64 a, u64 b) { return a + b; });
      if (part.lane == 0) of_warps[part.warp] = own;
      __syncthreads();
      u64 total = 0, before = 0;
      for (u32 warp = 0; warp < n_warps; warp++) {
        if (warp < part.warp) before += of_warps[warp];
        total += of_warps[warp];
      }
      const u64 left = __umul64hi(part.draw.bits, total);
      is_own = before <= left && left - before < own;
      if (is_own) token = find(part, left - before);
    }
    if (is_own && part.lane == 0) results[place] = {token, (u32)bad};
    __syncthreads();
  }
}

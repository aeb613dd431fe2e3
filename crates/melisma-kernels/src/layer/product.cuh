// Matrix products on tensor cores: Y[n, m] is what the layer makes of Σ_k W[m, k] · X[n, k].
//
// With ROUND_TF32 or ROUND_BF16 defined, factors are rounded to that format. Otherwise products are
// FP32-accurate: every factor is split into two TF32 numbers, a = big + small, and a product is
// small·big + big·small + big·big, in this order. K is cut into slices of 256. The sum of a slice
// starts from zero and grows in steps of 8, and the slices are added in order. The order of each
// sum depends only on the layer, so the three forms below (few columns, many columns, many columns
// with a short K) give the same bits.
//
// W is stored in the order in which warps read it, see `product.rs`: for a group of 32 outputs and
// a chunk of 16 of K, float4 [step 2][fragment 2][lane 32], padded with zeros. With g = lane / 4
// and t = lane % 4, fragment f of step s holds outputs 4g + 2f, 4g + 2f + 1 and k = 4t + 2s, 4t +
// 2s + 1, so a lane reads four neighbouring k of X and writes four neighbouring outputs.
//
// A layer has
//   Column column(n)            its data for column n, which may be past the last column
//   float4 fetch(column, k)     four raw inputs from k on, zero past the end
//   Constants constants(k)      the constants for four raw inputs from k on
//   float4 form(constants, raw) turns raw inputs into operands
//   Target target(n)            its data for storing column n
//   float4 base(m)              initial values of outputs m .. m + 3, which may be out of range
//   void store(target, n, m, base, sums)
//   void remember()             writes the memory; called by all threads of the grid
// and for the form with a short K
//   void fill(rows, first)      writes the operands of the 64 columns from `first` on; called by
//                               all threads of the block
//   u32 place(i, k)             the offset of the operands of column `first` + i from k on
#pragma once
#include "step.cuh"

constexpr u32 CHUNK_K = 16, SLICE_CHUNKS = 16, GROUP_M = 32, CHUNK_FRAGMENTS = 128;
constexpr int AHEAD = 4;
// Columns per block in the many-column forms; floats between the rows of `product_short` beyond K,
// which put the lanes of a read in different banks.
constexpr u32 TILE = 64, ROW_GAP = 16;

struct Factors {
  const float4* weights;
  u32 n_columns, n_chunks, n_groups;
};

#if defined(ROUND_BF16)

// Two neighbouring k.
typedef u32 Operand;
__device__ __forceinline__ Operand operand(float a, float b) { return pack_bf16(a, b); }

template <int N>
__device__ __forceinline__ void multiply(float (&sums)[2][N][4], const float4 (&weights)[2],
                                         const Operand (&operands)[N]) {
#pragma unroll
  for (int f = 0; f < 2; f++) {
    const float4 w = weights[f];
    const u32 a[2] = {pack_bf16(w.x, w.z), pack_bf16(w.y, w.w)};
#pragma unroll
    for (int n = 0; n < N; n++) mma_bf16_k8(sums[f][n], a, operands[n]);
  }
}

#elif defined(ROUND_TF32)

typedef uint2 Operand;
__device__ __forceinline__ Operand operand(float a, float b) { return make_uint2(f32_to_tf32(a), f32_to_tf32(b)); }

template <int N>
__device__ __forceinline__ void multiply(float (&sums)[2][N][4], const float4 (&weights)[2],
                                         const Operand (&operands)[N]) {
#pragma unroll
  for (int f = 0; f < 2; f++) {
    const float4 w = weights[f];
    const u32 a[4] = {__float_as_uint(w.x), __float_as_uint(w.y), __float_as_uint(w.z), __float_as_uint(w.w)};
#pragma unroll
    for (int n = 0; n < N; n++) {
      const u32 b[2] = {operands[n].x, operands[n].y};
      mma_tf32(sums[f][n], a, b);
    }
  }
}

#else

// Big parts in x and y, small ones in z and w.
typedef uint4 Operand;

struct Fragment {
  u32 big[4], small[4];
};

// The nearest TF32 number. A carry into the exponent is correct.
__device__ __forceinline__ u32 big_part(float x) { return (__float_as_uint(x) + 0x1000u) & 0xffffe000u; }
// The exact remainder. Tensor cores truncate what TF32 does not hold, at most 2^-21 of x. A NaN
// stays NaN here, whatever the rounding made of its big part.
__device__ __forceinline__ u32 small_part(float x, u32 big) { return __float_as_uint(x - __uint_as_float(big)); }

__device__ __forceinline__ Fragment split_weights(float4 w) {
  const float values[4] = {w.x, w.y, w.z, w.w};
  Fragment fragment;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    fragment.big[i] = big_part(values[i]);
    fragment.small[i] = small_part(values[i], fragment.big[i]);
  }
  return fragment;
}

__device__ __forceinline__ Operand operand(float a, float b) {
  const u32 big_a = big_part(a), big_b = big_part(b);
  return make_uint4(big_a, big_b, small_part(a, big_a), small_part(b, big_b));
}

// Multiplies two fragments of weights with N fragments of operands, in rounds that keep
// neighbouring instructions independent.
template <int N>
__device__ __forceinline__ void multiply(float (&sums)[2][N][4], const float4 (&weights)[2],
                                         const Operand (&operands)[N]) {
  const Fragment a[2] = {split_weights(weights[0]), split_weights(weights[1])};
#pragma unroll
  for (int round = 0; round < 3; round++) {
#pragma unroll
    for (int n = 0; n < N; n++) {
      const u32 big[2] = {operands[n].x, operands[n].y}, small[2] = {operands[n].z, operands[n].w};
#pragma unroll
      for (int f = 0; f < 2; f++) mma_tf32(sums[f][n], round == 0 ? a[f].small : a[f].big, round == 1 ? small : big);
    }
  }
}

#endif

template <int N>
__device__ __forceinline__ void clear(float (&sums)[2][N][4]) {
#pragma unroll
  for (int i = 0; i < 8 * N; i++) sums[i / (4 * N)][i / 4 % N][i % 4] = 0.0f;
}

template <int N>
__device__ __forceinline__ void add(float (&totals)[2][N][4], const float (&sums)[2][N][4]) {
#pragma unroll
  for (int i = 0; i < 8 * N; i++) totals[i / (4 * N)][i / 4 % N][i % 4] += sums[i / (4 * N)][i / 4 % N][i % 4];
}

// `targets(i)` is the target of column `first` + i.
template <int N, class Layer, class Targets>
__device__ __forceinline__ void store(const Layer& layer, u32 n_columns, u32 first, u32 group,
                                      const float (&totals)[2][N][4], const Targets& targets) {
  const u32 g = lane_id() / 4, t = lane_id() % 4, m = GROUP_M * group + 4 * g;
  const float4 base = layer.base(m);
#pragma unroll
  for (int n = 0; n < N; n++) {
#pragma unroll
    for (int c = 0; c < 2; c++) {
      const u32 i = 8 * n + 2 * t + c;
      const float4 sums = make_float4(totals[0][n][c], totals[0][n][c + 2], totals[1][n][c], totals[1][n][c + 2]);
      if (first + i < n_columns) layer.store(targets(i), first + i, m, base, sums);
    }
  }
}

// Few columns: a warp computes 32 outputs of 8 columns over one slice of K after another, and a
// block has as many warps per group as it has parts of K. Operands go from memory to registers: a
// lane loads its own fragments. grid: (columns / 8, groups / groups of a block), block: (32, parts,
// groups), dynamic shared memory: 1 KiB for each slice and group of the block.
template <class Layer>
__device__ __forceinline__ void product_few(const Layer& layer, const Factors& factors) {
  DYNAMIC_SHARED(float4, partial);
  const u32 lane = threadIdx.x, g = lane / 4, t = lane % 4;
  const u32 n_slices = (factors.n_chunks + SLICE_CHUNKS - 1) / SLICE_CHUNKS;
  const u32 group = blockIdx.y * blockDim.z + threadIdx.z;
  const float4* weights =
      factors.weights + (u64)min(group, factors.n_groups - 1) * factors.n_chunks * CHUNK_FRAGMENTS + lane;
  const auto column = layer.column(blockIdx.x * 8 + g);
  for (u32 slice = threadIdx.y; slice < n_slices; slice += blockDim.y) {
    const u32 last = min((slice + 1) * SLICE_CHUNKS, factors.n_chunks);
    float sums[2][1][4];
    clear(sums);
    float4 w[AHEAD][2][2], raw[AHEAD];
    const auto read = [&](int slot, u32 chunk) {
      if (chunk >= last) return;
#pragma unroll
      for (int i = 0; i < 4; i++) w[slot][i / 2][i % 2] = __ldg(weights + (u64)chunk * CHUNK_FRAGMENTS + 32 * i);
      raw[slot] = layer.fetch(column, CHUNK_K * chunk + 4 * t);
    };
#pragma unroll
    for (int slot = 0; slot < AHEAD; slot++) read(slot, slice * SLICE_CHUNKS + slot);
    for (u32 chunk = slice * SLICE_CHUNKS; chunk < last; chunk += AHEAD) {
#pragma unroll
      for (int slot = 0; slot < AHEAD; slot++) {
        if (chunk + slot >= last) break;
        const float4 x = layer.form(layer.constants(CHUNK_K * (chunk + slot) + 4 * t), raw[slot]);
        const Operand first[1] = {operand(x.x, x.y)}, second[1] = {operand(x.z, x.w)};
        multiply(sums, w[slot][0], first);
        multiply(sums, w[slot][1], second);
        read(slot, chunk + slot + AHEAD);
      }
    }
    float4* to = partial + ((u64)threadIdx.z * n_slices + slice) * 64 + lane;
    to[0] = make_float4(sums[0][0][0], sums[0][0][1], sums[0][0][2], sums[0][0][3]);
    to[32] = make_float4(sums[1][0][0], sums[1][0][1], sums[1][0][2], sums[1][0][3]);
  }
  __syncthreads();
  if (threadIdx.y == 0 && group < factors.n_groups) {
    float totals[2][1][4];
    clear(totals);
    for (u32 slice = 0; slice < n_slices; slice++) {
      const float4* from = partial + ((u64)threadIdx.z * n_slices + slice) * 64 + lane;
      const float4 a = from[0], b = from[32];
      const float sums[2][1][4] = {{{a.x, a.y, a.z, a.w}}, {{b.x, b.y, b.z, b.w}}};
      add(totals, sums);
    }
    const u32 start = blockIdx.x * 8;
    store(layer, factors.n_columns, start, group, totals, [&](u32 i) { return layer.target(start + i); });
  }
  layer.remember();
}

// Many columns: a block of 8 warps computes 32 · WARPS_M outputs of 64 columns. Between the
// products of one chunk, all threads form the operands of the next chunk in shared memory, in the
// order in which a warp reads them. Their inputs are loaded one chunk ahead.
template <int WARPS_M, class Layer>
__device__ __forceinline__ void product_many(const Layer& layer, const Factors& factors) {
  constexpr int N = WARPS_M;  // 8 / WARPS_M warps of N fragments of 8 columns each make 64 columns
  __shared__ Operand operands[2][2][8][32];
  __shared__ typename Layer::Target targets[TILE];
  const u32 lane = lane_id(), warp = threadIdx.x / 32, last = factors.n_chunks - 1;
  const u32 warp_n = warp / WARPS_M, group = blockIdx.y * WARPS_M + warp % WARPS_M;
  const float4* weights =
      factors.weights + (u64)min(group, factors.n_groups - 1) * factors.n_chunks * CHUNK_FRAGMENTS + lane;
  const u32 first = blockIdx.x * TILE, own_k = 4 * (lane % 4);
  if (threadIdx.x < TILE && first + threadIdx.x < factors.n_columns)
    targets[threadIdx.x] = layer.target(first + threadIdx.x);
  const auto column = layer.column(first + threadIdx.x / 4);
  // Past the end, the last chunk is fetched again and never multiplied.
  const auto fetch = [&](u32 chunk) { return layer.fetch(column, CHUNK_K * min(chunk, last) + own_k); };
  const auto constants = [&](u32 chunk) { return layer.constants(CHUNK_K * min(chunk, last) + own_k); };
  const auto put = [&](u32 chunk, const typename Layer::Constants& constants, float4 raw) {
    const float4 x = layer.form(constants, raw);
    operands[chunk % 2][0][warp][lane] = operand(x.x, x.y);
    operands[chunk % 2][1][warp][lane] = operand(x.z, x.w);
  };
  float4 next_w[2];
  const auto read = [&](u32 step) {
    next_w[0] = __ldg(weights + (u64)step * 64);
    next_w[1] = __ldg(weights + (u64)step * 64 + 32);
  };
  float sums[2][N][4], totals[2][N][4];
  clear(sums);
  clear(totals);
  read(0);
  put(0, constants(0), fetch(0));
  float4 next = fetch(1);
  __syncthreads();
  for (u32 chunk = 0; chunk <= last; chunk++) {
    const auto next_constants = constants(chunk + 1);
    const float4 later = fetch(chunk + 2);
#pragma unroll
    for (int step = 0; step < 2; step++) {
      const float4 w[2] = {next_w[0], next_w[1]};
      read(min(2 * chunk + step + 1, 2 * last + 1));
      Operand x[N];
#pragma unroll
      for (int n = 0; n < N; n++) x[n] = operands[chunk % 2][step][warp_n * N + n][lane];
      multiply(sums, w, x);
      if (step == 0) put(chunk + 1, next_constants, next);
    }
    if (chunk % SLICE_CHUNKS == SLICE_CHUNKS - 1 || chunk == last) {
      add(totals, sums);
      clear(sums);
    }
    next = later;
    __syncthreads();
  }
  const u32 own = warp_n * N * 8;
  if (group < factors.n_groups) {
    store(layer, factors.n_columns, first + own, group, totals, [&](u32 i) { return targets[own + i]; });
  }
  layer.remember();
}

// Many columns, short K: as above, but the operands of all K are in shared memory before the first
// product. They are made once for all outputs of the block, and after that no warp waits for
// another. Dynamic shared memory: what `fill` writes.
template <int WARPS_M, class Layer>
__device__ __forceinline__ void product_short(const Layer& layer, const Factors& factors) {
  constexpr int N = WARPS_M;
  DYNAMIC_SHARED(float, rows);
  __shared__ typename Layer::Target targets[TILE];
  const u32 lane = lane_id(), g = lane / 4, t = lane % 4, warp = threadIdx.x / 32, last = 2 * factors.n_chunks - 1;
  const u32 warp_n = warp / WARPS_M, group = blockIdx.y * WARPS_M + warp % WARPS_M;
  const float4* weights =
      factors.weights + (u64)min(group, factors.n_groups - 1) * factors.n_chunks * CHUNK_FRAGMENTS + lane;
  const u32 first = blockIdx.x * TILE, own = warp_n * N * 8;
  if (threadIdx.x < TILE && first + threadIdx.x < factors.n_columns)
    targets[threadIdx.x] = layer.target(first + threadIdx.x);
  float4 next_w[2] = {__ldg(weights), __ldg(weights + 32)};
  layer.fill(rows, first);
  __syncthreads();
  float sums[2][N][4], totals[2][N][4];
  clear(sums);
  clear(totals);
  for (u32 chunk = 0; chunk < factors.n_chunks; chunk++) {
    float4 x[N];
#pragma unroll
    for (int n = 0; n < N; n++)
      x[n] = *reinterpret_cast<const float4*>(rows + layer.place(own + 8 * n + g, CHUNK_K * chunk + 4 * t));
#pragma unroll
    for (int step = 0; step < 2; step++) {
      const float4 w[2] = {next_w[0], next_w[1]};
      const u32 next = min(2 * chunk + step + 1, last);
      next_w[0] = __ldg(weights + (u64)next * 64);
      next_w[1] = __ldg(weights + (u64)next * 64 + 32);
      Operand operands[N];
#pragma unroll
      for (int n = 0; n < N; n++) operands[n] = step == 0 ? operand(x[n].x, x[n].y) : operand(x[n].z, x[n].w);
      multiply(sums, w, operands);
    }
    if (chunk % SLICE_CHUNKS == SLICE_CHUNKS - 1 || chunk + 1 == factors.n_chunks) {
      add(totals, sums);
      clear(sums);
    }
  }
  if (group < factors.n_groups) {
    store(layer, factors.n_columns, first + own, group, totals, [&](u32 i) { return targets[own + i]; });
  }
  layer.remember();
}

// The kernels NAME_few, NAME_wide, NAME_tall, NAME_short_wide and NAME_short_tall of a layer; SHORT
// is the layer type of the two short kernels, which form their operands themselves.
#define PRODUCT_KERNELS(NAME, LAYER, SHORT)                                                              \
  extern "C" __global__ void __launch_bounds__(256) NAME##_few(Shape shape, Factors factors) {           \
    product_few(LAYER(shape), factors);                                                                  \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 2) NAME##_wide(Shape shape, Factors factors) {       \
    product_many<2>(LAYER(shape), factors);                                                              \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 2) NAME##_tall(Shape shape, Factors factors) {       \
    product_many<4>(LAYER(shape), factors);                                                              \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 3) NAME##_short_wide(Shape shape, Factors factors) { \
    product_short<2>(SHORT(shape), factors);                                                             \
  }                                                                                                      \
  extern "C" __global__ void __launch_bounds__(256, 2) NAME##_short_tall(Shape shape, Factors factors) { \
    product_short<4>(SHORT(shape), factors);                                                             \
  }

// y[r, o] = what Finish makes of Σ_k w[o, k] · x[r, k], on tensor cores. Weights are BF16; a number
// of x is split into two BF16 numbers, x = high + low, so a product errs by 2^-17 at most; or it is
// rounded to one, and there is no low.
//
// K is cut into chunks of 32, and these into 8 parts of equally many chunks. The sum of a part
// starts from zero and grows by 16 of K at a time, low before high, and the parts are added in
// order. So the order of a sum depends on K alone, and the forms below give the same bits.
//
// A lane reads 8 neighbouring k of a row, 16 bytes of weights: for the chunk's first product its
// k are the first four of these, for the second the last four. `device.cuh` shows the fragments.
//
// All operands go through shared memory. Few rows: a warp has a part. Many rows: x is split or rounded
// once, beforehand, and a block has one or more parts.
#include "halves.cuh"

constexpr u32 PARTS = 8, CHUNK = 32;
// Floats between the rows of a part's sums, which put the lanes of a store in different banks.
constexpr u32 SUMS_ROW = 20;

enum Finish { REPLACE, ADD, SCALE };

struct Shape {
  // [O, K]
  const u16* w;
  // [R, K]
  const float* x;
  // [R, O]
  float* y;
  u32 n_rows, n_outputs, k, finish;
  float factor;
};

__device__ __forceinline__ void store(float* y, float sum, u32 finish, float factor) {
  *y = finish == ADD ? *y + sum : finish == SCALE ? sum * factor : sum;
}

// A block computes 16 M outputs of 8 N rows; warp p sums part p of K. Each warp has stages of its own in
// shared memory, two chunks of weights and x each, so that it waits for no other.
// Blocks of the same outputs are neighbours, so their weights are read from memory once.
// grid: (rows / 8 N, outputs / 16 M), block: (32, 8).
template <bool ROUNDED, int M, int N, int STAGES>
__device__ __forceinline__ void product(const Shape& shape) {
  constexpr u32 PAIR = 2 * CHUNK, W = 16 * M * 8, X = 8 * N * 16, STAGE = W + X;
  DYNAMIC_SHARED(uint4, shared);
  const u32 lane = threadIdx.x, g = lane / 4, t = lane % 4, part = threadIdx.y, n_k = shape.k;
  const u32 first_output = blockIdx.y * 16 * M, first_row = blockIdx.x * 8 * N;
  const u32 n_chunks = (n_k + CHUNK - 1) / CHUNK, per_part = (n_chunks + PARTS - 1) / PARTS;
  const u32 begin = min(n_k, CHUNK * part * per_part), end = min(n_k, begin + CHUNK * per_part);
  const u32 n_pairs = (end - begin + PAIR - 1) / PAIR;
  uint4* stages = shared + part * STAGES * STAGE;
  const u16* w = shape.w + (u64)first_output * n_k;
  const float* x = shape.x + (u64)first_row * n_k;

  // Weights chunk after chunk, of each the rows, of each four times 16 bytes. Then x chunk after chunk, of each
  // the rows, of each eight times 16 bytes; odd rows have each two of them the other way round, so that eight
  // lanes read all banks.
  const auto read = [&](u32 pair) {
    if (pair < n_pairs) {
      const u32 k = begin + PAIR * pair + 8 * (lane % 8), of_x = begin + PAIR * pair + 4 * (lane % 16);
      uint4* stage = stages + pair % STAGES * STAGE;
      uint4* to = stage + lane % 8 / 4 * (W / 2) + lane % 4;
#pragma unroll
      for (u32 i = 0; i < 4 * M; i++) {
        const u32 row = 4 * i + lane / 8;
        const bool exists = first_output + row < shape.n_outputs && k < end;
        cp_async_16(to + 4 * row, exists ? w + (u64)row * n_k + k : shape.w, exists ? 16 : 0);
      }
      to = stage + W + lane % 16 / 8 * (X / 2) + (lane % 8 ^ lane / 16);
#pragma unroll
      for (u32 i = 0; i < 4 * N; i++) {
        const u32 row = 2 * i + lane / 16;
        const bool exists = first_row + row < shape.n_rows && of_x < end;
        cp_async_16(to + 8 * row, exists ? x + (u64)row * n_k + of_x : shape.x, exists ? 16 : 0);
      }
    }
    cp_async_commit();
  };

#pragma unroll
  for (u32 pair = 0; pair + 1 < STAGES; pair++) read(pair);
  float sums[M][N][4];
#pragma unroll
  for (int i = 0; i < 4 * M * N; i++) sums[i / (4 * N)][i / 4 % N][i % 4] = 0.0f;
  for (u32 pair = 0; pair < n_pairs; pair++) {
    cp_async_wait<STAGES - 2>();
    sync_warp();
    read(pair + STAGES - 1);
    const uint4* stage = stages + pair % STAGES * STAGE;
#pragma unroll
    for (u32 chunk = 0; chunk < 2; chunk++) {
      uint4 weights[M][2];
#pragma unroll
      for (u32 i = 0; i < 2 * M; i++) weights[i / 2][i % 2] = stage[chunk * (W / 2) + 4 * (8 * i + g) + t];
#pragma unroll
      for (u32 n = 0; n < N; n++) {
        const float4* row = reinterpret_cast<const float4*>(stage + W + chunk * (X / 2) + 8 * (8 * n + g) + 2 * t);
        const float4 a = row[g % 2], b = row[1 - g % 2];
        const Operand operands[4] = {operand(a.x, a.y), operand(a.z, a.w), operand(b.x, b.y), operand(b.z, b.w)};
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const u32 low[2] = {operands[2 * half].low, operands[2 * half + 1].low};
          const u32 high[2] = {operands[2 * half].high, operands[2 * half + 1].high};
#pragma unroll
          for (int m = 0; m < M; m++) {
            const uint4 upper = weights[m][0], lower = weights[m][1];
            const u32 fragment[4] = {half ? upper.z : upper.x, half ? lower.z : lower.x, half ? upper.w : upper.y,
                                     half ? lower.w : lower.y};
            if (!ROUNDED) mma_bf16(sums[m][n], fragment, low);
            mma_bf16(sums[m][n], fragment, high);
          }
        }
      }
    }
  }

  __syncthreads();
  // [PARTS, 8 N, SUMS_ROW], over the stages.
  float* partial = reinterpret_cast<float*>(shared);
#pragma unroll
  for (int m = 0; m < M; m++) {
    if (m > 0) __syncthreads();
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++)
        partial[(part * 8 * N + 8 * n + 2 * t + i % 2) * SUMS_ROW + g + i / 2 * 8] = sums[m][n][i];
    }
    __syncthreads();
    for (u32 i = 32 * part + lane; i < 16 * 8 * N; i += 32 * PARTS) {
      const u32 row = i / 16, output = i % 16;
      if (first_row + row >= shape.n_rows || first_output + 16 * m + output >= shape.n_outputs) continue;
      float sum = 0.0f;
#pragma unroll
      for (u32 p = 0; p < PARTS; p++) sum += partial[(p * 8 * N + row) * SUMS_ROW + output];
      float* y = shape.y + (u64)(first_row + row) * shape.n_outputs + first_output + 16 * m + output;
      store(y, sum, shape.finish, shape.factor);
    }
  }
}

// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_8(Shape shape) { product<false, 1, 1, 3>(shape); }
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_8_rounded(Shape shape) { product<true, 1, 1, 3>(shape); }
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_16(Shape shape) { product<false, 1, 2, 2>(shape); }
// budget: 112 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_16_rounded(Shape shape) { product<true, 1, 2, 2>(shape); }

// What the forms for many rows work on.
struct Many {
  // [O, K]
  const u16* w;
  // [2, R, K]: the high parts, then the low ones; rounded, [R, K].
  const u16* x;
  // [R, O]
  float* y;
  // [parts, R, O], if a block has some of the parts only.
  float* partial;
  u32 n_rows, n_outputs, k, finish;
  float factor;
};

// [R, K] in f32 becomes [2, R, K] in bf16, or rounded [R, K]. Grid: shared, block: 256; eight numbers a thread.
template <bool ROUNDED>
__device__ __forceinline__ void split(const float* x, u16* parts, u64 n) {
  for (u64 i = 8 * ((u64)blockIdx.x * 256 + threadIdx.x); i < n; i += 8 * 256 * (u64)gridDim.x) {
    const float4 a = *reinterpret_cast<const float4*>(x + i), b = *reinterpret_cast<const float4*>(x + i + 4);
    const Operand all[4] = {operand(a.x, a.y), operand(a.z, a.w), operand(b.x, b.y), operand(b.z, b.w)};
    *reinterpret_cast<uint4*>(parts + i) = make_uint4(all[0].high, all[1].high, all[2].high, all[3].high);
    if (!ROUNDED)
      *reinterpret_cast<uint4*>(parts + n + i) = make_uint4(all[0].low, all[1].low, all[2].low, all[3].low);
  }
}

// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_split(const float* x, u16* parts, u64 n) {
  split<false>(x, parts, n);
}
// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_round(const float* x, u16* parts, u64 n) {
  split<true>(x, parts, n);
}

// A block computes 64 OUTS outputs of 32 ROWS rows, and PARTS / gridDim.z parts of K one after the other;
// a warp computes 32 OUTS outputs of 8 ROWS rows. All stages but one are on their way to shared memory while
// one, of two chunks, is used; a row of a chunk has 64 bytes, so eight lanes read all banks.
// grid: (rows / 32 ROWS, outputs / 64 OUTS, parts of K), block: 256.
template <bool ROUNDED, u32 OUTS, u32 ROWS, u32 STAGES>
__device__ __forceinline__ void product_many(const Many& many) {
  constexpr u32 OUTPUTS = 64 * OUTS, N_ROWS = 32 * ROWS, M = 2 * OUTS, N = ROWS;
  // Of weights, of high and of low parts, each with two chunks.
  constexpr u32 OF_W = 4 * OUTPUTS, OF_X = 4 * N_ROWS, X_PARTS = ROUNDED ? 1 : 2, STAGE = 2 * (OF_W + X_PARTS * OF_X);
  DYNAMIC_SHARED(uint4, shared);
  const u32 thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4, n_k = many.k;
  const u32 warp_output = thread / 32 % 2 * 32 * OUTS, warp_row = thread / 64 * 8 * N;
  const u32 first_output = blockIdx.y * OUTPUTS, first_row = blockIdx.x * N_ROWS;
  const u32 n_chunks = (n_k + CHUNK - 1) / CHUNK, per_part = (n_chunks + PARTS - 1) / PARTS;
  const u32 n_parts = PARTS / gridDim.z, first_part = blockIdx.z * n_parts;
  const u32 begin = min(first_part * per_part, n_chunks), end = min((first_part + n_parts) * per_part, n_chunks);
  const u32 n_pairs = (end - begin + 1) / 2;

  // Eight threads load a row's 128 bytes of both chunks.
  const u32 row = thread / 8, chunk_of = thread % 8 / 4, piece = thread % 4;
  const auto fetch = [&](u32 pair) {
    if (pair < n_pairs) {
      const u32 chunk = begin + 2 * pair + chunk_of, at = CHUNK * chunk + 8 * piece;
      const bool has_k = chunk < end && at < n_k;
      uint4* stage = shared + pair % STAGES * STAGE;
      uint4* to = stage + chunk_of * OF_W + 4 * row + piece;
#pragma unroll
      for (u32 i = 0; i < OUTPUTS / 32; i++) {
        const u32 output = first_output + row + 32 * i;
        const bool exists = has_k && output < many.n_outputs;
        cp_async_16(to + 128 * i, exists ? many.w + (u64)output * n_k + at : many.w, exists ? 16 : 0);
      }
      to = stage + 2 * OF_W + chunk_of * OF_X + 4 * row + piece;
#pragma unroll
      for (u32 i = 0; i < X_PARTS * ROWS; i++) {
        const u32 low = i / ROWS, own = first_row + row + 32 * (i % ROWS);
        const bool exists = has_k && own < many.n_rows;
        const u16* from = many.x + ((u64)low * many.n_rows + own) * n_k + at;
        cp_async_16(to + low * 2 * OF_X + 128 * (i % ROWS), exists ? from : many.w, exists ? 16 : 0);
      }
    }
    cp_async_commit();
  };

#pragma unroll
  for (u32 pair = 0; pair + 1 < STAGES; pair++) fetch(pair);
  float sums[M][N][4], totals[M][N][4];
#pragma unroll
  for (u32 i = 0; i < 4 * M * N; i++) sums[i / (4 * N)][i / 4 % N][i % 4] = totals[i / (4 * N)][i / 4 % N][i % 4] = 0.0f;
  u32 left = per_part, part = first_part;
  for (u32 pair = 0; pair < n_pairs; pair++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    fetch(pair + STAGES - 1);
#pragma unroll
    for (u32 chunk = 0; chunk < 2; chunk++) {
      const uint4* of_w = shared + pair % STAGES * STAGE + chunk * OF_W + t;
      const uint4* of_x = shared + pair % STAGES * STAGE + 2 * OF_W + chunk * OF_X + t;
      uint4 weights[M][2], high[N], low[N];
#pragma unroll
      for (u32 i = 0; i < 2 * M; i++) weights[i / 2][i % 2] = of_w[4 * (warp_output + 8 * i + g)];
#pragma unroll
      for (u32 n = 0; n < N; n++) {
        high[n] = of_x[4 * (warp_row + 8 * n + g)];
        if (!ROUNDED) low[n] = of_x[2 * OF_X + 4 * (warp_row + 8 * n + g)];
      }
#pragma unroll
      for (u32 step = 0; step < 4; step++) {
        const bool second = step / 2;
        if (ROUNDED && step % 2 == 0) continue;
#pragma unroll
        for (u32 n = 0; n < N; n++) {
          const uint4 part_of_x = step % 2 ? high[n] : low[n];
          const u32 b[2] = {second ? part_of_x.z : part_of_x.x, second ? part_of_x.w : part_of_x.y};
#pragma unroll
          for (u32 m = 0; m < M; m++) {
            const uint4 upper = weights[m][0], lower = weights[m][1];
            const u32 a[4] = {second ? upper.z : upper.x, second ? lower.z : lower.x, second ? upper.w : upper.y,
                              second ? lower.w : lower.y};
            mma_bf16(sums[m][n], a, b);
          }
        }
      }
      if (begin + 2 * pair + chunk >= end || (--left > 0 && begin + 2 * pair + chunk + 1 < end)) continue;
#pragma unroll
      for (u32 i = 0; i < 4 * M * N; i++) {
        const u32 m = i / (4 * N), n = i / 4 % N;
        float& sum = sums[m][n][i % 4];
        if (gridDim.z == 1) {
          totals[m][n][i % 4] += sum;
        } else {
          const u32 row = first_row + warp_row + 8 * n + 2 * t + i % 2;
          const u32 output = first_output + warp_output + 16 * m + g + i % 4 / 2 * 8;
          if (row < many.n_rows && output < many.n_outputs)
            many.partial[((u64)part * many.n_rows + row) * many.n_outputs + output] = sum;
        }
        sum = 0.0f;
      }
      left = per_part;
      part++;
    }
  }
  if (gridDim.z > 1) return;
#pragma unroll
  for (u32 i = 0; i < 4 * M * N; i++) {
    const u32 m = i / (4 * N), n = i / 4 % N;
    const u32 row = first_row + warp_row + 8 * n + 2 * t + i % 2;
    const u32 output = first_output + warp_output + 16 * m + g + i % 4 / 2 * 8;
    if (row < many.n_rows && output < many.n_outputs)
      store(many.y + (u64)row * many.n_outputs + output, totals[m][n][i % 4], many.finish, many.factor);
  }
}

// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) product_64(Many many) { product_many<false, 1, 2, 3>(many); }
// budget: 255 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_128(Many many) { product_many<false, 2, 4, 3>(many); }
// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) product_64_rounded(Many many) {
  product_many<true, 1, 2, 3>(many);
}
// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) product_128_rounded(Many many) {
  product_many<true, 1, 4, 3>(many);
}

// Adds the parts in order. Grid: shared, block: 256.
// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_add(Many many) {
  const u32 n_chunks = (many.k + CHUNK - 1) / CHUNK, per_part = (n_chunks + PARTS - 1) / PARTS;
  const u32 n_parts = (n_chunks + per_part - 1) / per_part;
  const u64 n = (u64)many.n_rows * many.n_outputs;
  for (u64 i = (u64)blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * (u64)gridDim.x) {
    float sum = 0.0f;
    for (u32 part = 0; part < n_parts; part++) sum += many.partial[part * n + i];
    store(many.y + i, sum, many.finish, many.factor);
  }
}

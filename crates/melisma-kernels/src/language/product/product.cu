// y[r, o] = what Finish makes of Σ_k w[o, k] · x[r, k], on tensor cores. Weights are BF16; a number
// of x is split into two BF16 numbers, x = high + low, so a product errs by 2^-17 at most.
//
// K is cut into chunks of 32, and these into 8 parts of equally many chunks. The sum of a part
// starts from zero and grows by 16 of K at a time, low before high, and the parts are added in
// order. So the order of a sum depends on K alone, and the forms below give the same bits.
//
// A lane reads 8 neighbouring k of a row, 16 bytes of weights: for the chunk's first product its
// k are the first four of these, for the second the last four. `device.cuh` shows the fragments.
//
// Few rows: a warp has a part, and weights go from memory to registers. Many rows: x is split once,
// beforehand, and tiles of it and of the weights go through shared memory.
#include "device.cuh"

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

// Eight neighbouring numbers of a row of x.
struct Eight {
  float4 a, b;
};

// Two neighbouring k of a row, both of its parts.
struct Operand {
  u32 high, low;
};

__device__ __forceinline__ Operand operand(float a, float b) {
  const u32 high = pack_bf16(a, b);
  return {high, pack_bf16(a - __uint_as_float(high << 16), b - __uint_as_float(high & 0xffff0000u))};
}

__device__ __forceinline__ void store(float* y, float sum, u32 finish, float factor) {
  *y = finish == ADD ? *y + sum : finish == SCALE ? sum * factor : sum;
}

// A block computes 16 M outputs of 8 N rows; warp p sums part p of K. AHEAD chunks of weights are in
// flight. Blocks of the same outputs are neighbours, so their weights are read from memory once.
// grid: (rows / 8 N, outputs / 16 M), block: (32, 8).
template <int M, int N, int AHEAD>
__device__ __forceinline__ void product(const Shape& shape) {
  __shared__ float partial[PARTS][8 * N * SUMS_ROW];
  const u32 lane = threadIdx.x, g = lane / 4, t = lane % 4, part = threadIdx.y, n_k = shape.k;
  const u32 first_output = blockIdx.y * 16 * M, first_row = blockIdx.x * 8 * N;
  const u32 n_chunks = (n_k + CHUNK - 1) / CHUNK, per_part = (n_chunks + PARTS - 1) / PARTS;
  const u32 begin = min(part * per_part, n_chunks), end = min(begin + per_part, n_chunks);
  const u16* w = shape.w + (u64)(first_output + g) * n_k + 8 * t;
  const float* x = shape.x + (u64)(first_row + g) * n_k + 8 * t;

  float sums[M][N][4];
#pragma unroll
  for (int i = 0; i < 4 * M * N; i++) sums[i / (4 * N)][i / 4 % N][i % 4] = 0.0f;
  uint4 weights[AHEAD][M][2];
  const auto read = [&](int slot, u32 chunk) {
    if (chunk >= end) return;
    const u32 at = CHUNK * chunk;
#pragma unroll
    for (int i = 0; i < 2 * M; i++) {
      const bool exists = first_output + g + 8 * i < shape.n_outputs && at + 8 * t < n_k;
      weights[slot][i / 2][i % 2] =
          exists ? load_streaming(reinterpret_cast<const uint4*>(w + (u64)(8 * i) * n_k + at)) : make_uint4(0, 0, 0, 0);
    }
  };
#pragma unroll
  for (int slot = 0; slot < AHEAD; slot++) read(slot, begin + slot);
  for (u32 chunk = begin; chunk < end; chunk += AHEAD) {
#pragma unroll
    for (int slot = 0; slot < AHEAD; slot++) {
      if (chunk + slot >= end) break;
      const u32 at = CHUNK * (chunk + slot);
      Eight rows[N];
#pragma unroll
      for (int n = 0; n < N; n++) {
        const bool exists = first_row + 8 * n + g < shape.n_rows && at + 8 * t < n_k;
        const float4* from = reinterpret_cast<const float4*>(x + (u64)(8 * n) * n_k + at);
        const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        rows[n] = {exists ? from[0] : none, exists ? from[1] : none};
      }
#pragma unroll
      for (int n = 0; n < N; n++) {
        const float4 a = rows[n].a, b = rows[n].b;
        const Operand operands[4] = {operand(a.x, a.y), operand(a.z, a.w), operand(b.x, b.y), operand(b.z, b.w)};
#pragma unroll
        for (int half = 0; half < 2; half++) {
          const u32 low[2] = {operands[2 * half].low, operands[2 * half + 1].low};
          const u32 high[2] = {operands[2 * half].high, operands[2 * half + 1].high};
#pragma unroll
          for (int m = 0; m < M; m++) {
            const uint4 upper = weights[slot][m][0], lower = weights[slot][m][1];
            const u32 fragment[4] = {half ? upper.z : upper.x, half ? lower.z : lower.x, half ? upper.w : upper.y,
                                     half ? lower.w : lower.y};
            mma_bf16(sums[m][n], fragment, low);
            mma_bf16(sums[m][n], fragment, high);
          }
        }
      }
      read(slot, chunk + slot + AHEAD);
    }
  }

#pragma unroll
  for (int m = 0; m < M; m++) {
    if (m > 0) __syncthreads();
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
      for (int i = 0; i < 4; i++) partial[part][(8 * n + 2 * t + i % 2) * SUMS_ROW + g + i / 2 * 8] = sums[m][n][i];
    }
    __syncthreads();
    for (u32 i = 32 * part + lane; i < 16 * 8 * N; i += 32 * PARTS) {
      const u32 row = i / 16, output = i % 16;
      if (first_row + row >= shape.n_rows || first_output + 16 * m + output >= shape.n_outputs) continue;
      float sum = 0.0f;
#pragma unroll
      for (u32 p = 0; p < PARTS; p++) sum += partial[p][row * SUMS_ROW + output];
      float* y = shape.y + (u64)(first_row + row) * shape.n_outputs + first_output + 16 * m + output;
      store(y, sum, shape.finish, shape.factor);
    }
  }
}

// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_1x1(Shape shape) { product<1, 1, 4>(shape); }
extern "C" __global__ void __launch_bounds__(256) product_2x1(Shape shape) { product<2, 1, 4>(shape); }
extern "C" __global__ void __launch_bounds__(256) product_2x2(Shape shape) { product<2, 2, 4>(shape); }

// What `product_64` and `product_128` work on.
struct Many {
  // [O, K]
  const u16* w;
  // [2, R, K]: the high parts, then the low ones.
  const u16* x;
  // [R, O]
  float* y;
  // [parts, R, O], if a block has some of the parts only.
  float* partial;
  u32 n_rows, n_outputs, k, finish;
  float factor;
};

// [R, K] in f32 becomes [2, R, K] in bf16. Grid: shared, block: 256; eight numbers a thread.
// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_split(const float* x, u16* parts, u64 n) {
  for (u64 i = 8 * ((u64)blockIdx.x * 256 + threadIdx.x); i < n; i += 8 * 256 * (u64)gridDim.x) {
    const float4 a = *reinterpret_cast<const float4*>(x + i), b = *reinterpret_cast<const float4*>(x + i + 4);
    const Operand all[4] = {operand(a.x, a.y), operand(a.z, a.w), operand(b.x, b.y), operand(b.z, b.w)};
    *reinterpret_cast<uint4*>(parts + i) = make_uint4(all[0].high, all[1].high, all[2].high, all[3].high);
    *reinterpret_cast<uint4*>(parts + n + i) = make_uint4(all[0].low, all[1].low, all[2].low, all[3].low);
  }
}

constexpr u32 MANY_OUTPUTS = 64, STAGES = 3;

// A block computes 64 outputs of ROWS rows, and PARTS / gridDim.z parts of K one after the other; a
// warp computes 32 outputs of 8 N rows. Two chunks of weights and x are on their way to shared memory
// while a third is used; a row of a chunk has 64 bytes, so eight lanes read all banks.
// grid: (rows / ROWS, outputs / 64, parts of K), block: 256.
template <u32 ROWS>
__device__ __forceinline__ void product_many(const Many& many) {
  constexpr u32 N = ROWS / 32, STAGE = 4 * (MANY_OUTPUTS + 2 * ROWS);
  DYNAMIC_SHARED(uint4, shared);
  const u32 thread = threadIdx.x, lane = thread % 32, g = lane / 4, t = lane % 4, n_k = many.k;
  const u32 warp_output = thread / 32 % 2 * 32, warp_row = thread / 64 * 8 * N;
  const u32 first_output = blockIdx.y * MANY_OUTPUTS, first_row = blockIdx.x * ROWS;
  const u32 n_chunks = (n_k + CHUNK - 1) / CHUNK, per_part = (n_chunks + PARTS - 1) / PARTS;
  const u32 n_parts = PARTS / gridDim.z, first_part = blockIdx.z * n_parts;
  const u32 begin = min(first_part * per_part, n_chunks), end = min((first_part + n_parts) * per_part, n_chunks);

  // A thread loads 16 bytes of every 64th row: of the weights, of the high parts, then of the low ones.
  const u32 row = thread / 4, n_rows = many.n_rows - min(many.n_rows, first_row);
  const bool has_output = first_output + row < many.n_outputs;
  const u16* of_w = many.w + (u64)(first_output + row) * n_k;
  const u16* of_x = many.x + (u64)(first_row + row) * n_k;
  const auto fetch = [&](u32 chunk) {
    if (chunk < end) {
      uint4* stage = shared + (chunk - begin) % STAGES * STAGE + thread;
      const u32 at = CHUNK * chunk + 8 * (thread % 4);
      const bool has_weights = has_output && at < n_k;
      cp_async_16(stage, has_weights ? of_w + at : many.w, has_weights ? 16 : 0);
#pragma unroll
      for (u32 i = 0; i < ROWS / 32; i++) {
        const u32 low = i / (ROWS / 64), further = i % (ROWS / 64) * 64;
        const bool exists = row + further < n_rows && at < n_k;
        const u16* from = of_x + ((u64)low * many.n_rows + further) * n_k + at;
        cp_async_16(stage + 256 * (i + 1), exists ? from : many.w, exists ? 16 : 0);
      }
    }
    cp_async_commit();
  };

  float sums[2][N][4], totals[2][N][4];
#pragma unroll
  for (u32 i = 0; i < 8 * N; i++) sums[i / (4 * N)][i / 4 % N][i % 4] = totals[i / (4 * N)][i / 4 % N][i % 4] = 0.0f;
#pragma unroll
  for (u32 stage = 0; stage + 1 < STAGES; stage++) fetch(begin + stage);
  u32 left = per_part, part = first_part;
  for (u32 chunk = begin; chunk < end; chunk++) {
    cp_async_wait<STAGES - 2>();
    __syncthreads();
    fetch(chunk + STAGES - 1);
    const uint4* stage = shared + (chunk - begin) % STAGES * STAGE + t;
    uint4 weights[2][2], high[N], low[N];
#pragma unroll
    for (u32 i = 0; i < 4; i++) weights[i / 2][i % 2] = stage[4 * (warp_output + 8 * i + g)];
#pragma unroll
    for (u32 n = 0; n < N; n++) {
      const u32 row = MANY_OUTPUTS + warp_row + 8 * n + g;
      high[n] = stage[4 * row];
      low[n] = stage[4 * (row + ROWS)];
    }
#pragma unroll
    for (u32 step = 0; step < 4; step++) {
      const bool second = step / 2;
#pragma unroll
      for (u32 n = 0; n < N; n++) {
        const uint4 of_x = step % 2 ? high[n] : low[n];
        const u32 b[2] = {second ? of_x.z : of_x.x, second ? of_x.w : of_x.y};
#pragma unroll
        for (u32 m = 0; m < 2; m++) {
          const uint4 upper = weights[m][0], lower = weights[m][1];
          const u32 a[4] = {second ? upper.z : upper.x, second ? lower.z : lower.x, second ? upper.w : upper.y,
                            second ? lower.w : lower.y};
          mma_bf16(sums[m][n], a, b);
        }
      }
    }
    if (--left > 0 && chunk + 1 < end) continue;
#pragma unroll
    for (u32 i = 0; i < 8 * N; i++) {
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
  if (gridDim.z > 1) return;
#pragma unroll
  for (u32 i = 0; i < 8 * N; i++) {
    const u32 m = i / (4 * N), n = i / 4 % N;
    const u32 row = first_row + warp_row + 8 * n + 2 * t + i % 2;
    const u32 output = first_output + warp_output + 16 * m + g + i % 4 / 2 * 8;
    if (row < many.n_rows && output < many.n_outputs)
      store(many.y + (u64)row * many.n_outputs + output, totals[m][n][i % 4], many.finish, many.factor);
  }
}

// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) product_64(Many many) { product_many<64>(many); }
extern "C" __global__ void __launch_bounds__(256, 2) product_128(Many many) { product_many<128>(many); }

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

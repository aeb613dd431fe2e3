// y[r, o] = what Finish makes of Σ_k w[o, k] · x[r, k], on tensor cores. Weights are BF16; a number
// of x is split into two BF16 numbers, x = high + low, so a product errs by 2^-17 at most.
//
// K is cut into chunks of 32, and these into 8 parts of equally many chunks. The sum of a part
// starts from zero and grows by 16 of K at a time, low before high, and the parts are added in
// order. So the order of a sum depends on K alone, and the forms below give the same bits.
//
// A lane reads 8 neighbouring k of a row, 16 bytes of weights: for the chunk's first product its
// k are the first four of these, for the second the last four. `device.cuh` shows the fragments.
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

// A block computes 16 M outputs of 8 N rows; warp p sums part p of K. AHEAD chunks of weights are in
// flight. grid: (outputs / 16 M, rows / 8 N), block: (32, 8).
template <int M, int N, int AHEAD>
__device__ __forceinline__ void product(const Shape& shape) {
  __shared__ float partial[PARTS][8 * N * SUMS_ROW];
  const u32 lane = threadIdx.x, g = lane / 4, t = lane % 4, part = threadIdx.y, n_k = shape.k;
  const u32 first_output = blockIdx.x * 16 * M, first_row = blockIdx.y * 8 * N;
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
      *y = shape.finish == ADD ? *y + sum : shape.finish == SCALE ? sum * shape.factor : sum;
    }
  }
}

// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_1x1(Shape shape) { product<1, 1, 4>(shape); }
extern "C" __global__ void __launch_bounds__(256) product_2x1(Shape shape) { product<2, 1, 4>(shape); }
extern "C" __global__ void __launch_bounds__(256) product_2x2(Shape shape) { product<2, 2, 4>(shape); }

// budget: 192 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) product_4x4(Shape shape) { product<4, 4, 2>(shape); }

// A matrix product at every time step, in three modes.
// variants: ROUND_TF32, ROUND_BF16
#include "product.cuh"

enum Mode { PLAIN, ADD, NOISE };

struct Shape {
  Step step;
  Timeline timeline;
  const float *x, *with, *bias;
  float* y;
  u32 n_columns, n_in, n_out;
};

template <Mode MODE>
struct Pointwise : Shape {
  struct Column {
    const float* x;
    float scale;
  };
  __device__ __forceinline__ Pointwise(const Shape& shape) : Shape(shape) {}

  __device__ __forceinline__ Column column(u32 n) const {
    if (n >= n_columns) return {nullptr, 0.0f};
    return {x + (u64)n * n_in, MODE == NOISE ? with[n] : 1.0f};
  }
  __device__ __forceinline__ float4 fetch(const Column& column, u32 k) const {
    if (!column.x) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    float4 v = load4(column.x, k, n_in);
    if (MODE == NOISE) v = make_float4(column.scale * v.x, column.scale * v.y, column.scale * v.z, column.scale * v.w);
    return v;
  }
  struct Constants {};
  __device__ __forceinline__ Constants constants(u32) const { return {}; }
  __device__ __forceinline__ float4 form(Constants, float4 raw) const { return raw; }

  // Whether the column exists; in noise mode, whether it has noise.
  struct Target {
    u32 live;
  };
  __device__ __forceinline__ Target target(u32 n) const {
    if (MODE == NOISE) return {with[n] != 0.0f};
    const u32 len = step.n_latents * timeline.rate;
    return {live_outputs(step.rows[n / len], timeline, step.n_latents).has(n % len)};
  }
  __device__ __forceinline__ float4 base(u32 m) const { return load4(bias, m, n_out); }

  __device__ __forceinline__ void store(Target target, u32 n, u32 m, float4 base, float4 sums) const {
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    const float4 start = MODE == NOISE ? load4(x + (u64)n * n_in, m, n_in)
                         : MODE == ADD ? load4(with + (u64)n * n_out, m, n_out)
                                       : base;
    store4(y + (u64)n * n_out, m, n_out, target.live ? add4(start, sums) : MODE == NOISE ? start : none);
  }
  __device__ __forceinline__ void remember() const {}

  __device__ __forceinline__ u32 padded_in() const { return (n_in + CHUNK_K - 1) / CHUNK_K * CHUNK_K; }
  __device__ __forceinline__ u32 place(u32 i, u32 k) const { return i * (padded_in() + ROW_GAP) + k; }
  __device__ __forceinline__ void fill(float* rows, u32 first) const {
    const u32 fours = padded_in() / 4;
    for (u32 i = threadIdx.x; i < TILE * fours; i += blockDim.x) {
      const u32 row = i / fours, k = i % fours * 4;
      *reinterpret_cast<float4*>(rows + place(row, k)) = fetch(column(first + row), k);
    }
  }
};

// budget for pointwise_*: 128 registers, 0 spill
PRODUCT_KERNELS(pointwise_plain, Pointwise<PLAIN>, Pointwise<PLAIN>)
PRODUCT_KERNELS(pointwise_add, Pointwise<ADD>, Pointwise<ADD>)
PRODUCT_KERNELS(pointwise_noise, Pointwise<NOISE>, Pointwise<NOISE>)

// Snake, then a transposed convolution as a product: a column's operands are two neighbouring
// inputs, its outputs s rows. `upsample_snake` writes z = S(x) once for all products that need it;
// the memory holds z.
// variants: ROUND_TF32, ROUND_BF16
#include "product.cuh"

using Shape = Strided;

// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) upsample_snake(Shape shape) {
  snake_rows(shape.snake, shape.x, shape.z, shape.n_columns, shape.n_in);
}

// K is z[q-1], then z[q], each padded to `padded`, a multiple of a chunk.
struct Upsample : Shape {
  struct Column {
    const float *before, *now;
  };
  __device__ __forceinline__ Upsample(const Shape& shape) : Shape(shape) {}

  __device__ __forceinline__ u32 len() const { return step.n_latents * timeline.rate / stride; }

  __device__ __forceinline__ Column column(u32 n) const {
    if (n >= n_columns) return {nullptr, nullptr};
    const History seen = history(step, memory, z, n / len(), len());
    return {seen.row(n % len()), seen.row(n % len() + 1)};
  }
  __device__ __forceinline__ float4 fetch(const Column& column, u32 k) const {
    if (!column.now) return make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    return k < padded ? load4(column.before, k, n_in) : load4(column.now, k - padded, n_in);
  }
  struct Constants {};
  __device__ __forceinline__ Constants constants(u32) const { return {}; }
  __device__ __forceinline__ float4 form(Constants, float4 raw) const { return raw; }

  // Its first row, and the rows that exist.
  struct Target {
    u32 first;
    Live live;
  };
  __device__ __forceinline__ Target target(u32 n) const {
    return {n % len() * stride, live_outputs(step.rows[n / len()], timeline, step.n_latents)};
  }
  __device__ __forceinline__ float4 base(u32 m) const { return load4(bias, m, stride * n_out); }

  __device__ __forceinline__ void store(Target target, u32 n, u32 m, float4 base, float4 sums) const {
    const u32 n_rows = stride * n_out;
    const float4 y4 = add4(base, sums);
    float values[4] = {y4.x, y4.y, y4.z, y4.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
      if (!target.live.has(target.first + (m + i) / n_out)) values[i] = 0.0f;
    }
    store4(y + (u64)n * n_rows, m, n_rows, make_float4(values[0], values[1], values[2], values[3]));
  }
  __device__ __forceinline__ void remember() const { roll(step, memory, z, len()); }

  // Neighbouring columns share a row.
  __device__ __forceinline__ u32 place(u32 i, u32 k) const {
    return k < padded ? i * (padded + ROW_GAP) + k : (i + 1) * (padded + ROW_GAP) + k - padded;
  }
  // The columns starting at `first` belong to one stream.
  __device__ __forceinline__ void fill(float* rows, u32 first) const {
    const History seen = history(step, memory, z, first / len(), len());
    const u32 fours = padded / 4;
    for (u32 i = threadIdx.x; i < (TILE + 1) * fours; i += blockDim.x) {
      const u32 row = i / fours, k = i % fours * 4;
      *reinterpret_cast<float4*>(rows + place(row, k)) = load4(seen.row(first % len() + row), k, n_in);
    }
  }
};

// budget for upsample_few: 128 registers, 0 spill
// budget for upsample_wide: 128 registers, 0 spill
// budget for upsample_tall: 128 registers, 0 spill
// budget for upsample_short_*: 128 registers, 0 spill
PRODUCT_KERNELS(upsample, Upsample, Upsample)

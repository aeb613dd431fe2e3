// Snake, then a strided convolution as a product: a column's operands are 2s consecutive inputs, of
// which the next column has the second half as its first. `downsample_snake` writes z = S(x) once
// for all products that need it. For few inputs in a column and many columns, a block computes z for
// its own columns instead, so only x and y go through global memory. The memory always holds z.
// variants: ROUND_TF32, ROUND_BF16
#include "product.cuh"

using Shape = Strided;

// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) downsample_snake(Shape shape) {
  snake_rows(shape.snake, shape.x, shape.z, shape.n_columns * shape.stride, shape.n_in);
}

// K is two halves of s inputs, each padded to `padded`, a multiple of a chunk.
struct Downsample : Shape {
  // The first `n_past` floats are in memory, the others in z.
  struct Column {
    const float *past, *now;
    u32 n_past;
  };
  __device__ __forceinline__ Downsample(const Shape& shape) : Shape(shape) {}

  __device__ __forceinline__ u32 len() const { return step.n_latents * timeline.rate; }

  __device__ __forceinline__ Column column(u32 n) const {
    if (n >= n_columns) return {nullptr, nullptr, 0};
    const u32 half = stride * n_in, stream = n / len();
    const u64 first = (u64)(n % len()) * half, n_past = (u64)memory.n_past * n_in;
    const float* now = z + (u64)stream * len() * half;
    if (first >= n_past) return {nullptr, now + (first - n_past), 0};
    return {memory.past(step.rows[stream]) + first, now, (u32)(n_past - first)};
  }
  __device__ __forceinline__ float4 fetch(const Column& column, u32 k) const {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (!column.now) return v;
    const u32 half = stride * n_in, end = k < padded ? half : 2 * half;
    const u32 at = k < padded ? k : k - padded + half;
    const bool old = at < column.n_past;
    const float* from = old ? column.past + at : column.now + (at - column.n_past);
    if (at + 4 <= (old ? min(column.n_past, end) : end) && ((u64)from & 15) == 0) {
      return *reinterpret_cast<const float4*>(from);
    }
    const auto value = [&](u32 i) { return i < column.n_past ? column.past[i] : column.now[i - column.n_past]; };
    if (at < end) v.x = value(at);
    if (at + 1 < end) v.y = value(at + 1);
    if (at + 2 < end) v.z = value(at + 2);
    if (at + 3 < end) v.w = value(at + 3);
    return v;
  }
  struct Constants {};
  __device__ __forceinline__ Constants constants(u32) const { return {}; }
  __device__ __forceinline__ float4 form(Constants, float4 raw) const { return raw; }

  // Whether the column exists.
  struct Target {
    u32 live;
  };
  __device__ __forceinline__ Target target(u32 n) const {
    return {live_outputs(step.rows[n / len()], timeline, step.n_latents).has(n % len())};
  }
  __device__ __forceinline__ float4 base(u32 m) const { return load4(bias, m, n_out); }

  __device__ __forceinline__ void store(Target target, u32 n, u32 m, float4 base, float4 sums) const {
    const float4 none = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    store4(y + (u64)n * n_out, m, n_out, target.live ? add4(base, sums) : none);
  }
  __device__ __forceinline__ void remember() const { roll(step, memory, z, len() * stride); }
};

// A `Downsample` that computes its own z.
struct DownsampleAlone : Downsample {
  __device__ __forceinline__ DownsampleAlone(const Shape& shape) : Downsample(shape) {}

  __device__ __forceinline__ void remember() const {
    roll(step, memory, x, len() * stride, [&](u32 c, float value) { return snake.at(c, value); });
  }

  // Neighbouring columns share a row of s inputs.
  __device__ __forceinline__ u32 row_len() const { return padded + ROW_GAP; }
  __device__ __forceinline__ u32 place(u32 i, u32 k) const {
    return i * row_len() + k + (k < padded ? 0 : ROW_GAP);
  }
  // The columns starting at `first` belong to one stream. A thread has the same four channels in all
  // its inputs; a column this short has fewer than 4 · 256 channels.
  __device__ __forceinline__ void fill(float* rows, u32 first) const {
    const u32 half = stride * n_in, fours = (n_in + 3) / 4, n_at_once = blockDim.x / fours;
    const u32 own = threadIdx.x / fours, c = threadIdx.x % fours * 4, start = first % len() * stride;
    const History seen = history(step, memory, x, first / len(), len() * stride);
    const auto constants = snake.four(c);
    for (u32 i = own; own < n_at_once && i < (TILE + 1) * stride; i += n_at_once) {
      float4 v = load4(seen.row(start + i), c, n_in);
      if (start + i >= seen.n_past) v = constants.of(v);
      store4(rows + i / stride * row_len() + i % stride * n_in, c, n_in, v);
    }
    const u32 n_empty = padded - half;
    for (u32 i = threadIdx.x; i < (TILE + 1) * n_empty; i += blockDim.x) {
      rows[i / n_empty * row_len() + half + i % n_empty] = 0.0f;
    }
  }
};

// budget for downsample_few: 128 registers, 0 spill
// budget for downsample_wide: 128 registers, 0 spill
// budget for downsample_tall: 128 registers, 0 spill
// budget for downsample_short_*: 128 registers, 0 spill
PRODUCT_KERNELS(downsample, Downsample, DownsampleAlone)

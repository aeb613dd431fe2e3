// SNAC's residual unit: `residual_hidden` writes h = S'(Conv₇(S(x))), and the product adds W h to
// skip and bias. For few channels and many columns, a block computes h for its own columns, so only
// x and y go through global memory.
// variants: ROUND_TF32, ROUND_BF16
#include "product.cuh"

constexpr u32 TAPS = 7;
// Outputs per thread, `dilation` rows apart.
constexpr u32 RUN = 12;

struct Shape {
  Step step;
  Timeline timeline;
  Memory memory;
  Snake entry, middle;
  // [7, C], [C], [C]
  const float *taps, *wide_bias, *mix_bias;
  const float* x;
  float *hidden, *y;
  u32 n_columns, n_channels, dilation;

  __device__ __forceinline__ u32 len() const { return step.n_latents * timeline.rate; }
};

// The wide convolution and both Snakes of one channel.
struct Channel {
  float taps[TAPS], bias, alpha, inverse, mix_alpha, mix_inverse;

  __device__ __forceinline__ Channel(const Shape& shape, u32 c) {
#pragma unroll
    for (u32 k = 0; k < TAPS; k++) taps[k] = __ldg(shape.taps + k * shape.n_channels + c);
    bias = __ldg(shape.wide_bias + c);
    alpha = __ldg(shape.entry.alpha + c), inverse = __ldg(shape.entry.inverse + c);
    mix_alpha = __ldg(shape.middle.alpha + c), mix_inverse = __ldg(shape.middle.inverse + c);
  }

  // The N outputs for the raw inputs: store(j, value) takes the j-th.
  template <u32 N, class Store>
  __device__ __forceinline__ void convolve(const float (&raw)[N + TAPS - 1], Store store) const {
    float z[TAPS];
#pragma unroll
    for (u32 i = 0; i < N + TAPS - 1; i++) {
      z[i % TAPS] = snake(raw[i], alpha, inverse);
      if (i < TAPS - 1) continue;
      const u32 j = i - (TAPS - 1);
      float sum = bias;
#pragma unroll
      for (u32 k = 0; k < TAPS; k++) sum = fused_multiply_add(taps[k], z[(j + k) % TAPS], sum);
      store(j, snake(sum, mix_alpha, mix_inverse));
    }
  }
};

// Grid: x over channels and runs of one stream, y over streams. A thread holds the Snake of the
// last seven rows that it needs, so each is computed once for all its taps.
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) residual_hidden(Shape shape) {
  const u32 n = shape.n_channels, len = shape.len(), dilation = shape.dilation;
  const u32 n_runs = (len + dilation * RUN - 1) / (dilation * RUN) * dilation;
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 c = index % n, run = index / n;
  const u32 first = run / dilation * (dilation * RUN) + run % dilation;
  if (run < n_runs && first < len) {
    const Channel channel(shape, c);
    for (u32 stream = blockIdx.y; stream < shape.step.n_rows; stream += gridDim.y) {
      const History seen = history(shape.step, shape.memory, shape.x, stream, len);
      float raw[RUN + TAPS - 1];
      // Rows from `end` on do not exist. If no row comes from memory, rows are a fixed distance apart.
      const u32 end = len + (TAPS - 1) * dilation;
      if (first >= seen.n_past) {
        const float* from = seen.row(first) + c;
#pragma unroll
        for (u32 i = 0; i < RUN + TAPS - 1; i++) raw[i] = first + i * dilation < end ? from[i * dilation * n] : 0.0f;
      } else {
#pragma unroll
        for (u32 i = 0; i < RUN + TAPS - 1; i++) {
          raw[i] = first + i * dilation < end ? seen.row(first + i * dilation)[c] : 0.0f;
        }
      }
      float* to = shape.hidden + ((u64)stream * len + first) * n + c;
      channel.convolve<RUN>(raw, [&](u32 j, float value) {
        if (first + j * dilation < len) to[j * dilation * n] = value;
      });
    }
  }
  roll(shape.step, shape.memory, shape.x, len);
}

// Outputs per thread in `fill`, `dilation` rows apart.
constexpr u32 SHORT_RUN = 8;

struct Mix : Shape {
  struct Column {
    const float* hidden;
  };
  __device__ __forceinline__ Mix(const Shape& shape) : Shape(shape) {}

  __device__ __forceinline__ Column column(u32 n) const {
    return {n < n_columns ? hidden + (u64)n * n_channels : nullptr};
  }
  __device__ __forceinline__ float4 fetch(const Column& column, u32 k) const {
    return column.hidden ? load4(column.hidden, k, n_channels) : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  struct Constants {};
  __device__ __forceinline__ Constants constants(u32) const { return {}; }
  __device__ __forceinline__ float4 form(Constants, float4 raw) const { return raw; }

  // The row of the skip connection; null if the column does not exist.
  struct Target {
    const float* skip;
  };
  __device__ __forceinline__ Target target(u32 n) const {
    const u32 stream = n / len(), t = n % len();
    const History seen = history(step, memory, x, stream, len());
    const bool live = live_outputs(step.rows[stream], timeline, step.n_latents).has(t);
    return {live ? seen.row(t + TAPS / 2 * dilation) : nullptr};
  }
  __device__ __forceinline__ float4 base(u32 m) const { return load4(mix_bias, m, n_channels); }

  __device__ __forceinline__ void store(Target target, u32 n, u32 m, float4 base, float4 sums) const {
    float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (target.skip) value = add4(add4(load4(target.skip, m, n_channels), base), sums);
    store4(y + (u64)n * n_channels, m, n_channels, value);
  }
  __device__ __forceinline__ void remember() const {}

  __device__ __forceinline__ u32 stride() const { return (n_channels + CHUNK_K - 1) / CHUNK_K * CHUNK_K + ROW_GAP; }
  __device__ __forceinline__ u32 place(u32 i, u32 k) const { return i * stride() + k; }

  // The columns starting at `first` belong to one stream.
  __device__ __forceinline__ void fill(float* rows, u32 first) const {
    const u32 n = n_channels, stream = first / len(), start = first % len(), end = len() + (TAPS - 1) * dilation;
    const u32 n_runs = (TILE + dilation * SHORT_RUN - 1) / (dilation * SHORT_RUN) * dilation;
    const History seen = history(step, memory, x, stream, len());
    for (u32 item = threadIdx.x; item < n_runs * n; item += blockDim.x) {
      const u32 c = item % n, run = item / n;
      const u32 own = run / dilation * (dilation * SHORT_RUN) + run % dilation;
      float raw[SHORT_RUN + TAPS - 1];
#pragma unroll
      for (u32 i = 0; i < SHORT_RUN + TAPS - 1; i++) {
        const u32 row = start + own + i * dilation;
        raw[i] = row < end ? seen.row(row)[c] : 0.0f;
      }
      Channel(*this, c).convolve<SHORT_RUN>(raw, [&](u32 j, float value) {
        if (own + j * dilation < TILE) rows[place(own + j * dilation, c)] = value;
      });
    }
    const u32 n_empty = stride() - ROW_GAP - n;
    for (u32 i = threadIdx.x; i < TILE * n_empty; i += blockDim.x) rows[place(i / n_empty, n + i % n_empty)] = 0.0f;
  }
};

// A `Mix` that computes its own columns; the grid also writes the memory.
struct MixAlone : Mix {
  __device__ __forceinline__ MixAlone(const Shape& shape) : Mix(shape) {}
  __device__ __forceinline__ void remember() const { roll(step, memory, x, len()); }
};

// budget for residual_few: 128 registers, 0 spill
// budget for residual_wide: 128 registers, 0 spill
// budget for residual_tall: 128 registers, 0 spill
// budget for residual_short_wide: 80 registers, 8 spill
// budget for residual_short_tall: 128 registers, 0 spill
PRODUCT_KERNELS(residual, Mix, MixAlone)

// SNAC's residual unit: `residual_hidden` writes h = S'(Conv₇(S(x))), the product adds W h to skip and bias.
#include "product.cuh"

constexpr u32 TAPS = 7;
// Outputs of a thread, `dilation` rows apart.
constexpr u32 RUN = 8;

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

// Grid: x over channels and runs of one stream, y over streams. A thread keeps the Snake of the last seven rows that it
// needs, so that each is computed once for all its taps.
// budget: 80 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) residual_hidden(Shape shape) {
  const u32 n = shape.n_channels, len = shape.len(), dilation = shape.dilation;
  const u32 n_runs = (len + dilation * RUN - 1) / (dilation * RUN) * dilation;
  const u32 index = blockIdx.x * blockDim.x + threadIdx.x;
  const u32 c = index % n, run = index / n;
  const u32 first = run / dilation * (dilation * RUN) + run % dilation;
  if (run < n_runs && first < len) {
    float taps[TAPS], z[TAPS];
#pragma unroll
    for (u32 k = 0; k < TAPS; k++) taps[k] = __ldg(shape.taps + k * n + c);
    const float bias = __ldg(shape.wide_bias + c);
    const float alpha = __ldg(shape.entry.alpha + c), inverse = __ldg(shape.entry.inverse + c);
    const float mix_alpha = __ldg(shape.middle.alpha + c), mix_inverse = __ldg(shape.middle.inverse + c);
    for (u32 stream = blockIdx.y; stream < shape.step.n_rows; stream += gridDim.y) {
      const History seen = history(shape.step, shape.memory, shape.x, stream, len);
      float raw[RUN + TAPS - 1];
#pragma unroll
      for (u32 i = 0; i < RUN + TAPS - 1; i++) {
        const u32 t = first + (i < TAPS - 1 ? 0 : i - (TAPS - 1)) * dilation;
        raw[i] = t < len ? seen.row(first + i * dilation)[c] : 0.0f;
      }
      float* to = shape.hidden + ((u64)stream * len + first) * n + c;
#pragma unroll
      for (u32 i = 0; i < RUN + TAPS - 1; i++) {
        z[i % TAPS] = snake(raw[i], alpha, inverse);
        if (i < TAPS - 1) continue;
        const u32 j = i - (TAPS - 1);
        float sum = bias;
#pragma unroll
        for (u32 k = 0; k < TAPS; k++) sum = fused_multiply_add(taps[k], z[(j + k) % TAPS], sum);
        if (first + j * dilation < len) to[(u64)j * dilation * n] = snake(sum, mix_alpha, mix_inverse);
      }
    }
  }
  roll(shape.step, shape.memory, shape.x, len);
}

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
  __device__ __forceinline__ float4 form(u32, float4 raw) const { return raw; }

  __device__ __forceinline__ void store(u32 n, u32 m, float4 sums) const {
    const u32 stream = n / len(), t = n % len();
    const History seen = history(step, memory, x, stream, len());
    const bool live = live_outputs(step.rows[stream], timeline, step.n_latents).has(t);
    const float4 start = add4(load4(seen.row(t + TAPS / 2 * dilation), m, n_channels), load4(mix_bias, m, n_channels));
    store4(y + (u64)n * n_channels, m, n_channels, live ? add4(start, sums) : make_float4(0.0f, 0.0f, 0.0f, 0.0f));
  }
  __device__ __forceinline__ void remember() const {}
};

// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) residual_few(Shape shape, Factors factors) {
  product_few(Mix(shape), factors);
}
// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) residual_wide(Shape shape, Factors factors) {
  product_many<2>(Mix(shape), factors);
}
// budget: 128 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256, 2) residual_tall(Shape shape, Factors factors) {
  product_many<4>(Mix(shape), factors);
}

// A per-channel convolution, one output per thread.
#include "step.cuh"

struct Shape {
  Step step;
  Timeline timeline;
  Memory memory;
  // [K, C], [C]
  const float *taps, *bias;
  const float* x;
  float* y;
  u32 n_columns, n_channels, n_taps;
};

// budget: 48 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) depthwise_f32(Shape shape) {
  const u32 n = shape.n_channels, len = shape.step.n_latents * shape.timeline.rate;
  for
    GRID_STRIDE(i, (u64)shape.n_columns * n) {
      const u32 c = (u32)(i % n), column = (u32)(i / n), stream = column / len, t = column % len;
      const History seen = history(shape.step, shape.memory, shape.x, stream, len);
      float sum = __ldg(shape.bias + c);
      for (u32 k = 0; k < shape.n_taps; k++)
        sum = fused_multiply_add(__ldg(shape.taps + k * n + c), seen.row(t + k)[c], sum);
      const bool live = live_outputs(shape.step.rows[stream], shape.timeline, shape.step.n_latents).has(t);
      shape.y[i] = live ? sum : 0.0f;
    }
  roll(shape.step, shape.memory, shape.x, len);
}

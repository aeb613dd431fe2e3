// tanh(Conv₇(Snake(x))) to one channel. A block computes 64 outputs; four threads share one output,
// each with every fourth channel.
#include "step.cuh"

constexpr u32 TAPS = 7, OUTPUTS = 64, CHANNELS = 64, ROWS = OUTPUTS + TAPS - 1;
// Rows are offset by four banks, so that the 32 threads of a warp (8 rows, 4 channels) have no bank
// conflicts.
constexpr u32 PITCH = CHANNELS + 4;

struct Shape {
  Step step;
  Timeline timeline;
  Memory memory;
  Snake snake;
  // [7, C]
  const float* taps;
  const float* x;
  float* y;
  u32 n_channels;
  float bias;
};

// The same operations in the same order as in `snake.rs`.
__device__ __forceinline__ float tangent(float x) {
  const float limit = 7.905311f;
  x = x > limit ? limit : x;
  x = x < -limit ? -limit : x;
  const float u = x * x;
  float p = fused_multiply_add(-2.7607685e-16f, u, 2.000188e-13f);
  p = fused_multiply_add(p, u, -8.604672e-11f);
  p = fused_multiply_add(p, u, 5.122297e-8f);
  p = fused_multiply_add(p, u, 1.4857224e-5f);
  p = fused_multiply_add(p, u, 6.372619e-4f);
  p = fused_multiply_add(p, u, 4.8935246e-3f);
  float q = fused_multiply_add(1.1982584e-6f, u, 1.1853471e-4f);
  q = fused_multiply_add(q, u, 2.2684346e-3f);
  q = fused_multiply_add(q, u, 4.893525e-3f);
  return x * p / q;
}

// Grid: x over outputs of a stream, y over streams.
// budget: 48 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) head_f32(Shape shape) {
  __shared__ float z[ROWS * PITCH];
  const u32 n = shape.n_channels, len = shape.step.n_latents * shape.timeline.rate;
  const u32 first = blockIdx.x * OUTPUTS, own = threadIdx.x / 4, part = threadIdx.x % 4;
  for (u32 stream = blockIdx.y; stream < shape.step.n_rows; stream += gridDim.y) {
    const History seen = history(shape.step, shape.memory, shape.x, stream, len);
    float sum = 0.0f;
    for (u32 channel = 0; channel < n; channel += CHANNELS) {
      __syncthreads();
      for (u32 i = threadIdx.x; i < ROWS * CHANNELS; i += blockDim.x) {
        const u32 row = i / CHANNELS, c = channel + i % CHANNELS;
        const bool inside = first + row < len + TAPS - 1 && c < n;
        z[row * PITCH + i % CHANNELS] = inside ? shape.snake.at(c, seen.row(first + row)[c]) : 0.0f;
      }
      __syncthreads();
      const u32 n_here = min(CHANNELS, n - channel);
      for (u32 k = 0; k < TAPS; k++) {
        const float* taps = shape.taps + k * n + channel;
        const float* row = z + (own + k) * PITCH;
        for (u32 c = part; c < n_here; c += 4) sum = fused_multiply_add(__ldg(taps + c), row[c], sum);
      }
    }
    sum += shfl_xor(FULL_WARP, sum, 2);
    sum += shfl_xor(FULL_WARP, sum, 1);
    const u32 t = first + own;
    if (part == 0 && t < len) {
      const bool live = live_outputs(shape.step.rows[stream], shape.timeline, shape.step.n_latents).has(t);
      shape.y[(u64)stream * len + t] = live ? tangent(sum + shape.bias) : 0.0f;
    }
  }
  roll(shape.step, shape.memory, shape.x, len);
}

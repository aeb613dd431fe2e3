// A convolution of sound to C channels. A block computes 256 rows. A thread holds the weights of
// four channels and walks over the rows, so that a warp stores consecutive floats.
#include "step.cuh"

constexpr u32 TAPS = 7, OUTPUTS = 256, THREADS = 256;

struct Shape {
  Step step;
  Timeline timeline;
  Memory memory;
  // [1 + 7, C]
  const float* weights;
  const float* x;
  float* y;
  u32 n_channels;
};

__device__ __forceinline__ float4 multiply_add4(float4 a, float x, float4 sum) {
  return make_float4(fused_multiply_add(a.x, x, sum.x), fused_multiply_add(a.y, x, sum.y),
                     fused_multiply_add(a.z, x, sum.z), fused_multiply_add(a.w, x, sum.w));
}

// Grid: x over rows of a stream, y over streams.
// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(THREADS) entry_f32(Shape shape) {
  __shared__ float samples[OUTPUTS + TAPS - 1];
  const u32 n = shape.n_channels, len = shape.step.n_latents * shape.timeline.rate;
  const u32 first = blockIdx.x * OUTPUTS, n_here = first < len ? min(OUTPUTS, len - first) : 0;
  const u32 fours = (n + 3) / 4, width = min(fours, THREADS), rows_at_once = THREADS / width;
  const u32 own = threadIdx.x / width;
  for (u32 stream = blockIdx.y; stream < shape.step.n_rows; stream += gridDim.y) {
    const History seen = history(shape.step, shape.memory, shape.x, stream, len);
    const Live live = live_outputs(shape.step.rows[stream], shape.timeline, shape.step.n_latents);
    __syncthreads();
    for (u32 i = threadIdx.x; n_here && i < n_here + TAPS - 1; i += THREADS) samples[i] = *seen.row(first + i);
    __syncthreads();
    for (u32 four = threadIdx.x % width; four < fours && own < rows_at_once; four += width) {
      const u32 c = four * 4;
      const float4 bias = load4(shape.weights, c, n);
      float4 taps[TAPS];
#pragma unroll
      for (u32 k = 0; k < TAPS; k++) taps[k] = load4(shape.weights + (k + 1) * n, c, n);
      for (u32 row = own; row < n_here; row += rows_at_once) {
        float4 sum = bias;
#pragma unroll
        for (u32 k = 0; k < TAPS; k++) sum = multiply_add4(taps[k], samples[row + k], sum);
        if (!live.has(first + row)) sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        store4(shape.y + ((u64)stream * len + first + row) * n, c, n, sum);
      }
    }
  }
  roll(shape.step, shape.memory, shape.x, len);
}

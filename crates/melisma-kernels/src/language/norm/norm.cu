// Root mean square norm, one block per row. A thread sums the squares of every 256th channel, a warp
// its threads' sums by halves, and the sums of the warps are added in order.
#include "device.cuh"

constexpr u32 THREADS = 256, WARPS = THREADS / 32;

// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(THREADS)
    norm_f32(const float* x, const float* weight, float* y, u32 n_rows, u32 n_channels, float epsilon) {
  __shared__ float of_warps[WARPS];
  for (u32 row = blockIdx.x; row < n_rows; row += gridDim.x) {
    const float* from = x + (u64)row * n_channels;
    float sum = 0.0f;
#pragma unroll 4
    for (u32 c = threadIdx.x; c < n_channels; c += THREADS) sum = fused_multiply_add(from[c], from[c], sum);
#pragma unroll
    for (u32 distance = 16; distance; distance /= 2) sum += shfl_xor(FULL_WARP, sum, distance);
    if (lane_id() == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) total += of_warps[warp];
    const float scale = 1.0f / sqrtf(total / (float)n_channels + epsilon);
#pragma unroll 4
    for (u32 c = threadIdx.x; c < n_channels; c += THREADS)
      y[(u64)row * n_channels + c] = from[c] * scale * load_constant(weight + c);
    __syncthreads();
  }
}

// Layer norm over channels, one warp per row, sums in f64.
#include "device.cuh"

__device__ __forceinline__ double warp_sum(double value) {
#pragma unroll
  for (u32 distance = 16; distance; distance /= 2) value += shfl_xor(FULL_WARP, value, distance);
  return value;
}

// budget: 48 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256)
    norm_f32(const float* x, const float* weight, const float* bias, float* y, u32 n_rows, u32 n_channels) {
  const u32 lane = lane_id(), n_warps = gridDim.x * (blockDim.x / 32);
  for (u32 row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; row < n_rows; row += n_warps) {
    const float* from = x + (u64)row * n_channels;
    double sum = 0.0;
    for (u32 c = lane; c < n_channels; c += 32) sum += (double)from[c];
    const double mean = warp_sum(sum) / n_channels;
    double squares = 0.0;
    for (u32 c = lane; c < n_channels; c += 32) {
      const double distance = (double)from[c] - mean;
      squares += distance * distance;
    }
    const double scale = 1.0 / sqrt(warp_sum(squares) / n_channels + 1e-5);
    for (u32 c = lane; c < n_channels; c += 32) {
      const float scaled = (float)(((double)from[c] - mean) * scale);
      y[(u64)row * n_channels + c] = fused_multiply_add(scaled, weight[c], bias[c]);
    }
  }
}

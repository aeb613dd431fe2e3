// Root mean square norm, one block per row. A thread sums the squares of four neighbouring channels of
// every 1024, and of each last one of those that are no four; a warp its threads' sums by halves, and
// the sums of the warps are added in order.
#include "device.cuh"

constexpr u32 THREADS = 256, WARPS = THREADS / 32;

// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(THREADS)
    norm_f32(const float* x, const float* weight, float* y, u32 n_rows, u32 n_channels, float epsilon) {
  __shared__ float of_warps[WARPS];
  // Rows of a length that is no multiple of four do not begin at multiples of 16 bytes.
  const u32 n_fours = n_channels % 4 ? 0 : n_channels / 4, rest = 4 * n_fours + threadIdx.x;
  for (u32 row = blockIdx.x; row < n_rows; row += gridDim.x) {
    const float* from = x + (u64)row * n_channels;
    float* to = y + (u64)row * n_channels;
    float sum = 0.0f;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < n_fours; i += THREADS) {
      const float4 four = reinterpret_cast<const float4*>(from)[i];
      sum = fused_multiply_add(four.x, four.x, sum);
      sum = fused_multiply_add(four.y, four.y, sum);
      sum = fused_multiply_add(four.z, four.z, sum);
      sum = fused_multiply_add(four.w, four.w, sum);
    }
    for (u32 c = rest; c < n_channels; c += THREADS) sum = fused_multiply_add(from[c], from[c], sum);
#pragma unroll
    for (u32 distance = 16; distance; distance /= 2) sum += shfl_xor(FULL_WARP, sum, distance);
    if (lane_id() == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    float total = 0.0f;
#pragma unroll
    for (u32 warp = 0; warp < WARPS; warp++) total += of_warps[warp];
    const float scale = 1.0f / sqrtf(total / (float)n_channels + epsilon);
#pragma unroll 4
    for (u32 i = threadIdx.x; i < n_fours; i += THREADS) {
      const float4 four = reinterpret_cast<const float4*>(from)[i];
      const float4 w = load_constant(reinterpret_cast<const float4*>(weight) + i);
      reinterpret_cast<float4*>(to)[i] = make_float4(four.x * scale * w.x, four.y * scale * w.y, four.z * scale * w.z,
                                                     four.w * scale * w.w);
    }
    for (u32 c = rest; c < n_channels; c += THREADS) to[c] = from[c] * scale * load_constant(weight + c);
    __syncthreads();
  }
}

// The gated unit, one thread per channel. Grid: x over channels, y over rows.
#include "curve.cuh"

// budget: 40 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) gated_f32(const float* x, float* y, u32 n_rows, u32 n_inner) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n_inner) return;
  for (u32 row = blockIdx.y; row < n_rows; row += gridDim.y) {
    const float* gate = x + (u64)row * 2 * n_inner + i;
    y[(u64)row * n_inner + i] = curve_silu(gate[0]) * gate[n_inner];
  }
}

// Copies matrices of 16-bit elements to another width: missing elements become zero, extra ones are
// cut.
#include "device.cuh"

// budget: 40 registers, 0 spill
extern "C" __global__ void matmul_pad(const u16* from, u16* to, u64 from_rows, u64 to_rows, u64 from_columns,
                                      u64 to_columns) {
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < to_rows * to_columns; i += step) {
    const u64 row = i / to_columns, column = i % to_columns;
    to[i] = row < from_rows && column < from_columns ? from[row * from_columns + column] : (u16)0;
  }
}

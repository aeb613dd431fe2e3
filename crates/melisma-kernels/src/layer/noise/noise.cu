// Normal deviates that depend only on the position: one per thread, block by block.
#include "step.cuh"

struct Block {
  Timeline timeline;
  // Deviates of one row per latent in the blocks before this one.
  u64 before;
};

struct Words {
  u32 w[4];
};

// Ten rounds of Philox with four 32-bit words.
__device__ __forceinline__ Words philox(Words counter, u32 key_0, u32 key_1) {
  u32* c = counter.w;
#pragma unroll
  for (int round = 0; round < 10; round++) {
    const u64 a = (u64)c[0] * 0xD2511F53u, b = (u64)c[2] * 0xCD9E8D57u;
    const u32 next[4] = {(u32)(b >> 32) ^ c[1] ^ key_0, (u32)b, (u32)(a >> 32) ^ c[3] ^ key_1, (u32)a};
#pragma unroll
    for (int i = 0; i < 4; i++) c[i] = next[i];
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
  }
  return counter;
}

// Grid: x over the deviates of a block, y over blocks.
// budget: 64 registers, 0 spill
extern "C" __global__ void __launch_bounds__(256) noise_f32(Step step, const Block* blocks, float* deviates) {
  const Block block = blocks[blockIdx.y];
  const u32 len = step.n_latents * block.timeline.rate;
  float* to = deviates + block.before * step.n_latents * step.n_rows;
  for
    GRID_STRIDE(i, (u64)len * step.n_rows) {
      const u32 stream = (u32)(i / len), t = (u32)(i % len);
      const Row& row = step.rows[stream];
      float deviate = 0.0f;
      if (row.noise != 0 && live_outputs(row, block.timeline, step.n_latents).has(t)) {
        const u64 n = (u64)(first_output(row, block.timeline) + t), index = n / 4;
        const Words words =
            philox({{(u32)index, (u32)(index >> 32), blockIdx.y, 0}}, (u32)row.seed, (u32)((u64)row.seed >> 32));
        const bool second = n % 4 >= 2;
        const u32 a = second ? words.w[2] : words.w[0], b = second ? words.w[3] : words.w[1];
        // Both are exact: the upper 24 bits of a word.
        const float unit = (float)((a >> 8) + 1) * 5.9604644775390625e-8f,
                    turn = (float)(b >> 8) * 5.9604644775390625e-8f;
        float sine, cosine;
        sincospif(2.0f * turn, &sine, &cosine);
        deviate = sqrtf(-2.0f * logf(unit)) * (n % 2 ? sine : cosine);
      }
      to[i] = deviate;
    }
}

// The rows of a step and the pages of their sequences; mirrors `tokens.rs`.
#pragma once
#include "device.cuh"

// The sizes of a layer's cache, [N, 2, H, P, D].
struct CacheShape {
  u32 page_len, n_heads, head_dim;

  // Where the keys of a head of a page begin.
  __device__ __forceinline__ u64 keys(u32 page, u32 head) const {
    return ((u64)page * 2 * n_heads + head) * page_len * head_dim;
  }
  // Where the values of a head of a page begin.
  __device__ __forceinline__ u64 values(u32 page, u32 head) const { return keys(page, n_heads + head); }
};

// For each row its position and the place of its first page in `words`; then all pages.
struct Tokens {
  const u32* words;
  u32 n_rows;

  __device__ __forceinline__ u32 position(u32 row) const { return words[2 * row]; }
  // The pages of the row's sequence.
  __device__ __forceinline__ const u32* pages(u32 row) const { return words + words[2 * row + 1]; }
};

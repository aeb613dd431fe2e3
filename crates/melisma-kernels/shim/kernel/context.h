// What a compiled kernel and the host shim's driver know of each other.
// The driver owns the one Context and writes its address into the module's `shim_context`.
#pragma once

namespace shim {

struct Dim {
  unsigned x, y, z;
};

// One lane's contribution to a warp exchange.
struct alignas(32) Slot {
  unsigned char bytes[32];
};

struct Context {
  Dim thread, block, block_dim, grid_dim;
  unsigned lane;
  unsigned char* dynamic_shared;
  // Waits for the whole block; returns how many threads brought a non-zero predicate.
  unsigned (*block_barrier)(unsigned predicate);
  // Waits for all live lanes of `mask`; returns the 32 values brought. Every lane must bring the same `operation`.
  const Slot* (*warp_exchange)(unsigned mask, const char* operation, const void* value, unsigned size);
  // Copies become visible in `copy_wait`, not before.
  void (*copy_async)(void* shared, const void* global, unsigned bytes);
  void (*copy_commit)();
  void (*copy_wait)(unsigned newest_groups_left);
  // Reports the kernel, block and thread, then aborts.
  void (*fail)(const char* reason);
};

using Entry = void (*)(void** args);

}  // namespace shim

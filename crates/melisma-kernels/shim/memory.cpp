// Device and pinned memory, copies and fills.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "driver.h"

namespace shim {
namespace {

constexpr size_t ALIGNMENT = 512, RED_ZONE = 64;
constexpr unsigned char GARBAGE = 0xA5, POISON = 0xC3;

// By the address of the first usable byte. Never destroyed: threads may still call while the process exits.
using Blocks = std::map<CUdeviceptr, size_t>;
Blocks &device_blocks = *new Blocks, &pinned_blocks = *new Blocks, &globals = *new Blocks;
size_t bytes_used;
uint64_t pool_release_threshold;
char default_pool;

// With a fence every allocation ends, up to 16 bytes, at a page that cannot be touched, so that reads past the end fault too.
bool fenced() {
  static const bool on = [] {
    const char* text = getenv("MELISMA_SHIM_FENCE");
    return text && strcmp(text, "1") == 0;
  }();
  return on;
}

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// The red zone after a block.
size_t tail_bytes(size_t bytes) { return fenced() ? round_up(bytes, 16) - bytes : RED_ZONE; }

constexpr size_t PAGE = 64 << 10;

// The first usable byte, with room for both red zones; null where the host has no memory.
unsigned char* take_block(size_t bytes) {
  if (!fenced()) {
    auto* base =
        static_cast<unsigned char*>(aligned_alloc(ALIGNMENT, round_up(ALIGNMENT + bytes + RED_ZONE, ALIGNMENT)));
    return base ? base + ALIGNMENT : nullptr;
  }
  size_t usable = round_up(RED_ZONE + round_up(bytes, 16), PAGE);
  void* base = mmap(nullptr, usable + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  unsigned char* fence = static_cast<unsigned char*>(base) + usable;
  mprotect(fence, PAGE, PROT_NONE);
  return fence - round_up(bytes, 16);
}

void give_block(unsigned char* start, size_t bytes) {
  if (!fenced()) return free(start - ALIGNMENT);
  size_t usable = round_up(RED_ZONE + round_up(bytes, 16), PAGE);
  munmap(start + round_up(bytes, 16) - usable, usable + PAGE);
}

unsigned char* bytes_at(CUdeviceptr pointer) { return reinterpret_cast<unsigned char*>(pointer); }

bool lies_in(const Blocks& blocks, CUdeviceptr pointer, size_t bytes) {
  auto after = blocks.upper_bound(pointer);
  if (after == blocks.begin()) return false;
  auto block = std::prev(after);
  size_t offset = pointer - block->first;
  return offset <= block->second && bytes <= block->second - offset;
}

// The first damaged byte around the block, as an offset from its start; 0 where all is well.
long damaged_offset(CUdeviceptr pointer, size_t bytes) {
  static const auto zone = [] {
    std::array<unsigned char, RED_ZONE> bytes;
    bytes.fill(POISON);
    return bytes;
  }();
  const unsigned char* start = bytes_at(pointer);
  const std::pair<const unsigned char*, size_t> sides[] = {{start - RED_ZONE, RED_ZONE},
                                                           {start + bytes, tail_bytes(bytes)}};
  for (auto [side, length] : sides) {
    if (memcmp(side, zone.data(), length) == 0) continue;
    size_t first = 0;
    while (side[first] == POISON) first++;
    return long(side + first - start);
  }
  return 0;
}

void check_block(const char* culprit, CUdeviceptr pointer, size_t bytes) {
  long offset = damaged_offset(pointer, bytes);
  if (offset == 0) return;
  fprintf(stderr, "melisma shim: %s: wrote outside a device allocation of %zu bytes, at byte offset %ld\n", culprit,
          bytes, offset);
  abort();
}

CUresult allocate(CUdeviceptr* pointer, size_t bytes) {
  if (!pointer || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > total_memory() - bytes_used) return CUDA_ERROR_OUT_OF_MEMORY;
  unsigned char* start = take_block(bytes);
  if (!start) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(start - RED_ZONE, POISON, RED_ZONE);
  memset(start, GARBAGE, bytes);
  memset(start + bytes, POISON, tail_bytes(bytes));
  *pointer = reinterpret_cast<CUdeviceptr>(start);
  device_blocks[*pointer] = bytes;
  bytes_used += bytes;
  return CUDA_SUCCESS;
}

CUresult release(CUdeviceptr pointer) {
  if (pointer == 0) return CUDA_SUCCESS;
  auto block = device_blocks.find(pointer);
  if (block == device_blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  check_block("before cuMemFree", pointer, block->second);
  bytes_used -= block->second;
  memset(bytes_at(pointer), GARBAGE, block->second);
  give_block(bytes_at(pointer), block->second);
  device_blocks.erase(block);
  return CUDA_SUCCESS;
}

CUresult copy(void* stream, void* to, const void* from, size_t bytes) {
  return submit(stream, [=] { memmove(to, from, bytes); });
}

// Copies that touch pageable memory and are not captured do not wait: from it they take the bytes at once, to it they end
// before the call does.
bool is_pageable(void* stream, const void* host, size_t bytes) {
  Stream* target = find_stream(stream);
  return target && !target->capture && !lies_in(pinned_blocks, reinterpret_cast<CUdeviceptr>(host), bytes);
}

CUresult copy_to_device(void* stream, CUdeviceptr to, const void* from, size_t bytes) {
  if (!is_device_range(to, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (is_pageable(stream, from, bytes)) {
    auto* first = static_cast<const unsigned char*>(from);
    std::vector<unsigned char> taken(first, first + bytes);
    return submit(stream, [=] { memcpy(bytes_at(to), taken.data(), bytes); });
  }
  return copy(stream, bytes_at(to), from, bytes);
}

CUresult copy_to_host(void* stream, void* to, CUdeviceptr from, size_t bytes) {
  if (!is_device_range(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  TRY(copy(stream, to, bytes_at(from), bytes));
  if (is_pageable(stream, to, bytes)) finish(*find_stream(stream));
  return CUDA_SUCCESS;
}

CUresult copy_on_device(void* stream, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  if (!is_device_range(to, bytes) || !is_device_range(from, bytes)) return CUDA_ERROR_INVALID_VALUE;
  return copy(stream, bytes_at(to), bytes_at(from), bytes);
}

template <class T>
CUresult fill(void* stream, CUdeviceptr to, T value, size_t count) {
  if (!is_device_range(to, count * sizeof(T)) || to % sizeof(T)) return CUDA_ERROR_INVALID_VALUE;
  T* values = reinterpret_cast<T*>(to);
  return submit(stream, [=] { std::fill_n(values, count, value); });
}

CUresult check_blocking_call() {
  TRY(check_context());
  return check_default_stream();
}

}  // namespace

void check_red_zones(const char* culprit) {
  for (const auto& [pointer, bytes] : device_blocks) check_block(culprit, pointer, bytes);
}

bool is_device_range(CUdeviceptr pointer, size_t bytes) {
  return bytes == 0 || lies_in(device_blocks, pointer, bytes) || lies_in(pinned_blocks, pointer, bytes) ||
         lies_in(globals, pointer, bytes);
}

void note_global(CUdeviceptr pointer, size_t bytes) { globals[pointer] = bytes; }

}  // namespace shim

using namespace shim;

API CUresult cuMemAlloc_v2(CUdeviceptr* pointer, size_t bytes) {
  Lock lock;
  TRY(check_context());
  TRY(check_not_capturing());
  return allocate(pointer, bytes);
}

API CUresult cuMemFree_v2(CUdeviceptr pointer) {
  Lock lock;
  TRY(check_context());
  TRY(check_not_capturing());
  finish_all();
  return release(pointer);
}

// Allocation nodes in graphs are not emulated: a capturing stream refuses both.
API CUresult cuMemAllocAsync(CUdeviceptr* pointer, size_t bytes, void* stream) {
  Lock lock;
  TRY(check_context());
  Stream* target = find_stream(stream);
  if (!target) return CUDA_ERROR_INVALID_HANDLE;
  if (target->capture) return check_not_capturing();
  return allocate(pointer, bytes);
}

API CUresult cuMemFreeAsync(CUdeviceptr pointer, void* stream) {
  Lock lock;
  TRY(check_context());
  Stream* target = find_stream(stream);
  if (!target) return CUDA_ERROR_INVALID_HANDLE;
  if (target->capture) return check_not_capturing();
  finish(*target);
  return release(pointer);
}

API CUresult cuMemAllocManaged(CUdeviceptr* pointer, size_t bytes, unsigned) { return cuMemAlloc_v2(pointer, bytes); }

API CUresult cuMemGetInfo_v2(size_t* free_bytes, size_t* total_bytes) {
  Lock lock;
  TRY(check_context());
  *free_bytes = total_memory() - bytes_used;
  *total_bytes = total_memory();
  return CUDA_SUCCESS;
}

API CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned) {
  Lock lock;
  TRY(check_context());
  TRY(check_not_capturing());
  if (!pointer || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  *pointer = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*pointer) return CUDA_ERROR_OUT_OF_MEMORY;
  memset(*pointer, GARBAGE, bytes);
  pinned_blocks[reinterpret_cast<CUdeviceptr>(*pointer)] = bytes;
  return CUDA_SUCCESS;
}
API CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) { return cuMemHostAlloc(pointer, bytes, 0); }

API CUresult cuMemFreeHost(void* pointer) {
  Lock lock;
  TRY(check_context());
  finish_all();
  if (!pinned_blocks.erase(reinterpret_cast<CUdeviceptr>(pointer))) return CUDA_ERROR_INVALID_VALUE;
  free(pointer);
  return CUDA_SUCCESS;
}

API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned) {
  Lock lock;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return lies_in(pinned_blocks, *device, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  Lock lock;
  TRY(check_blocking_call());
  return copy_to_device(nullptr, to, from, bytes);
}
API CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  Lock lock;
  TRY(check_blocking_call());
  return copy_to_host(nullptr, to, from, bytes);
}
API CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  Lock lock;
  TRY(check_blocking_call());
  return copy_on_device(nullptr, to, from, bytes);
}
API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, void* stream) {
  Lock lock;
  TRY(check_context());
  return copy_to_device(stream, to, from, bytes);
}
API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, void* stream) {
  Lock lock;
  TRY(check_context());
  return copy_to_host(stream, to, from, bytes);
}
API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void* stream) {
  Lock lock;
  TRY(check_context());
  return copy_on_device(stream, to, from, bytes);
}

#define MEMSET(SUFFIX, T)                                                                     \
  API CUresult cuMemset##SUFFIX##_v2(CUdeviceptr to, T value, size_t count) {                 \
    Lock lock;                                                                                \
    TRY(check_blocking_call());                                                               \
    return fill<T>(nullptr, to, value, count);                                                \
  }                                                                                           \
  API CUresult cuMemset##SUFFIX##Async(CUdeviceptr to, T value, size_t count, void* stream) { \
    Lock lock;                                                                                \
    TRY(check_context());                                                                     \
    return fill<T>(stream, to, value, count);                                                 \
  }
MEMSET(D8, unsigned char)
MEMSET(D16, unsigned short)
MEMSET(D32, unsigned)

API CUresult cuDeviceGetDefaultMemPool(void** pool, CUdevice) {
  *pool = &default_pool;
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetMemPool(void** pool, CUdevice device) { return cuDeviceGetDefaultMemPool(pool, device); }
API CUresult cuMemPoolTrimTo(void*, size_t) { return CUDA_SUCCESS; }
API CUresult cuMemAllocFromPoolAsync(CUdeviceptr* pointer, size_t bytes, void*, void* stream) {
  return cuMemAllocAsync(pointer, bytes, stream);
}
API CUresult cuMemPoolSetAttribute(void*, int attribute, void* value) {
  if (attribute == 4) memcpy(&pool_release_threshold, value, sizeof pool_release_threshold);
  return CUDA_SUCCESS;
}
API CUresult cuMemPoolGetAttribute(void*, int attribute, void* value) {
  if (attribute == 4)
    memcpy(value, &pool_release_threshold, sizeof pool_release_threshold);
  else if (attribute >= 5)
    memcpy(value, &bytes_used, sizeof bytes_used);
  else
    memset(value, 0, sizeof(int));
  return CUDA_SUCCESS;
}

// Memory type (2) and range queries are what callers ask for; the rest is refused.
API CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr pointer) {
  Lock lock;
  bool device = lies_in(device_blocks, pointer, 1), pinned = lies_in(pinned_blocks, pointer, 1);
  if (!device && !pinned) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == 2) {
    unsigned type = device ? 2 : 1;
    memcpy(value, &type, sizeof type);
    return CUDA_SUCCESS;
  }
  if (attribute == 9) {
    int ordinal = 0;
    memcpy(value, &ordinal, sizeof ordinal);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

// Modules are shared objects made by the fake compiler; a kernel is its three generated symbols.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "driver.h"
#include "fiber.h"

namespace shim {
namespace {

struct Function {
  std::string name;
  Entry entry;
  const unsigned long* sizes;  // the number of parameters, then the size of each
  int max_threads;
  int max_dynamic_shared = STATIC_SHARED_LIMIT;
};

struct Module {
  void* library;
  std::map<std::string, std::unique_ptr<Function>> functions;
};

// Never destroyed: threads may still call while the process exits.
auto& live_modules = *new std::set<Module*>;

// An image carries no length, but an ELF file ends with its section headers.
size_t image_bytes(const void* image) {
  const auto* header = static_cast<const Elf64_Ehdr*>(image);
  if (memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return 0;
  return header->e_shoff + size_t(header->e_shentsize) * header->e_shnum;
}

CUresult load(void** handle, const void* image) {
  TRY(check_context());
  TRY(check_not_capturing());
  size_t bytes = image ? image_bytes(image) : 0;
  if (bytes == 0) return CUDA_ERROR_INVALID_IMAGE;
  int file = memfd_create("melisma-shim-module", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  void* library = nullptr;
  if (write(file, image, bytes) == ssize_t(bytes)) {
    std::string path = "/proc/self/fd/" + std::to_string(file);
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "melisma shim: %s\n", dlerror());
  }
  // The descriptor stays open: a reused number would make the loader take the next module for this one.
  auto** slot = library ? static_cast<Context**>(dlsym(library, "shim_context")) : nullptr;
  if (!slot) return CUDA_ERROR_INVALID_IMAGE;
  *slot = context();
  auto* module = new Module{library, {}};
  live_modules.insert(module);
  *handle = module;
  return CUDA_SUCCESS;
}

template <class T>
T symbol(Module& module, const std::string& prefix, const char* name) {
  return reinterpret_cast<T>(dlsym(module.library, (prefix + name).c_str()));
}

bool fits(const Function& f, Dim grid, Dim block, unsigned shared_bytes) {
  if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z) return false;
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return false;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return false;
  return uint64_t(block.x) * block.y * block.z <= unsigned(f.max_threads) &&
         shared_bytes <= unsigned(f.max_dynamic_shared);
}

// A fault inside a kernel says which one before the process dies as it would have.
const char* running_kernel;

void report_fault(int) {
  for (const char* part : {"melisma shim: kernel ", running_kernel ? running_kernel : "(none)", ": memory fault\n"})
    if (write(2, part, strlen(part)) < 0) break;
  signal(SIGSEGV, SIG_DFL);
}

void run_reported(const Launch& launch) {
  struct sigaction ours = {}, before = {};
  ours.sa_handler = report_fault;
  ours.sa_flags = SA_ONSTACK;
  sigaction(SIGSEGV, &ours, &before);
  running_kernel = launch.name;
  run_grid(launch);
  running_kernel = nullptr;
  sigaction(SIGSEGV, &before, nullptr);
}

CUresult launch(Function& f, Dim grid, Dim block, unsigned shared_bytes, void* stream, void** params) {
  TRY(check_context());
  if (!fits(f, grid, block, shared_bytes)) return CUDA_ERROR_INVALID_VALUE;
  size_t count = f.sizes[0];
  if (count && !params) return CUDA_ERROR_INVALID_VALUE;
  // 16-byte cells keep every parameter aligned; a graph replays from this copy.
  std::vector<size_t> offsets(count);
  size_t cells = 0;
  for (size_t i = 0; i < count; i++) {
    offsets[i] = cells;
    cells += (f.sizes[1 + i] + 15) / 16;
  }
  struct alignas(16) Cell {
    unsigned char bytes[16];
  };
  std::vector<Cell> values(cells);
  for (size_t i = 0; i < count; i++) memcpy(&values[offsets[i]], params[i], f.sizes[1 + i]);
  return submit(stream, [&f, grid, block, shared_bytes, offsets, values]() mutable {
    std::vector<void*> args;
    for (size_t offset : offsets) args.push_back(&values[offset]);
    run_reported({f.name.c_str(), f.entry, args.data(), grid, block, shared_bytes});
    check_red_zones(("kernel " + f.name).c_str());
  });
}

int blocks_per_multiprocessor(const Function& f, int block_size, size_t shared_bytes) {
  if (block_size <= 0 || block_size > f.max_threads) return 0;
  int warps = (block_size + 31) / 32;
  int by_threads = MAX_SM_THREADS / (warps * 32);
  int by_shared = int(SM_SHARED / (shared_bytes + 1024));
  return std::min({by_threads, by_shared, MAX_SM_BLOCKS});
}

}  // namespace
}  // namespace shim

using namespace shim;

API CUresult cuModuleLoadData(void** module, const void* image) {
  Lock lock;
  return load(module, image);
}
API CUresult cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return cuModuleLoadData(module, image);
}

API CUresult cuModuleLoad(void** module, const char* path) {
  Lock lock;
  FILE* file = fopen(path, "rb");
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::string image;
  char part[65536];
  for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;) image.append(part, n);
  fclose(file);
  if (image.size() < sizeof(Elf64_Ehdr) || image_bytes(image.data()) > image.size()) return CUDA_ERROR_INVALID_IMAGE;
  return load(module, image.data());
}

// The code stays mapped, as a captured graph may still call it.
API CUresult cuModuleUnload(void* handle) {
  Lock lock;
  TRY(check_context());
  return live_modules.erase(static_cast<Module*>(handle)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

API CUresult cuModuleGetFunction(void** function, void* handle, const char* name) {
  Lock lock;
  auto* module = static_cast<Module*>(handle);
  if (!live_modules.count(module)) return CUDA_ERROR_INVALID_HANDLE;
  auto& entry = module->functions[name];
  if (!entry) {
    auto call = symbol<Entry>(*module, "shim_entry_", name);
    auto sizes = symbol<const unsigned long* (*)()>(*module, "shim_sizes_", name);
    auto bounds = symbol<int (*)()>(*module, "shim_bounds_", name);
    if (!call || !sizes || !bounds) return CUDA_ERROR_NOT_FOUND;
    entry.reset(new Function{name, call, sizes(), bounds()});
  }
  *function = entry.get();
  return CUDA_SUCCESS;
}

API CUresult cuModuleGetGlobal_v2(CUdeviceptr* pointer, size_t* bytes, void* handle, const char* name) {
  Lock lock;
  auto* module = static_cast<Module*>(handle);
  if (!live_modules.count(module)) return CUDA_ERROR_INVALID_HANDLE;
  void* address = dlsym(module->library, name);
  Dl_info info;
  ElfW(Sym)* entry = nullptr;
  if (!address || !dladdr1(address, &info, reinterpret_cast<void**>(&entry), RTLD_DL_SYMENT) || !entry)
    return CUDA_ERROR_NOT_FOUND;
  if (pointer) *pointer = reinterpret_cast<CUdeviceptr>(address);
  if (bytes) *bytes = entry->st_size;
  note_global(reinterpret_cast<CUdeviceptr>(address), entry->st_size);
  return CUDA_SUCCESS;
}

API CUresult cuFuncGetAttribute(int* value, int attribute, void* function) {
  auto* f = static_cast<Function*>(function);
  switch (attribute) {
    case 0: *value = f->max_threads; break;
    case 4: *value = 32; break;  // registers
    case 5:
    case 6: *value = 90; break;  // PTX and binary version
    case 8: *value = f->max_dynamic_shared; break;
    default: *value = 0;
  }
  return CUDA_SUCCESS;
}

API CUresult cuFuncSetAttribute(void* function, int attribute, int value) {
  Lock lock;
  TRY(check_context());
  if (attribute != 8) return attribute == 9 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (value < 0 || value > SHARED_LIMIT) return CUDA_ERROR_INVALID_VALUE;
  static_cast<Function*>(function)->max_dynamic_shared = value;
  return CUDA_SUCCESS;
}

API CUresult cuFuncSetCacheConfig(void*, int) { return check_context(); }

API CUresult cuFuncGetParamInfo(void* function, size_t index, size_t* offset, size_t* size) {
  auto* f = static_cast<Function*>(function);
  if (index >= f->sizes[0]) return CUDA_ERROR_INVALID_VALUE;
  size_t at = 0;
  for (size_t i = 0; i <= index; i++) {
    size_t alignment = std::min<size_t>(f->sizes[1 + i] & -f->sizes[1 + i], 16);
    at = (at + alignment - 1) / alignment * alignment;
    if (i < index) at += f->sizes[1 + i];
  }
  *offset = at;
  if (size) *size = f->sizes[1 + index];
  return CUDA_SUCCESS;
}

API CUresult cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                            unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** params,
                            void** extra) {
  Lock lock;
  if (!function) return CUDA_ERROR_INVALID_HANDLE;
  if (extra) return CUDA_ERROR_NOT_SUPPORTED;
  return launch(*static_cast<Function*>(function), {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes,
                stream, params);
}

// Blocks run one after another, so a barrier of the whole grid could never be passed.
API CUresult cuLaunchCooperativeKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                       void*, void**) {
  return CUDA_ERROR_NOT_SUPPORTED;
}

API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* function, int block_size,
                                                                  size_t shared_bytes, unsigned) {
  *blocks = blocks_per_multiprocessor(*static_cast<Function*>(function), block_size, shared_bytes);
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int block_size,
                                                         size_t shared_bytes) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size, shared_bytes, 0);
}

API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, void* function, size_t (*shared_of)(int),
                                                       size_t shared_bytes, int limit, unsigned) {
  auto& f = *static_cast<Function*>(function);
  *block = limit > 0 ? std::min(limit, f.max_threads) : f.max_threads;
  *grid = SM_COUNT * blocks_per_multiprocessor(f, *block, shared_of ? shared_of(*block) : shared_bytes);
  return CUDA_SUCCESS;
}
API CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void* function, size_t (*shared_of)(int),
                                              size_t shared_bytes, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared_bytes, limit, 0);
}

API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, void*, int blocks, int) {
  *bytes = blocks > 0 ? size_t(std::min(SM_SHARED / blocks - 1024, SHARED_LIMIT)) : 0;
  return CUDA_SUCCESS;
}

// The little the self-test needs to speak to the fake libraries: calls by name, buffers, kernels.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

struct Libraries {
  void *cuda, *nvrtc, *cublaslt;
};
inline Libraries libraries;

inline void* open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) fprintf(stderr, "%s\n", dlerror()), exit(2);
  return library;
}

// The argument types must be exactly the function's.
template <class... A>
int call(void* library, const char* name, A... args) {
  void* symbol = dlsym(library, name);
  if (!symbol) fprintf(stderr, "no symbol %s\n", name), exit(2);
  return reinterpret_cast<int (*)(A...)>(symbol)(args...);
}

template <class... A>
int cuda(const char* name, A... args) {
  return call(libraries.cuda, name, args...);
}

inline void must(int result, const char* what) {
  if (result) fprintf(stderr, "%s: error %d\n", what, result), exit(2);
}

template <class T>
struct Buffer {
  uint64_t pointer = 0;
  size_t count;
  explicit Buffer(size_t count) : count(count) {
    must(cuda("cuMemAlloc_v2", &pointer, size_t(count * sizeof(T))), "cuMemAlloc_v2");
  }
  explicit Buffer(const std::vector<T>& values) : Buffer(values.size()) {
    must(cuda("cuMemcpyHtoD_v2", pointer, static_cast<const void*>(values.data()), size_t(count * sizeof(T))),
         "cuMemcpyHtoD_v2");
  }
  Buffer(const Buffer&) = delete;
  ~Buffer() { must(cuda("cuMemFree_v2", pointer), "cuMemFree_v2"); }
  std::vector<T> read() const {
    std::vector<T> values(count);
    must(cuda("cuMemcpyDtoH_v2", static_cast<void*>(values.data()), pointer, size_t(count * sizeof(T))),
         "cuMemcpyDtoH_v2");
    return values;
  }
};

inline std::string read_text(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// NVRTC's result; fills `image` or `log`.
inline int compile(const std::string& source, const std::string& header, std::string& image, std::string& log) {
  void *nvrtc = libraries.nvrtc, *program = nullptr;
  const char *headers[] = {header.c_str()}, *names[] = {"device.cuh"};
  const char* options[] = {"--gpu-architecture=sm_90", "--std=c++17", "-default-device", "-DBLOCK=128"};
  must(call(nvrtc, "nvrtcCreateProgram", &program, source.c_str(), "selftest.cu", 1, static_cast<const char**>(headers),
            static_cast<const char**>(names)),
       "nvrtcCreateProgram");
  int result = call(nvrtc, "nvrtcCompileProgram", program, 4, static_cast<const char**>(options));
  size_t bytes = 0;
  call(nvrtc, "nvrtcGetProgramLogSize", program, &bytes);
  log.resize(bytes);
  call(nvrtc, "nvrtcGetProgramLog", program, log.data());
  call(nvrtc, "nvrtcGetCUBINSize", program, &bytes);
  image.resize(bytes);
  call(nvrtc, "nvrtcGetCUBIN", program, image.data());
  call(nvrtc, "nvrtcDestroyProgram", &program);
  return result;
}

struct Shape {
  unsigned grid, block, shared = 0;
  void* stream = nullptr;
};

inline void* module_handle;

inline void* function(const char* name) {
  void* handle = nullptr;
  must(cuda("cuModuleGetFunction", &handle, module_handle, name), name);
  return handle;
}

template <class... A>
int launch(const char* name, Shape shape, A... args) {
  void* params[] = {&args..., nullptr};
  return cuda("cuLaunchKernel", function(name), shape.grid, 1u, 1u, shape.block, 1u, 1u, shape.shared, shape.stream,
              static_cast<void**>(params), static_cast<void**>(nullptr));
}

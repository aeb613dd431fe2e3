// usage: selftest LIBDIR SELFTEST_CU DEVICE_CUH
#include "selftest.h"

#include "selftest_kernel.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

namespace {

using Test = bool (*)();

// Whether `work` dies of the signal with all of the words in its message.
bool dies(int signal, const std::function<void()>& work, const std::vector<std::string>& words) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    work();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) text.append(part, size_t(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  for (const std::string& word : words)
    if (text.find(word) == std::string::npos) return false;
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

bool graph_replay() {
  void *stream = nullptr, *side = nullptr, *fork = nullptr, *join = nullptr, *graph = nullptr, *executable = nullptr;
  for (void** handle : {&stream, &side}) must(cuda("cuStreamCreate", handle, 1u), "cuStreamCreate");
  for (void** handle : {&fork, &join}) must(cuda("cuEventCreate", handle, 2u), "cuEventCreate");
  Buffer<float> values(std::vector<float>(100, 1.0f)), copy(100);
  must(cuda("cuStreamBeginCapture_v2", stream, 1), "begin");
  must(launch("scale", {1, 64, 0, stream}, values.pointer, 3.0f, 100u), "scale");
  must(cuda("cuEventRecord", fork, stream), "record");
  must(cuda("cuStreamWaitEvent", side, fork, 0u), "wait");
  must(cuda("cuMemcpyDtoDAsync_v2", copy.pointer, values.pointer, size_t(400), side), "copy");
  must(cuda("cuEventRecord", join, side), "record");
  must(cuda("cuStreamWaitEvent", stream, join, 0u), "wait");
  must(cuda("cuMemsetD8Async", values.pointer, (unsigned char)0, size_t(4), stream), "memset");
  must(cuda("cuStreamEndCapture", stream, &graph), "end");
  must(cuda("cuGraphInstantiateWithFlags", &executable, graph, 0ull), "instantiate");
  must(cuda("cuGraphDestroy", graph), "destroy");
  if (values.read()[1] != 1.0f) return false;
  for (int i = 0; i < 2; i++) must(cuda("cuGraphLaunch", executable, stream), "launch");
  must(cuda("cuStreamSynchronize", stream), "synchronize");
  bool same = values.read()[0] == 0.0f && values.read()[1] == 9.0f && copy.read()[0] == 0.0f && copy.read()[99] == 9.0f;
  must(cuda("cuGraphExecDestroy", executable), "destroy");
  for (void* handle : {fork, join}) must(cuda("cuEventDestroy_v2", handle), "destroy");
  for (void* handle : {stream, side}) must(cuda("cuStreamDestroy_v2", handle), "destroy");
  return same;
}

// With MELISMA_SHIM_LATE a stream that waits for nothing sees nothing of another one's work, and pinned memory is read late.
bool late_work_waits() {
  bool late = getenv("MELISMA_SHIM_LATE") != nullptr;
  void *stream = nullptr, *side = nullptr, *event = nullptr, *pinned = nullptr;
  for (void** handle : {&stream, &side}) must(cuda("cuStreamCreate", handle, 1u), "cuStreamCreate");
  must(cuda("cuEventCreate", &event, 0u), "cuEventCreate");
  must(cuda("cuMemHostAlloc", &pinned, size_t(400), 0u), "pin");
  Buffer<float> values(std::vector<float>(100, 1.0f)), copy(100);
  auto copied = [&] {
    must(cuda("cuMemcpyDtoDAsync_v2", copy.pointer, values.pointer, size_t(400), side), "copy");
    must(cuda("cuStreamSynchronize", side), "synchronize");
    return copy.read()[0];
  };
  must(launch("scale", {1, 64, 0, stream}, values.pointer, 3.0f, 100u), "scale");
  bool ok = copied() == (late ? 1.0f : 3.0f);
  must(cuda("cuEventRecord", event, stream), "record");
  must(cuda("cuStreamWaitEvent", side, event, 0u), "wait");
  ok &= copied() == 3.0f;
  *static_cast<float*>(pinned) = 5.0f;
  must(cuda("cuMemcpyHtoDAsync_v2", values.pointer, static_cast<const void*>(pinned), size_t(400), stream), "copy");
  *static_cast<float*>(pinned) = 7.0f;
  must(cuda("cuStreamSynchronize", stream), "synchronize");
  ok &= values.read()[0] == (late ? 7.0f : 5.0f);
  must(cuda("cuMemFreeHost", pinned), "free");
  must(cuda("cuEventDestroy_v2", event), "destroy");
  for (void* handle : {stream, side}) must(cuda("cuStreamDestroy_v2", handle), "destroy");
  return ok;
}

bool broken_captures() {
  void *stream = nullptr, *side = nullptr, *event = nullptr, *graph = nullptr;
  for (void** handle : {&stream, &side}) must(cuda("cuStreamCreate", handle, 1u), "cuStreamCreate");
  must(cuda("cuEventCreate", &event, 2u), "cuEventCreate");
  uint64_t pointer = 0;
  must(cuda("cuStreamBeginCapture_v2", stream, 1), "begin");
  bool refused =
      cuda("cuMemAlloc_v2", &pointer, size_t(16)) == 900 && cuda("cuStreamEndCapture", stream, &graph) == 901;
  must(cuda("cuStreamBeginCapture_v2", stream, 1), "begin");
  must(cuda("cuEventRecord", event, stream), "record");
  must(cuda("cuStreamWaitEvent", side, event, 0u), "wait");
  refused &= cuda("cuStreamEndCapture", stream, &graph) == 904;
  must(cuda("cuEventDestroy_v2", event), "destroy");
  for (void* handle : {stream, side}) must(cuda("cuStreamDestroy_v2", handle), "destroy");
  return refused;
}

bool out_of_memory() {
  size_t free_bytes = 0, total = 0, after = 0;
  must(cuda("cuMemGetInfo_v2", &free_bytes, &total), "info");
  Buffer<char> block(1 << 20);
  must(cuda("cuMemGetInfo_v2", &after, &total), "info");
  uint64_t pointer = 0;
  return free_bytes - after == 1 << 20 && cuda("cuMemAlloc_v2", &pointer, after + 1) == 2;
}

bool bad_launches() {
  Buffer<float> values(1);
  auto result = [&](Shape shape) { return launch("scale", shape, values.pointer, 1.0f, 0u); };
  Buffer<uint32_t> sums(1);
  bool bounded = launch("block_sum", {1, 256}, sums.pointer, sums.pointer) == 1;
  bool refused = result({1, 1025}) == 1 && result({0, 32}) == 1 && result({1, 32, 49153}) == 1;
  must(cuda("cuFuncSetAttribute", function("scale"), 8, 100000), "attribute");
  return bounded && refused && result({1, 32, 100000}) == 0 &&
         cuda("cuFuncSetAttribute", function("scale"), 8, 300000) == 1;
}

bool overrun_aborts() {
  Buffer<char> block(100);
  return dies(SIGABRT, [&] { launch("overrun", {1, 1}, block.pointer, 100u); }, {"kernel overrun", "byte offset 100"});
}

bool fenced_read_dies() {
  const char* fence = getenv("MELISMA_SHIM_FENCE");
  if (!fence || strcmp(fence, "1") != 0) return true;
  Buffer<char> block(96), out(1);
  return dies(SIGSEGV, [&] { launch("read_past", {1, 1}, block.pointer, out.pointer, 96u); }, {"kernel read_past"});
}

bool deadlock_aborts() {
  return dies(SIGABRT, [] { launch("deadlock", {1, 32}); }, {"kernel deadlock", "deadlock: 16 threads", "__syncwarp"});
}

bool matmul() {
  void* lt = libraries.cublaslt;
  void *handle = nullptr, *product = nullptr, *layout_a = nullptr, *layout_b = nullptr, *layout_d = nullptr;
  uint64_t m = 5, n = 7, k = 9;
  std::vector<float> a = noise(k * m, 7), b = noise(k * n, 8);
  Buffer<float> da(a), db(b), dd(std::vector<float>(m * n, 1.0f));
  must(call(lt, "cublasLtCreate", &handle), "create");
  must(call(lt, "cublasLtMatmulDescCreate", &product, 68, 0), "desc");
  int transpose = 1;
  must(call(lt, "cublasLtMatmulDescSetAttribute", product, 3, static_cast<const void*>(&transpose), size_t(4)),
       "transpose");
  must(call(lt, "cublasLtMatrixLayoutCreate", &layout_a, 0, k, m, int64_t(k)), "layout");
  must(call(lt, "cublasLtMatrixLayoutCreate", &layout_b, 0, k, n, int64_t(k)), "layout");
  must(call(lt, "cublasLtMatrixLayoutCreate", &layout_d, 0, m, n, int64_t(m)), "layout");
  float alpha = 2.0f, beta = 0.5f;
  auto at = [](uint64_t pointer) { return reinterpret_cast<void*>(pointer); };
  must(call(lt, "cublasLtMatmul", handle, product, &alpha, at(da.pointer), layout_a, at(db.pointer), layout_b, &beta,
            at(dd.pointer), layout_d, at(dd.pointer), layout_d, at(0), at(0), size_t(0), at(0)),
       "matmul");
  std::vector<float> got = dd.read();
  for (uint64_t i = 0; i < m; i++)
    for (uint64_t j = 0; j < n; j++) {
      double sum = 0.0;
      for (uint64_t l = 0; l < k; l++) sum += double(a[i * k + l]) * double(b[j * k + l]);
      if (std::fabs(2.0 * sum + 0.5 - got[j * m + i]) > 1e-5) return false;
    }
  for (void* layout : {layout_a, layout_b, layout_d}) must(call(lt, "cublasLtMatrixLayoutDestroy", layout), "destroy");
  return call(lt, "cublasLtMatmulDescDestroy", product) == 0 && call(lt, "cublasLtDestroy", handle) == 0;
}

bool threads_are_cheap() {
  Buffer<float> values(1 << 20);
  auto start = std::chrono::steady_clock::now();
  must(launch("scale", {4096, 256}, values.pointer, 2.0f, 1u << 20), "scale");
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  double nanoseconds = time.count() * 1e9 / (1 << 20);
  printf("  %.0f ns per thread\n", nanoseconds);
  return nanoseconds < 500;
}

std::string header_text;

bool compile_error() {
  std::string image, log;
  int result = compile("#include \"device.cuh\"\nextern \"C\" __global__ void wrong(u32* out) { out[0] = missing; }\n",
                       header_text, image, log);
  return result == 6 && image.empty() && log.find("selftest.cu:2") != std::string::npos &&
         log.find("missing") != std::string::npos;
}

}  // namespace

int main(int, char** argv) {
  std::string folder = argv[1];
  libraries = {open_library(folder + "/libcuda.so.1"), open_library(folder + "/libnvrtc.so.13"),
               open_library(folder + "/libcublasLt.so.13")};
  void* context = nullptr;
  must(cuda("cuInit", 0u), "cuInit");
  must(cuda("cuDevicePrimaryCtxRetain", &context, 0), "retain");
  must(cuda("cuCtxSetCurrent", context), "current");
  header_text = read_text(argv[3]);
  std::string image, log;
  if (compile(read_text(argv[2]), header_text, image, log)) return fprintf(stderr, "%s\n", log.c_str()), 1;
  must(cuda("cuModuleLoadData", &module_handle, static_cast<const void*>(image.data())), "cuModuleLoadData");

  struct Case {
    const char* name;
    Test run;
  };
  const Case cases[] = {{"vector add", vector_add},
                        {"block sum", block_sum},
                        {"warp helpers", warp_helpers},
                        {"half warps", half_warps},
                        {"staged copies", staged_copies},
                        {"streaming copies", streaming_copies},
                        {"halves round trip", halves_round_trip},
                        {"conversions", conversions},
                        {"mma tf32", mma_tf32},
                        {"mma bf16", mma_bf16},
                        {"mma f16", mma_f16},
                        {"early exit", early_exit},
                        {"constant table", constant_table},
                        {"graph replay", graph_replay},
                        {"late work waits", late_work_waits},
                        {"broken captures", broken_captures},
                        {"out of memory", out_of_memory},
                        {"bad launches", bad_launches},
                        {"overrun aborts", overrun_aborts},
                        {"deadlock aborts", deadlock_aborts},
                        {"fenced read dies", fenced_read_dies},
                        {"matmul", matmul},
                        {"threads are cheap", threads_are_cheap},
                        {"compile error", compile_error}};
  int passed = 0, failed = 0;
  for (const Case& test : cases) {
    bool ok = test.run();
    (ok ? passed : failed)++;
    if (!ok) printf("FAILED %s\n", test.name);
  }
  must(cuda("cuCtxSynchronize"), "cuCtxSynchronize");
  printf("%d passed, %d failed\n", passed, failed);
  return failed != 0;
}

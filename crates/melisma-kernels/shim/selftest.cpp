// usage: selftest LIBDIR SELFTEST_CU DEVICE_CUH
#include "selftest.h"

#include "bits.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>

namespace {

using Test = bool (*)();

std::vector<float> noise(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = float(int32_t(seed) >> 8) / float(1 << 23);
  }
  return values;
}

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

bool vector_add() {
  size_t n = 10007;
  std::vector<float> a = noise(n, 1), b = noise(n, 2);
  Buffer<float> da(a), db(b), sum(n);
  if (launch("vector_add", {7, 96}, da.pointer, db.pointer, sum.pointer, uint64_t(n))) return false;
  std::vector<float> got = sum.read();
  for (size_t i = 0; i < n; i++)
    if (got[i] != a[i] + b[i]) return false;
  return true;
}

bool block_sum() {
  std::vector<uint32_t> values(5 * 128), expected(5);
  for (uint32_t i = 0; i < values.size(); i++) values[i] = i * i, expected[i / 128] += i * i;
  Buffer<uint32_t> in(values), out(5);
  return launch("block_sum", {5, 128}, in.pointer, out.pointer) == 0 && out.read() == expected;
}

bool warp_helpers() {
  std::vector<uint64_t> values(64);
  for (uint64_t i = 0; i < 64; i++) values[i] = i * 7 % 64 + 1;
  Buffer<uint64_t> in(values), out(64 * 6);
  if (launch("warp_helpers", {1, 64}, in.pointer, out.pointer)) return false;
  std::vector<uint64_t> got = out.read();
  for (uint64_t i = 0; i < 64; i++) {
    uint64_t first = i / 32 * 32, sum = 0, prefix = 0;
    uint32_t odd = 0;
    for (uint64_t j = first; j < first + 32; j++) {
      sum += values[j];
      if (j <= i) prefix += values[j];
      odd |= uint32_t(values[j] & 1) << (j - first);
    }
    uint64_t expected[6] = {sum, prefix, values[first + 31], values[i % 32 == 31 ? i : i + 1],
                            uint64_t(__builtin_popcount(odd) + __builtin_popcountll(values[i])),
                            uint64_t(__builtin_clz(odd) + __builtin_clzll(values[i]))};
    if (memcmp(expected, &got[i * 6], sizeof expected) != 0) return false;
  }
  return true;
}

bool half_warps() {
  Buffer<uint32_t> out(64);
  if (launch("half_warps", {1, 64}, out.pointer)) return false;
  std::vector<uint32_t> got = out.read();
  for (uint32_t i = 0; i < 64; i++)
    if (got[i] != (i % 32 < 16 ? 0xaaaau + (i % 32 ^ 1) : 20)) return false;
  return true;
}

bool staged_copies() {
  unsigned size = 32, tiles = 3, n = 90;
  std::vector<float> in = noise(n * 4, 3);
  Buffer<float> source(in), out(size * tiles * 4);
  if (launch("reverse_tiles", {1, size, 2 * size * 16}, source.pointer, out.pointer, n, tiles)) return false;
  std::vector<float> got = out.read();
  for (unsigned i = 0; i < size * tiles * 4; i++) {
    unsigned from = (i / 4 / size * size + size - 1 - i / 4 % size) * 4 + i % 4;
    if (got[i] != (from < n * 4 ? in[from] : 0.0f)) return false;
  }
  return true;
}

bool streaming_copies() {
  std::vector<float> in = noise(32 * 4, 4);
  Buffer<float> source(in), out(32 * 4);
  return launch("copy_streaming", {1, 32}, source.pointer, out.pointer) == 0 && out.read() == in;
}

bool halves_round_trip() {
  Buffer<uint16_t> f16(65536), bf16(65536);
  if (launch("halves_round_trip", {256, 256}, f16.pointer, bf16.pointer)) return false;
  std::vector<uint16_t> got_f16 = f16.read(), got_bf16 = bf16.read();
  for (uint32_t i = 0; i < 65536; i++) {
    uint32_t quiet_f16 = (i & 0x7fff) > 0x7c00 ? 0x0200 : 0, quiet_bf16 = (i & 0x7fff) > 0x7f80 ? 0x0040 : 0;
    if (got_f16[i] != (i | quiet_f16) || got_bf16[i] != (i | quiet_bf16)) return false;
  }
  return true;
}

struct Conversion {
  float in;
  uint16_t f16, bf16;
  uint32_t tf32;
  int32_t whole;
};

bool conversions() {
  const Conversion cases[] = {
      {65519.996f, 0x7bff, 0x4780, 0x477fe000, 65520}, {65520.0f, 0x7c00, 0x4780, 0x47800000, 65520},
      {5.9604645e-8f, 0x0001, 0x3380, 0x33800000, 0},  {2.9802322e-8f, 0x0000, 0x3300, 0x33000000, 0},
      {2.9802326e-8f, 0x0001, 0x3300, 0x33000000, 0},  {6.1035156e-5f, 0x0400, 0x3880, 0x38800000, 0},
      {float_of(0x387fe000), 0x0400, 0x3880, 0x387fe000, 0}, {float_of(0x387fdfff), 0x03ff, 0x3880, 0x387fe000, 0},  {1.00048828125f, 0x3c00, 0x3f80, 0x3f802000, 1},
      {-2.5f, 0xc100, 0xc020, 0xc0200000, -2},         {3e9f, 0x7c00, 0x4f33, 0x4f32e000, 2147483647},
      {float_of(0xff800001), 0xfe00, 0xffc0, 0x7fffffff, 0}, {float_of(0x7fa12345), 0x7f09, 0x7fe1, 0x7fffffff, 0},
      {-INFINITY, 0xfc00, 0xff80, 0xff800000, INT32_MIN},    {-0.0f, 0x8000, 0x8000, 0x80000000, 0},
  };
  constexpr unsigned n = sizeof cases / sizeof cases[0];
  std::vector<float> in;
  for (const Conversion& c : cases) in.push_back(c.in);
  Buffer<float> source(in);
  Buffer<uint16_t> f16(n), bf16(n);
  Buffer<uint32_t> tf32(n);
  Buffer<int32_t> whole(n);
  if (launch("convert", {1, 32}, source.pointer, f16.pointer, bf16.pointer, tf32.pointer, whole.pointer, n)) return false;
  bool same = true;
  for (unsigned i = 0; i < n; i++) {
    Conversion got = {in[i], f16.read()[i], bf16.read()[i], tf32.read()[i], whole.read()[i]};
    if (got.f16 == cases[i].f16 && got.bf16 == cases[i].bf16 && got.tf32 == cases[i].tf32 && got.whole == cases[i].whole) continue;
    fprintf(stderr, "  %08x -> %04x %04x %08x %d\n", bits_of(in[i]), got.f16, got.bf16, got.tf32, got.whole);
    same = false;
  }
  return same;
}

bool product(const char* kernel, unsigned depth, float (*rounded)(float)) {
  std::vector<float> a = noise(16 * depth, 5), b = noise(depth * 8, 6);
  Buffer<float> da(a), db(b), d(16 * 8);
  if (launch(kernel, {1, 32}, da.pointer, db.pointer, d.pointer)) return false;
  std::vector<float> got = d.read();
  for (unsigned i = 0; i < 16; i++)
    for (unsigned j = 0; j < 8; j++) {
      double sum = 1.0;
      for (unsigned k = 0; k < depth; k++) sum += double(rounded(a[i * depth + k])) * double(rounded(b[k * 8 + j]));
      if (std::fabs(sum - got[i * 8 + j]) > 1e-6) return false;
    }
  return true;
}

bool mma_tf32() {
  return product("multiply_tf32", 8, [](float x) { return float_of((bits_of(x) + 0x1000) & 0xffffe000); });
}
bool mma_bf16() {
  return product("multiply_bf16", 16, [](float x) { return float_of((bits_of(x) + 0x7fff + (bits_of(x) >> 16 & 1)) & 0xffff0000); });
}
bool mma_f16() {
  return product("multiply_f16", 16, [](float x) { return float_of((bits_of(x) + 0x0fff + (bits_of(x) >> 13 & 1)) & 0xffffe000); });
}

bool early_exit() {
  Buffer<uint32_t> out(std::vector<uint32_t>{0});
  return launch("early_exit", {3, 100}, out.pointer) == 0 && out.read()[0] == 150;
}

bool constant_table() {
  uint64_t pointer = 0;
  size_t bytes = 0;
  float values[4] = {1, 2, 3, 4};
  if (cuda("cuModuleGetGlobal_v2", &pointer, &bytes, module_handle, "table") || bytes != sizeof values) return false;
  if (cuda("cuMemcpyHtoD_v2", pointer, static_cast<const void*>(values), bytes)) return false;
  Buffer<float> out(4);
  return launch("read_table", {1, 4}, out.pointer) == 0 && out.read() == std::vector<float>{1, 2, 3, 4};
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
  bool refused = cuda("cuMemAlloc_v2", &pointer, size_t(16)) == 900 && cuda("cuStreamEndCapture", stream, &graph) == 901;
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
  return bounded && refused && result({1, 32, 100000}) == 0 && cuda("cuFuncSetAttribute", function("scale"), 8, 300000) == 1;
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
  must(call(lt, "cublasLtMatmulDescSetAttribute", product, 3, static_cast<const void*>(&transpose), size_t(4)), "transpose");
  must(call(lt, "cublasLtMatrixLayoutCreate", &layout_a, 0, k, m, int64_t(k)), "layout");
  must(call(lt, "cublasLtMatrixLayoutCreate", &layout_b, 0, k, n, int64_t(k)), "layout");
  must(call(lt, "cublasLtMatrixLayoutCreate", &layout_d, 0, m, n, int64_t(m)), "layout");
  float alpha = 2.0f, beta = 0.5f;
  auto at = [](uint64_t pointer) { return reinterpret_cast<void*>(pointer); };
  must(call(lt, "cublasLtMatmul", handle, product, &alpha, at(da.pointer), layout_a, at(db.pointer), layout_b, &beta, at(dd.pointer), layout_d,
            at(dd.pointer), layout_d, at(0), at(0), size_t(0), at(0)), "matmul");
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
  int result = compile("#include \"device.cuh\"\nextern \"C\" __global__ void wrong(u32* out) { out[0] = missing; }\n", header_text, image, log);
  return result == 6 && image.empty() && log.find("selftest.cu:2") != std::string::npos && log.find("missing") != std::string::npos;
}

}  // namespace

int main(int, char** argv) {
  std::string folder = argv[1];
  libraries = {open_library(folder + "/libcuda.so.1"), open_library(folder + "/libnvrtc.so.13"), open_library(folder + "/libcublasLt.so.13")};
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
  const Case cases[] = {{"vector add", vector_add}, {"block sum", block_sum}, {"warp helpers", warp_helpers}, {"half warps", half_warps},
                        {"staged copies", staged_copies}, {"streaming copies", streaming_copies}, {"halves round trip", halves_round_trip},
                        {"conversions", conversions}, {"mma tf32", mma_tf32}, {"mma bf16", mma_bf16}, {"mma f16", mma_f16},
                        {"early exit", early_exit}, {"constant table", constant_table}, {"graph replay", graph_replay},
                        {"late work waits", late_work_waits},
                        {"broken captures", broken_captures}, {"out of memory", out_of_memory}, {"bad launches", bad_launches},
                        {"overrun aborts", overrun_aborts}, {"deadlock aborts", deadlock_aborts}, {"fenced read dies", fenced_read_dies}, {"matmul", matmul},
                        {"threads are cheap", threads_are_cheap}, {"compile error", compile_error}};
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

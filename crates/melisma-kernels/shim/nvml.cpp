// The management library: one GPU with fixed figures. `shimNvmlAnswer` makes every later call fail, and
// so does a device that has disappeared.
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

API int shim_is_lost();

static int given = 0;
static char device;

constexpr int GPU_IS_LOST = 15;

static int answer() { return shim_is_lost() ? GPU_IS_LOST : given; }

API void shimNvmlAnswer(int code) { given = code; }

API int nvmlInit_v2() { return answer(); }

API int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** handle) {
  if (strcmp(place, "00000000:00:00.0") != 0) return 6;  // not found
  *handle = &device;
  return answer();
}

API int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long* bytes) {
  if (handle != &device) return 2;  // invalid argument
  bytes[0] = 4ull << 30, bytes[1] = 3ull << 30, bytes[2] = 1ull << 30;  // total, free, used
  return answer();
}

API int nvmlDeviceGetUtilizationRates(void* handle, unsigned* percent) {
  if (handle != &device) return 2;
  percent[0] = 37, percent[1] = 11;  // kernels, memory
  return answer();
}

API int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  if (handle != &device) return 2;
  *milliwatts = 123456;
  return answer();
}

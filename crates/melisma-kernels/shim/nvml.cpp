// The management library: one GPU with fixed figures. `shimNvmlAnswer` makes every later call fail.
#include <cstring>

#define API extern "C" __attribute__((visibility("default")))

static int answer = 0;
static char device;

API void shimNvmlAnswer(int code) { answer = code; }

API int nvmlInit_v2() { return answer; }

API int nvmlDeviceGetHandleByPciBusId_v2(const char* place, void** handle) {
  if (strcmp(place, "00000000:00:00.0") != 0) return 6;  // not found
  *handle = &device;
  return answer;
}

API int nvmlDeviceGetMemoryInfo(void* handle, unsigned long long* bytes) {
  if (handle != &device) return 2;  // invalid argument
  bytes[0] = 4ull << 30, bytes[1] = 3ull << 30, bytes[2] = 1ull << 30;  // total, free, used
  return answer;
}

API int nvmlDeviceGetUtilizationRates(void* handle, unsigned* percent) {
  if (handle != &device) return 2;
  percent[0] = 37, percent[1] = 11;  // kernels, memory
  return answer;
}

API int nvmlDeviceGetPowerUsage(void* handle, unsigned* milliwatts) {
  if (handle != &device) return 2;
  *milliwatts = 123456;
  return answer;
}

// Device, context and error calls.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "driver.h"

namespace shim {
namespace {

std::recursive_mutex mutex;
bool initialized;
int primary_references;
char primary_context;
unsigned primary_flags;
thread_local void* current_context;
// A number of calls, or the path of a file: the device is lost after so many, or once the file exists.
const char* const lost_when = getenv("MELISMA_SHIM_LOST");
std::atomic<long> calls_left{lost_when ? atol(lost_when) : 0};

struct ErrorText {
  int code;
  const char *name, *text;
};
constexpr ErrorText ERRORS[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {907, "CUDA_ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream"},
    {908, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
};

int attribute(int which) {
  switch (which) {
    case 1: return MAX_BLOCK_THREADS;
    case 2:
    case 3: return 1024;        // block x, y
    case 4: return 64;          // block z
    case 5: return 0x7fffffff;  // grid x
    case 6:
    case 7: return 65535;  // grid y, z
    case 8: return STATIC_SHARED_LIMIT;
    case 9: return 64 << 10;  // constant memory
    case 10: return 32;       // warp
    case 12:
    case 82: return 65536;    // registers per block, per multiprocessor
    case 13: return 1000000;  // clock, kHz
    case 15:
    case 19:
    case 31:
    case 41: return 1;  // overlap, mapped host memory, concurrent kernels, unified addressing
    case 16: return SM_COUNT;
    case 18: return getenv("MELISMA_SHIM_INTEGRATED") != nullptr;
    case 36: return 1000000;  // memory clock, kHz
    case 37: return 128;      // memory bus width
    case 38: return 1 << 20;  // L2
    case 39: return MAX_SM_THREADS;
    case 40: return 2;  // copy engines
    case 75: return 9;  // compute capability, major
    case 76: return 0;  // and minor
    case 78:
    case 115: return 1;  // stream priorities, memory pools
    case 81: return SM_SHARED;
    case 97: return SHARED_LIMIT;
    case 106: return MAX_SM_BLOCKS;
    case 111: return 1 << 10;  // shared memory the system keeps per block
    default: return 0;
  }
}

CUresult check_device(CUdevice device) {
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

const ErrorText* find_error(CUresult error) {
  for (const ErrorText& entry : ERRORS)
    if (entry.code == error) return &entry;
  return nullptr;
}

}  // namespace

Lock::Lock() { mutex.lock(); }
Lock::~Lock() { mutex.unlock(); }

CUresult check_lost() {
  if (shim_is_lost()) return CUDA_ERROR_DEVICE_UNAVAILABLE;
  calls_left--;
  return CUDA_SUCCESS;
}

CUresult check_context() {
  TRY(check_lost());
  if (!initialized) return CUDA_ERROR_NOT_INITIALIZED;
  return current_context && primary_references ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

size_t total_memory() {
  static const size_t bytes = [] {
    const char* text = getenv("MELISMA_SHIM_MEMORY");
    return text ? size_t(strtoull(text, nullptr, 10)) : size_t(2) << 30;
  }();
  return bytes;
}

}  // namespace shim

using namespace shim;

API int shim_is_lost() {
  if (!lost_when) return 0;
  return strchr(lost_when, '/') ? access(lost_when, F_OK) == 0 : calls_left <= 0;
}

API CUresult cuInit(unsigned) {
  Lock lock;
  initialized = true;
  return CUDA_SUCCESS;
}

API CUresult cuDriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}

API CUresult cuGetErrorName(CUresult error, const char** name) {
  const ErrorText* entry = find_error(error);
  *name = entry ? entry->name : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorText* entry = find_error(error);
  *text = entry ? entry->text : nullptr;
  return entry ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuDeviceGetCount(int* count) {
  TRY(check_device(0));
  *count = 1;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  TRY(check_device(ordinal));
  *device = 0;
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  TRY(check_device(device));
  snprintf(name, size_t(size), "Melisma host shim");
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetUuid_v2(void* uuid, CUdevice device) {
  TRY(check_device(device));
  memcpy(uuid, "melisma-hostshim", 16);
  return CUDA_SUCCESS;
}
API CUresult cuDeviceGetUuid(void* uuid, CUdevice device) { return cuDeviceGetUuid_v2(uuid, device); }

API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  TRY(check_device(device));
  *bytes = total_memory();
  return CUDA_SUCCESS;
}

API CUresult cuDeviceGetAttribute(int* value, int which, CUdevice device) {
  TRY(check_device(device));
  *value = attribute(which);
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRetain(void** context, CUdevice device) {
  Lock lock;
  TRY(check_device(device));
  primary_references++;
  *context = &primary_context;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Lock lock;
  TRY(check_device(device));
  if (primary_references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  primary_references--;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  Lock lock;
  TRY(check_device(device));
  primary_flags = flags;
  return CUDA_SUCCESS;
}

API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  Lock lock;
  TRY(check_device(device));
  *flags = primary_flags;
  *active = primary_references > 0;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCurrent(void* context) {
  if (context && context != &primary_context) return CUDA_ERROR_INVALID_CONTEXT;
  current_context = context;
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetCurrent(void** context) {
  *context = current_context;
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetDevice(CUdevice* device) {
  TRY(check_context());
  *device = 0;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetFlags(unsigned flags) {
  Lock lock;
  TRY(check_context());
  primary_flags = flags;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSynchronize() {
  Lock lock;
  TRY(check_context());
  TRY(check_not_capturing());
  finish_all();
  check_red_zones("cuCtxSynchronize");
  return CUDA_SUCCESS;
}

API CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  TRY(check_context());
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return CUDA_SUCCESS;
}

API CUresult cuCtxSetCacheConfig(int) { return check_context(); }
API CUresult cuCtxSetLimit(int, size_t) { return check_context(); }
API CUresult cuCtxGetLimit(size_t* value, int) {
  TRY(check_context());
  *value = 1024;
  return CUDA_SUCCESS;
}
API CUresult cuProfilerStart() { return check_context(); }
API CUresult cuProfilerStop() { return check_context(); }

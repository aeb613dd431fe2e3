// What the parts of the fake driver share. One lock serves every call: all work is done on the calling thread.
// The parts are one library in several files, and call each other by what is declared here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#define API extern "C" __attribute__((visibility("default")))

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEVICE_UNAVAILABLE = 46,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_FILE_NOT_FOUND = 301,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_ILLEGAL_STATE = 401,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_CAPTURED_EVENT = 907,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
};

using CUdevice = int;
using CUdeviceptr = uint64_t;

// Whether the device has disappeared, for the other fake libraries.
API int shim_is_lost();

namespace shim {

constexpr int SM_COUNT = 4, MAX_BLOCK_THREADS = 1024, MAX_SM_THREADS = 2048, MAX_SM_BLOCKS = 32;
constexpr int STATIC_SHARED_LIMIT = 48 << 10, SHARED_LIMIT = 227 << 10, SM_SHARED = 228 << 10;

struct Lock {
  Lock();
  ~Lock();
};

// CUDA_SUCCESS, or that the device has disappeared.
CUresult check_lost();
// CUDA_SUCCESS, or why the calling thread cannot use the device.
CUresult check_context();
size_t total_memory();

// Aborts, naming `culprit`, when a red zone around a device allocation is damaged.
void check_red_zones(const char* culprit);
bool is_device_range(CUdeviceptr pointer, size_t bytes);
// A module's variable, which copies may then name.
void note_global(CUdeviceptr pointer, size_t bytes);

using Work = std::function<void()>;

enum class CaptureMode : int { Global, ThreadLocal, Relaxed };

struct Capture {
  std::vector<Work> nodes;
  CaptureMode mode;
  std::thread::id thread;
  bool invalid = false, ended = false;
};

// The records of an event: how many were put on streams, how many have happened, and when the last one did.
struct Records {
  uint64_t due = 0, done = 0, nanoseconds = 0;
};

struct Stream;

// One piece of work on a stream; without `work`, record number `number`, or, with `recorder`, a wait for it.
struct Step {
  Work work;
  std::shared_ptr<Records> records;
  uint64_t number = 0;
  Stream* recorder = nullptr;
};

struct Stream {
  // What nobody has waited for; with MELISMA_SHIM_LATE only.
  std::deque<Step> pending;
  unsigned flags = 0;
  int priority = 0;
  std::shared_ptr<Capture> capture;
  bool capture_origin = false;
  // Grows with each captured operation; a forked stream is joined when an event of its last one was waited for.
  uint64_t captured = 0, joined = 0;
};

struct Event {
  unsigned flags = 0;
  std::shared_ptr<Records> records = std::make_shared<Records>();
  // Of the last record.
  Stream* recorder = nullptr;
  std::shared_ptr<Capture> capture;
  Stream* captured_stream = nullptr;
  uint64_t captured = 0;
};

// Null for a handle that is not a live stream; the default streams have an object too.
Stream* find_stream(void* handle);
// Writes what `read` finds of a stream.
template <class T, class Read>
CUresult read_stream(void* handle, T* to, Read read) {
  Lock lock;
  const Stream* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  *to = read(*stream);
  return CUDA_SUCCESS;
}
const std::vector<Stream*>& streams();
// Does all that is pending, on one stream or on all.
void finish(Stream& stream);
void finish_all();
// Runs the work, at once or when something waits for it, or records it where the stream is capturing.
CUresult submit(void* stream, Work work);
// For calls that a capture forbids (allocation, synchronisation): ends the captures they break.
CUresult check_not_capturing();
// For copies that wait on the default stream, which no capturing stream may join.
CUresult check_default_stream();

}  // namespace shim

#define TRY(expression)                                \
  do {                                                 \
    CUresult try_result = (expression);                \
    if (try_result != CUDA_SUCCESS) return try_result; \
  } while (0)

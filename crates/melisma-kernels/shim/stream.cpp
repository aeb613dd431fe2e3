// Streams and events. Work is done when it is submitted; with MELISMA_SHIM_LATE=1 when something waits for it, and no more
// of it than that.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>

#include "driver.h"

namespace shim {
namespace {

// Never destroyed: threads may still call while the process exits.
auto& live_streams = *new std::vector<Stream*>;
auto& live_events = *new std::set<Event*>;
auto& default_stream = *new Stream;

uint64_t now() {
  auto time = std::chrono::steady_clock::now().time_since_epoch();
  return uint64_t(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
}

bool is_late() {
  static const bool late = [] {
    const char* value = getenv("MELISMA_SHIM_LATE");
    return value && strcmp(value, "1") == 0;
  }();
  return late;
}

// Does what is pending until `records` has `number`; all of it without `records`.
void finish_until(Stream& stream, const Records* records, uint64_t number) {
  while (!stream.pending.empty() && !(records && records->done >= number)) {
    Step step = std::move(stream.pending.front());
    stream.pending.pop_front();
    if (step.work) {
      step.work();
    } else if (!step.recorder) {
      step.records->done = step.number;
      step.records->nanoseconds = now();
    } else if (step.records->done < step.number) {
      finish_until(*step.recorder, step.records.get(), step.number);
    }
  }
}

void put(Stream& stream, Step step) {
  stream.pending.push_back(std::move(step));
  if (!is_late() || &stream == &default_stream) finish_until(stream, nullptr, 0);
}

void finish_event(Event& event) {
  Records& records = *event.records;
  if (records.done < records.due) finish_until(*event.recorder, &records, records.due);
}

Event* find_event(void* handle) {
  auto* event = static_cast<Event*>(handle);
  return live_events.count(event) ? event : nullptr;
}

CUresult elapsed(float* milliseconds, void* start, void* end) {
  Lock lock;
  TRY(check_lost());
  Event *first = find_event(start), *second = find_event(end);
  constexpr unsigned DISABLE_TIMING = 2;
  if (!first || !second || !first->records->due || !second->records->due) return CUDA_ERROR_INVALID_HANDLE;
  if ((first->flags | second->flags) & DISABLE_TIMING) return CUDA_ERROR_INVALID_HANDLE;
  for (Event* event : {first, second})
    if (event->records->done < event->records->due) return CUDA_ERROR_NOT_READY;
  *milliseconds = float(double(int64_t(second->records->nanoseconds - first->records->nanoseconds)) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult check_event(void* handle) {
  TRY(check_lost());
  Event* event = find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  return event->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult invalidate(Capture& capture) {
  capture.invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

}  // namespace

const std::vector<Stream*>& streams() { return live_streams; }

void finish(Stream& stream) { finish_until(stream, nullptr, 0); }

void finish_all() {
  for (Stream* stream : live_streams) finish(*stream);
}

Stream* find_stream(void* handle) {
  // 0 is the default stream, 1 and 2 its legacy and per-thread names.
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return &default_stream;
  auto* stream = static_cast<Stream*>(handle);
  return std::count(live_streams.begin(), live_streams.end(), stream) ? stream : nullptr;
}

CUresult submit(void* handle, Work work) {
  Stream* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &default_stream) TRY(check_default_stream());
  if (!stream->capture) {
    put(*stream, {std::move(work), nullptr, 0, nullptr});
    return CUDA_SUCCESS;
  }
  if (stream->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  stream->capture->nodes.push_back(std::move(work));
  stream->captured++;
  return CUDA_SUCCESS;
}

CUresult check_not_capturing() {
  CUresult result = CUDA_SUCCESS;
  for (Stream* stream : live_streams) {
    if (!stream->capture) continue;
    bool mine = stream->capture->thread == std::this_thread::get_id();
    CaptureMode mode = stream->capture->mode;
    if (mode == CaptureMode::Global || (mode == CaptureMode::ThreadLocal && mine))
      result = invalidate(*stream->capture);
  }
  return result;
}

CUresult check_default_stream() {
  constexpr unsigned NON_BLOCKING = 1;
  for (Stream* stream : live_streams)
    if (stream->capture && !(stream->flags & NON_BLOCKING)) {
      invalidate(*stream->capture);
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  return CUDA_SUCCESS;
}

}  // namespace shim

using namespace shim;

API CUresult cuStreamCreateWithPriority(void** handle, unsigned flags, int priority) {
  Lock lock;
  TRY(check_context());
  if (!handle || flags > 1) return CUDA_ERROR_INVALID_VALUE;
  auto* stream = new Stream;
  stream->flags = flags;
  stream->priority = priority;
  live_streams.push_back(stream);
  *handle = stream;
  return CUDA_SUCCESS;
}
API CUresult cuStreamCreate(void** handle, unsigned flags) { return cuStreamCreateWithPriority(handle, flags, 0); }

API CUresult cuStreamDestroy_v2(void* handle) {
  Lock lock;
  TRY(check_context());
  Stream* stream = find_stream(handle);
  if (!stream || stream == &default_stream) return CUDA_ERROR_INVALID_HANDLE;
  finish(*stream);
  live_streams.erase(std::find(live_streams.begin(), live_streams.end(), stream));
  delete stream;
  return CUDA_SUCCESS;
}

// Does what is pending first, so that a query always finds the stream idle.
API CUresult cuStreamQuery(void* handle) {
  Lock lock;
  TRY(check_context());
  Stream* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture) return invalidate(*stream->capture);
  finish(*stream);
  return CUDA_SUCCESS;
}

API CUresult cuStreamSynchronize(void* handle) {
  Lock lock;
  TRY(cuStreamQuery(handle));
  check_red_zones("cuStreamSynchronize");
  return CUDA_SUCCESS;
}

API CUresult cuStreamGetPriority(void* handle, int* priority) {
  return read_stream(handle, priority, [](const Stream& stream) { return stream.priority; });
}

API CUresult cuStreamGetFlags(void* handle, unsigned* flags) {
  return read_stream(handle, flags, [](const Stream& stream) { return stream.flags; });
}

API CUresult cuStreamWaitEvent(void* stream_handle, void* event_handle, unsigned) {
  Lock lock;
  TRY(check_context());
  Stream* stream = find_stream(stream_handle);
  Event* event = find_event(event_handle);
  if (!stream || !event) return CUDA_ERROR_INVALID_HANDLE;
  if (!event->capture) {
    if (event->records->due && !stream->capture)
      put(*stream, {nullptr, event->records, event->records->due, event->recorder});
    return CUDA_SUCCESS;
  }
  if (event->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (stream->capture && stream->capture != event->capture) return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  if (!stream->capture) {
    stream->capture = event->capture;
    stream->captured = 1;
    stream->joined = 0;
  }
  Stream* other = event->captured_stream;
  if (find_stream(other) && other->capture == event->capture) other->joined = std::max(other->joined, event->captured);
  return CUDA_SUCCESS;
}

API CUresult cuLaunchHostFunc(void* stream, void (*function)(void*), void* user_data) {
  Lock lock;
  TRY(check_context());
  return submit(stream, [=] { function(user_data); });
}

API CUresult cuEventCreate(void** handle, unsigned flags) {
  Lock lock;
  TRY(check_context());
  auto* event = new Event;
  event->flags = flags;
  live_events.insert(event);
  *handle = event;
  return CUDA_SUCCESS;
}

API CUresult cuEventDestroy_v2(void* handle) {
  Lock lock;
  TRY(check_context());
  Event* event = find_event(handle);
  if (!event) return CUDA_ERROR_INVALID_HANDLE;
  live_events.erase(event);
  delete event;
  return CUDA_SUCCESS;
}

API CUresult cuEventRecordWithFlags(void* event_handle, void* stream_handle, unsigned) {
  Lock lock;
  TRY(check_context());
  Event* event = find_event(event_handle);
  Stream* stream = find_stream(stream_handle);
  if (!event || !stream) return CUDA_ERROR_INVALID_HANDLE;
  event->capture = stream->capture;
  event->captured_stream = stream->capture ? stream : nullptr;
  event->captured = stream->captured;
  if (stream->capture) return CUDA_SUCCESS;
  event->recorder = stream;
  put(*stream, {nullptr, event->records, ++event->records->due, nullptr});
  return CUDA_SUCCESS;
}
API CUresult cuEventRecord(void* event, void* stream) { return cuEventRecordWithFlags(event, stream, 0); }

API CUresult cuEventQuery(void* event) {
  Lock lock;
  TRY(check_event(event));
  finish_event(*find_event(event));
  return CUDA_SUCCESS;
}

API CUresult cuEventSynchronize(void* event) {
  Lock lock;
  TRY(cuEventQuery(event));
  check_red_zones("cuEventSynchronize");
  return CUDA_SUCCESS;
}

API CUresult cuEventElapsedTime(float* milliseconds, void* start, void* end) {
  return elapsed(milliseconds, start, end);
}
API CUresult cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
  return elapsed(milliseconds, start, end);
}

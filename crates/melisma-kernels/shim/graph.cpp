// Stream capture and graphs: a graph is its work in the order of submission, which respects every dependency.
#include "driver.h"

namespace shim {
namespace {

struct Graph {
  std::vector<Work> nodes;
};

enum CaptureStatus : int { NONE, ACTIVE, INVALIDATED };

CaptureStatus status_of(const Stream& stream) {
  if (!stream.capture) return NONE;
  return stream.capture->invalid ? INVALIDATED : ACTIVE;
}

// Takes every stream out of the capture; false where a forked stream has work nobody waited for.
bool leave_capture(const std::shared_ptr<Capture>& capture) {
  bool joined = true;
  for (Stream* stream : streams()) {
    if (stream->capture != capture) continue;
    if (!stream->capture_origin && stream->joined < stream->captured) joined = false;
    stream->capture.reset();
    stream->capture_origin = false;
  }
  capture->ended = true;
  return joined;
}

}  // namespace
}  // namespace shim

using namespace shim;

API CUresult cuStreamBeginCapture_v2(void* handle, int mode) {
  Lock lock;
  TRY(check_context());
  Stream* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream == find_stream(nullptr)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_shared<Capture>();
  stream->capture->mode = CaptureMode(mode);
  stream->capture->thread = std::this_thread::get_id();
  stream->capture_origin = true;
  stream->captured = stream->joined = 0;
  return CUDA_SUCCESS;
}

API CUresult cuStreamEndCapture(void* handle, void** graph) {
  Lock lock;
  TRY(check_context());
  *graph = nullptr;
  Stream* stream = find_stream(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  if (!stream->capture) return CUDA_ERROR_ILLEGAL_STATE;
  if (!stream->capture_origin) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  std::shared_ptr<Capture> capture = stream->capture;
  if (capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  bool joined = leave_capture(capture);
  if (capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!joined) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = new Graph{std::move(capture->nodes)};
  return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(void* handle, int* status) { return read_stream(handle, status, status_of); }

API CUresult cuStreamGetCaptureInfo_v3(void* handle, int* status, uint64_t* id, void** graph, const void** dependencies,
                                       const void** edges, size_t* n_dependencies) {
  Lock lock;
  TRY(cuStreamIsCapturing(handle, status));
  if (id) *id = reinterpret_cast<uint64_t>(find_stream(handle)->capture.get());
  if (graph) *graph = nullptr;
  if (dependencies) *dependencies = nullptr;
  if (edges) *edges = nullptr;
  if (n_dependencies) *n_dependencies = 0;
  return CUDA_SUCCESS;
}
API CUresult cuStreamGetCaptureInfo_v2(void* handle, int* status, uint64_t* id, void** graph, const void** dependencies,
                                       size_t* n_dependencies) {
  return cuStreamGetCaptureInfo_v3(handle, status, id, graph, dependencies, nullptr, n_dependencies);
}

API CUresult cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
  *count = static_cast<Graph*>(graph)->nodes.size();
  return CUDA_SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  Lock lock;
  TRY(check_context());
  if (!graph) return CUDA_ERROR_INVALID_VALUE;
  *executable = new Graph(*static_cast<Graph*>(graph));
  return CUDA_SUCCESS;
}

API CUresult cuGraphUpload(void*, void* stream) {
  Lock lock;
  return find_stream(stream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

API CUresult cuGraphLaunch(void* executable, void* stream) {
  Lock lock;
  TRY(check_context());
  if (!executable) return CUDA_ERROR_INVALID_VALUE;
  std::vector<Work> nodes = static_cast<Graph*>(executable)->nodes;
  return submit(stream, [nodes]() mutable {
    for (Work& work : nodes) work();
  });
}

API CUresult cuGraphDestroy(void* graph) {
  Lock lock;
  delete static_cast<Graph*>(graph);
  return CUDA_SUCCESS;
}
API CUresult cuGraphExecDestroy(void* executable) { return cuGraphDestroy(executable); }

// The way for the other fake libraries to put work into a stream.
API int shim_submit(void* stream, std::function<void()>* work) {
  Lock lock;
  TRY(check_context());
  return submit(stream, *work);
}

// cuBLASLt: every product is three loops with an f32 sum in k order.
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>

#include "bits.h"

#define API extern "C" __attribute__((visibility("default")))

API int shim_submit(void* stream, std::function<void()>* work);

namespace {

enum Status : int { SUCCESS = 0, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum Type : int { F32 = 0, F16 = 2, BF16 = 14 };
enum Order : int { COLUMNS = 0, ROWS = 1 };

struct Layout {
  int type;
  int order = COLUMNS;
  uint64_t rows, cols;
  int64_t ld;
  int32_t batches = 1;
  int64_t batch_stride = 0;
};

struct Product {
  int compute_type, scale_type;
  int pointer_mode = 0, transpose_a = 0, transpose_b = 0;
  unsigned epilogue = 1;
  const void* bias = nullptr;
};

struct Preference {
  int search_mode = 0;
  uint64_t workspace_bytes = 0;
  uint32_t reduction_schemes = 0;
};

struct Algorithm {
  uint64_t data[8];
};
struct Heuristic {
  Algorithm algorithm;
  size_t workspace_bytes;
  Status state;
  float waves;
  int reserved[4];
};

struct Field {
  void* at;
  size_t bytes;
};

Field field(Layout& layout, int attribute) {
  switch (attribute) {
    case 0: return {&layout.type, 4};
    case 1: return {&layout.order, 4};
    case 2: return {&layout.rows, 8};
    case 3: return {&layout.cols, 8};
    case 4: return {&layout.ld, 8};
    case 5: return {&layout.batches, 4};
    case 6: return {&layout.batch_stride, 8};
    default: return {};
  }
}

Field field(Product& product, int attribute) {
  switch (attribute) {
    case 0: return {&product.compute_type, 4};
    case 1: return {&product.scale_type, 4};
    case 2: return {&product.pointer_mode, 4};
    case 3: return {&product.transpose_a, 4};
    case 4: return {&product.transpose_b, 4};
    case 7: return {&product.epilogue, 4};
    case 8: return {&product.bias, 8};
    default: return {};
  }
}

Field field(Preference& preference, int attribute) {
  switch (attribute) {
    case 0: return {&preference.search_mode, 4};
    case 1: return {&preference.workspace_bytes, 8};
    case 3: return {&preference.reduction_schemes, 4};
    default: return {};
  }
}

template <class T>
Status set(T* object, int attribute, const void* from, size_t bytes) {
  Field to = field(*object, attribute);
  if (!to.at) return NOT_SUPPORTED;
  if (!from || bytes != to.bytes) return INVALID_VALUE;
  memcpy(to.at, from, bytes);
  return SUCCESS;
}

template <class T>
Status get(T* object, int attribute, void* to, size_t bytes, size_t* written) {
  Field from = field(*object, attribute);
  if (!from.at) return NOT_SUPPORTED;
  if (written) *written = from.bytes;
  if (bytes == 0 && written) return SUCCESS;
  if (!to || bytes != from.bytes) return INVALID_VALUE;
  memcpy(to, from.at, bytes);
  return SUCCESS;
}

float f16_value(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
  if (magnitude < 0x0400) {
    float value = float(magnitude) * 5.9604644775390625e-8f;  // 2^-24
    return sign ? -value : value;
  }
  return float_of(sign |
                  (magnitude >= 0x7c00 ? 0x7f800000 | (magnitude & 0x3ff) << 13 : (magnitude << 13) + 0x38000000));
}

uint16_t f16_bits(float value) {
  uint32_t bits = bits_of(value);
  uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);
  if (magnitude < 0x38800000) {
    // Adding 0.5 leaves the rounded subnormal in the lowest bits.
    return uint16_t(sign | (bits_of((value < 0 ? -value : value) + 0.5f) - 0x3f000000));
  }
  return uint16_t(sign | (magnitude + 0x0fff + (magnitude >> 13 & 1) - 0x38000000) >> 13);
}

size_t offset(const Layout& layout, uint64_t row, uint64_t col, int64_t batch) {
  uint64_t within = layout.order == ROWS ? row * uint64_t(layout.ld) + col : col * uint64_t(layout.ld) + row;
  return size_t(batch * layout.batch_stride) + within;
}

float load(const void* base, int type, size_t at) {
  if (type == F32) return static_cast<const float*>(base)[at];
  uint16_t bits = static_cast<const uint16_t*>(base)[at];
  if (type == F16) return f16_value(bits);
  return float_of(uint32_t(bits) << 16);
}

void store(void* base, int type, size_t at, float value) {
  if (type == F32) {
    static_cast<float*>(base)[at] = value;
    return;
  }
  uint32_t bits = bits_of(value);
  uint16_t bf16 = value != value ? uint16_t(bits >> 16 | 0x40) : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  static_cast<uint16_t*>(base)[at] = type == F16 ? f16_bits(value) : bf16;
}

bool valid(const Layout& layout) {
  bool type = layout.type == F32 || layout.type == F16 || layout.type == BF16;
  uint64_t least = layout.order == ROWS ? layout.cols : layout.rows;
  return type && (layout.order == ROWS || layout.order == COLUMNS) && layout.ld >= 0 && uint64_t(layout.ld) >= least;
}

constexpr unsigned DEFAULT = 1, RELU = 2, BIAS = 4;

Status check(const Product& p, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  if (!valid(a) || !valid(b) || !valid(c) || !valid(d)) return INVALID_VALUE;
  if (p.scale_type != F32 || p.pointer_mode != 0) return NOT_SUPPORTED;
  if (p.epilogue != DEFAULT && p.epilogue & ~(RELU | BIAS)) return NOT_SUPPORTED;
  if (a.batches != d.batches || b.batches != d.batches || c.batches != d.batches) return INVALID_VALUE;
  uint64_t m = p.transpose_a ? a.cols : a.rows, k = p.transpose_a ? a.rows : a.cols;
  uint64_t k_b = p.transpose_b ? b.cols : b.rows, n = p.transpose_b ? b.rows : b.cols;
  bool agree = k == k_b && d.rows == m && d.cols == n && c.rows == m && c.cols == n;
  return agree ? SUCCESS : INVALID_VALUE;
}

struct Operands {
  const void *a, *b, *c;
  void* d;
  float alpha, beta;
};

void multiply(const Product& p, const Layout& la, const Layout& lb, const Layout& lc, const Layout& ld,
              const Operands& o) {
  uint64_t depth = p.transpose_a ? la.rows : la.cols;
  for (int64_t batch = 0; batch < ld.batches; batch++)
    for (uint64_t j = 0; j < ld.cols; j++)
      for (uint64_t i = 0; i < ld.rows; i++) {
        float sum = 0.0f;
        for (uint64_t k = 0; k < depth; k++) {
          size_t at_a = p.transpose_a ? offset(la, k, i, batch) : offset(la, i, k, batch);
          size_t at_b = p.transpose_b ? offset(lb, j, k, batch) : offset(lb, k, j, batch);
          sum = __builtin_fmaf(load(o.a, la.type, at_a), load(o.b, lb.type, at_b), sum);
        }
        float value = o.alpha * sum;
        if (o.beta != 0.0f) value += o.beta * load(o.c, lc.type, offset(lc, i, j, batch));
        if (p.epilogue & BIAS) value += load(p.bias, ld.type, i);
        if (p.epilogue & RELU && value < 0.0f) value = 0.0f;
        store(o.d, ld.type, offset(ld, i, j, batch), value);
      }
}

}  // namespace

API Status cublasLtCreate(void** handle) {
  *handle = new char;
  return SUCCESS;
}
API Status cublasLtDestroy(void* handle) {
  delete static_cast<char*>(handle);
  return SUCCESS;
}
API size_t cublasLtGetVersion() { return 130000; }
API size_t cublasLtGetCudartVersion() { return 13000; }

API const char* cublasLtGetStatusName(Status status) {
  switch (status) {
    case SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_UNKNOWN";
  }
}
API const char* cublasLtGetStatusString(Status status) { return cublasLtGetStatusName(status); }

#define OBJECT(NAME, T)                                                                                        \
  API Status cublasLt##NAME##Destroy(T* object) {                                                              \
    delete object;                                                                                             \
    return SUCCESS;                                                                                            \
  }                                                                                                            \
  API Status cublasLt##NAME##SetAttribute(T* object, int attribute, const void* from, size_t bytes) {          \
    return set(object, attribute, from, bytes);                                                                \
  }                                                                                                            \
  API Status cublasLt##NAME##GetAttribute(T* object, int attribute, void* to, size_t bytes, size_t* written) { \
    return get(object, attribute, to, bytes, written);                                                         \
  }
OBJECT(MatrixLayout, Layout)
OBJECT(MatmulDesc, Product)
OBJECT(MatmulPreference, Preference)

API Status cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t cols, int64_t ld) {
  *layout = new Layout{type, COLUMNS, rows, cols, ld};
  return SUCCESS;
}
API Status cublasLtMatmulDescCreate(Product** product, int compute_type, int scale_type) {
  *product = new Product{compute_type, scale_type};
  return SUCCESS;
}
API Status cublasLtMatmulPreferenceCreate(Preference** preference) {
  *preference = new Preference;
  return SUCCESS;
}

API Status cublasLtMatmulAlgoGetHeuristic(void*, Product* product, Layout* a, Layout* b, Layout* c, Layout* d,
                                          Preference*, int requested, Heuristic* results, int* returned) {
  *returned = 0;
  if (requested < 1) return INVALID_VALUE;
  Status status = check(*product, *a, *b, *c, *d);
  if (status != SUCCESS) return status;
  results[0] = {};
  results[0].waves = 1.0f;
  *returned = 1;
  return SUCCESS;
}

API Status cublasLtMatmul(void*, Product* product, const float* alpha, const void* a, Layout* layout_a, const void* b,
                          Layout* layout_b, const float* beta, const void* c, Layout* layout_c, void* d,
                          Layout* layout_d, const Algorithm*, void*, size_t, void* stream) {
  Status status = check(*product, *layout_a, *layout_b, *layout_c, *layout_d);
  if (status != SUCCESS) return status;
  std::function<void()> work = [p = *product, la = *layout_a, lb = *layout_b, lc = *layout_c, ld = *layout_d,
                                o = Operands{a, b, c, d, *alpha, *beta}] { multiply(p, la, lb, lc, ld, o); };
  return shim_submit(stream, &work) == 0 ? SUCCESS : EXECUTION_FAILED;
}

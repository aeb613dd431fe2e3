// CUDA's arithmetic built-ins for kernels compiled as C++.
#pragma once

extern "C" {
#define SHIM_LIBM(NAME)         \
  double NAME(double) noexcept; \
  float NAME##f(float) noexcept;
// clang-format off
SHIM_LIBM(sin) SHIM_LIBM(cos) SHIM_LIBM(tan) SHIM_LIBM(asin) SHIM_LIBM(acos) SHIM_LIBM(atan)
SHIM_LIBM(sinh) SHIM_LIBM(cosh) SHIM_LIBM(tanh) SHIM_LIBM(asinh) SHIM_LIBM(acosh) SHIM_LIBM(atanh)
SHIM_LIBM(exp) SHIM_LIBM(exp2) SHIM_LIBM(expm1) SHIM_LIBM(log) SHIM_LIBM(log2) SHIM_LIBM(log10) SHIM_LIBM(log1p)
SHIM_LIBM(sqrt) SHIM_LIBM(cbrt) SHIM_LIBM(floor) SHIM_LIBM(ceil) SHIM_LIBM(trunc) SHIM_LIBM(round) SHIM_LIBM(rint)
SHIM_LIBM(nearbyint) SHIM_LIBM(fabs) SHIM_LIBM(erf) SHIM_LIBM(erfc) SHIM_LIBM(lgamma) SHIM_LIBM(tgamma)
// clang-format on
#undef SHIM_LIBM
#define SHIM_LIBM(NAME)                 \
  double NAME(double, double) noexcept; \
  float NAME##f(float, float) noexcept;
    // clang-format off
SHIM_LIBM(pow) SHIM_LIBM(fmod) SHIM_LIBM(remainder) SHIM_LIBM(atan2) SHIM_LIBM(hypot) SHIM_LIBM(fmin) SHIM_LIBM(fmax)
SHIM_LIBM(copysign) SHIM_LIBM(nextafter) SHIM_LIBM(fdim)
// clang-format on
#undef SHIM_LIBM
            double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
double ldexp(double, int) noexcept;
float ldexpf(float, int) noexcept;
double frexp(double, int*) noexcept;
float frexpf(float, int*) noexcept;
double modf(double, double*) noexcept;
float modff(float, float*) noexcept;
long lrintf(float) noexcept;
long lrint(double) noexcept;
int abs(int) noexcept;
}

#define SHIM_OVERLOAD(NAME) \
  inline float NAME(float x) { return NAME##f(x); }
// clang-format off
SHIM_OVERLOAD(sin) SHIM_OVERLOAD(cos) SHIM_OVERLOAD(tan) SHIM_OVERLOAD(tanh) SHIM_OVERLOAD(exp) SHIM_OVERLOAD(exp2)
SHIM_OVERLOAD(log) SHIM_OVERLOAD(log2) SHIM_OVERLOAD(log10) SHIM_OVERLOAD(sqrt) SHIM_OVERLOAD(floor) SHIM_OVERLOAD(ceil)
SHIM_OVERLOAD(trunc) SHIM_OVERLOAD(round) SHIM_OVERLOAD(rint) SHIM_OVERLOAD(fabs) SHIM_OVERLOAD(erf)
// clang-format on
#undef SHIM_OVERLOAD
            inline float fma(float a, float b, float c) {
  return fmaf(a, b, c);
}
inline float pow(float a, float b) { return powf(a, b); }
inline float fmod(float a, float b) { return fmodf(a, b); }
inline float fmin(float a, float b) { return fminf(a, b); }
inline float fmax(float a, float b) { return fmaxf(a, b); }
inline float abs(float x) { return fabsf(x); }
inline double abs(double x) { return fabs(x); }
inline long long abs(long long x) { return x < 0 ? -x : x; }
inline long long llabs(long long x) { return abs(x); }

#define SHIM_MINMAX(T)                             \
  inline T min(T a, T b) { return b < a ? b : a; } \
  inline T max(T a, T b) { return a < b ? b : a; }
// clang-format off
SHIM_MINMAX(int) SHIM_MINMAX(unsigned) SHIM_MINMAX(long) SHIM_MINMAX(unsigned long)
SHIM_MINMAX(long long) SHIM_MINMAX(unsigned long long)
// clang-format on
#undef SHIM_MINMAX
    inline float min(float a, float b) {
  return fminf(a, b);
}
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline unsigned min(int a, unsigned b) { return min(unsigned(a), b); }
inline unsigned min(unsigned a, int b) { return min(a, unsigned(b)); }
inline unsigned max(int a, unsigned b) { return max(unsigned(a), b); }
inline unsigned max(unsigned a, int b) { return max(a, unsigned(b)); }
inline unsigned umin(unsigned a, unsigned b) { return min(a, b); }
inline unsigned umax(unsigned a, unsigned b) { return max(a, b); }

inline bool isnan(float x) { return __builtin_isnan(x); }
inline bool isnan(double x) { return __builtin_isnan(x); }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isinf(double x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline bool isfinite(double x) { return __builtin_isfinite(x); }
inline bool signbit(float x) { return __builtin_signbitf(x); }
inline bool signbit(double x) { return __builtin_signbit(x); }

constexpr double SHIM_PI = 3.14159265358979323846;
inline float rsqrtf(float x) { return float(1.0 / sqrt(double(x))); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rcbrtf(float x) { return float(1.0 / cbrt(double(x))); }
inline float exp10f(float x) { return float(pow(10.0, double(x))); }
inline double exp10(double x) { return pow(10.0, x); }
inline double sinpi(double x) { return sin(SHIM_PI * remainder(x, 2.0)); }
inline double cospi(double x) { return cos(SHIM_PI * remainder(x, 2.0)); }
inline float sinpif(float x) { return float(sinpi(double(x))); }
inline float cospif(float x) { return float(cospi(double(x))); }
inline void sincosf(float x, float* s, float* c) { *s = sinf(x), *c = cosf(x); }
inline void sincos(double x, double* s, double* c) { *s = sin(x), *c = cos(x); }
inline void sincospif(float x, float* s, float* c) { *s = sinpif(x), *c = cospif(x); }
inline float normcdff(float x) { return float(0.5 * erfc(-double(x) / 1.4142135623730950488)); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __tanf(float x) { return tanf(x); }
inline void __sincosf(float x, float* s, float* c) { sincosf(x, s, c); }
inline float __expf(float x) { return expf(x); }
inline float __exp10f(float x) { return exp10f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __log10f(float x) { return log10f(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float __fsqrt_rn(float a) { return sqrtf(a); }
inline float __frsqrt_rn(float a) { return rsqrtf(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }

namespace shim {
template <class To, class From>
inline To bits(From value) {
  static_assert(sizeof(To) == sizeof(From), "");
  To result;
  memcpy(&result, &value, sizeof(To));
  return result;
}
// The cvt instruction: NaN becomes 0, out of range saturates.
inline int to_int(double whole) {
  if (whole != whole) return 0;
  return whole <= -2147483648.0 ? -2147483647 - 1 : whole >= 2147483647.0 ? 2147483647 : int(whole);
}
inline unsigned to_uint(double whole) {
  return !(whole > 0.0) ? 0 : whole >= 4294967295.0 ? 4294967295u : unsigned(whole);
}
inline long long to_longlong(double whole) {
  constexpr long long most = 0x7fffffffffffffffLL;
  if (whole != whole) return -most - 1;
  return whole <= -9223372036854775808.0 ? -most - 1 : whole >= 9223372036854775808.0 ? most : (long long)whole;
}
}  // namespace shim

inline unsigned __float_as_uint(float x) { return shim::bits<unsigned>(x); }
inline int __float_as_int(float x) { return shim::bits<int>(x); }
inline float __uint_as_float(unsigned x) { return shim::bits<float>(x); }
inline float __int_as_float(int x) { return shim::bits<float>(x); }
inline long long __double_as_longlong(double x) { return shim::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return shim::bits<double>(x); }
inline int __float2int_rn(float x) { return shim::to_int(rint(double(x))); }
inline int __float2int_rz(float x) { return shim::to_int(trunc(double(x))); }
inline int __float2int_rd(float x) { return shim::to_int(floor(double(x))); }
inline int __float2int_ru(float x) { return shim::to_int(ceil(double(x))); }
inline unsigned __float2uint_rn(float x) { return shim::to_uint(rint(double(x))); }
inline unsigned __float2uint_rz(float x) { return shim::to_uint(trunc(double(x))); }
inline long long __float2ll_rn(float x) { return shim::to_longlong(rint(double(x))); }
inline int __double2int_rn(double x) { return shim::to_int(rint(x)); }
inline int __double2int_rz(double x) { return shim::to_int(trunc(x)); }
inline long long __double2ll_rn(double x) { return shim::to_longlong(rint(x)); }
inline float __double2float_rn(double x) { return float(x); }
inline float __int2float_rn(int x) { return float(x); }
inline float __uint2float_rn(unsigned x) { return float(x); }
inline float __ll2float_rn(long long x) { return float(x); }
inline float __ull2float_rn(unsigned long long x) { return float(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; bit++) reversed |= (x >> bit & 1) << (31 - bit);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  unsigned long long bytes = (unsigned long long)b << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; i++) {
    unsigned pick = selector >> 4 * i, byte = unsigned(bytes >> 8 * (pick & 7)) & 0xff;
    if (pick & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << 8 * i;
  }
  return result;
}
inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 4; i++) sum += int((signed char)(a >> 8 * i)) * int((signed char)(b >> 8 * i));
  return sum;
}

// NVTX ranges, one line each ("push NAME", "pop"), appended to the file that MELISMA_SHIM_NVTX names.
#include <cstdio>
#include <cstdlib>

#define API extern "C" __attribute__((visibility("default")))

static int depth = 0;

static void note(const char* what, const char* name) {
  const char* path = getenv("MELISMA_SHIM_NVTX");
  FILE* file = path ? fopen(path, "a") : nullptr;
  if (!file) return;
  fprintf(file, "%s%s\n", what, name);
  fclose(file);
}

API int nvtxRangePushA(const char* name) {
  note("push ", name);
  return depth++;
}

API int nvtxRangePop() {
  note("pop", "");
  return --depth;
}

// Runs the threads of a launch on the calling thread, one block at a time.
#pragma once

#include "kernel/context.h"

namespace shim {

struct Launch {
  const char* name;
  Entry entry;
  void** args;
  Dim grid, block;
  unsigned shared_bytes;
};

Context* context();
void run_grid(const Launch& launch);

}  // namespace shim

// The scheduler: a stack runs thread after thread and is only given up by a thread that has to wait,
// so a kernel without barriers needs one stack and no switch between threads.
#include "fiber.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

extern "C" void shim_switch(void** save, void* resume);

#if defined(__x86_64__)
asm(R"(
.text
.hidden shim_switch
.globl shim_switch
.type shim_switch, @function
shim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size shim_switch, .-shim_switch
)");
constexpr size_t RETURN_WORD = 6, FRAME_WORDS = 8;
#elif defined(__aarch64__)
asm(R"(
.text
.hidden shim_switch
.globl shim_switch
.type shim_switch, %function
shim_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size shim_switch, .-shim_switch
)");
constexpr size_t RETURN_WORD = 11, FRAME_WORDS = 20;
#else
#error "the host shim has no context switch for this processor"
#endif

namespace shim {
namespace {

constexpr size_t STACK_BYTES = 256 << 10, GUARD_BYTES = 64 << 10;
constexpr unsigned MAX_THREADS = 1024, SHARED_RED_ZONE = 64, SHARED_BYTES = 228 << 10;
constexpr unsigned char GARBAGE = 0xA5, POISON = 0xC3;

struct Fiber {
  void* stack_pointer;
};

// A meeting of the lanes of one mask. Two sets of slots: a fast lane may bring its next value
// while a slow one still reads the last, but cannot get further ahead than that.
struct Rendezvous {
  unsigned mask = 0, arrived = 0, side = 0;
  const char* operation = nullptr;
  Slot slots[2][32];
};

struct Warp {
  unsigned live = 0, n_meetings = 0;
  std::vector<std::unique_ptr<Rendezvous>> meetings;
};

struct Copy {
  void* shared;
  const void* global;
  unsigned bytes, group;
};

enum class State : unsigned char { Unstarted, Running, AtBarrier, AtExchange, Exited };

struct Thread {
  Fiber* fiber;
  State state;
  Dim index;
  unsigned copy_group;
  std::vector<Copy> copies;
};

struct Scheduler {
  Context context{};
  Launch launch{};
  unsigned n_threads = 0, n_started = 0, n_live = 0, current = 0;
  unsigned n_at_barrier = 0, barrier_side = 0, predicates[2] = {};
  unsigned ready[MAX_THREADS], ready_head = 0, ready_count = 0;
  Thread threads[MAX_THREADS];
  Warp warps[MAX_THREADS / 32];
  std::vector<Fiber*> idle;
  Fiber* running = nullptr;
  void* main_stack_pointer = nullptr;
  bool reverse = false;
  alignas(1024) unsigned char shared[SHARED_BYTES + SHARED_RED_ZONE];
};

Scheduler* scheduler;

[[noreturn]] void fail(const char* reason) {
  const Context& c = scheduler->context;
  fprintf(stderr, "melisma shim: kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s\n", scheduler->launch.name,
          c.block.x, c.block.y, c.block.z, c.thread.x, c.thread.y, c.thread.z, reason);
  abort();
}

[[noreturn]] void fail_deadlock() {
  Scheduler& s = *scheduler;
  unsigned at_exchange = 0;
  const char* operation = "";
  for (unsigned t = 0; t < s.n_threads; t++) at_exchange += s.threads[t].state == State::AtExchange;
  for (unsigned w = 0; w * 32 < s.n_threads; w++)
    for (unsigned m = 0; m < s.warps[w].n_meetings; m++)
      if (s.warps[w].meetings[m]->arrived) operation = s.warps[w].meetings[m]->operation;
  char reason[200];
  snprintf(reason, sizeof reason, "deadlock: %u threads wait at __syncthreads, %u at a warp operation %s, %u exited",
           s.n_at_barrier, at_exchange, operation, s.n_threads - s.n_live);
  fail(reason);
}

void make_current(unsigned thread) {
  Scheduler& s = *scheduler;
  s.current = thread;
  s.context.thread = s.threads[thread].index;
  s.context.lane = thread % 32;
}

void push_ready(unsigned thread) {
  Scheduler& s = *scheduler;
  s.threads[thread].state = State::Running;
  s.ready[(s.ready_head + s.ready_count++) % MAX_THREADS] = thread;
}

void switch_to(Fiber* next) {
  Fiber* self = scheduler->running;
  scheduler->running = next;
  shim_switch(&self->stack_pointer, next->stack_pointer);
}

void fiber_main();

Fiber* take_fiber() {
  Scheduler& s = *scheduler;
  if (!s.idle.empty()) {
    Fiber* fiber = s.idle.back();
    s.idle.pop_back();
    return fiber;
  }
  void* memory = mmap(nullptr, STACK_BYTES + GUARD_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) fail("no memory for another thread's stack");
  mprotect(memory, GUARD_BYTES, PROT_NONE);
  auto* top = reinterpret_cast<void**>(static_cast<char*>(memory) + GUARD_BYTES + STACK_BYTES);
  void** frame = top - FRAME_WORDS;
  frame[RETURN_WORD] = reinterpret_cast<void*>(&fiber_main);
  return new Fiber{frame};
}

Fiber* take_ready() {
  Scheduler& s = *scheduler;
  unsigned thread = s.ready[s.ready_head];
  s.ready_head = (s.ready_head + 1) % MAX_THREADS;
  s.ready_count--;
  return s.threads[thread].fiber;
}

void wait(State state) {
  Scheduler& s = *scheduler;
  unsigned thread = s.current;
  s.threads[thread].state = state;
  if (s.ready_count)
    switch_to(take_ready());
  else if (s.n_started < s.n_threads)
    switch_to(take_fiber());
  else
    fail_deadlock();
  make_current(thread);
}

void release_barrier() {
  Scheduler& s = *scheduler;
  s.n_at_barrier = 0;
  s.barrier_side ^= 1;
  s.predicates[s.barrier_side] = 0;
  for (unsigned t = 0; t < s.n_threads; t++)
    if (s.threads[t].state == State::AtBarrier) push_ready(t);
}

unsigned block_barrier(unsigned predicate) {
  Scheduler& s = *scheduler;
  unsigned side = s.barrier_side;
  s.predicates[side] += predicate;
  if (++s.n_at_barrier == s.n_live)
    release_barrier();
  else
    wait(State::AtBarrier);
  return s.predicates[side];
}

bool complete(const Warp& warp, const Rendezvous& meeting) {
  return meeting.arrived && (meeting.mask & warp.live & ~meeting.arrived) == 0;
}

void release_meeting(unsigned first_thread, Rendezvous& meeting) {
  Scheduler& s = *scheduler;
  for (unsigned lane = 0; lane < 32; lane++) {
    if (!(meeting.arrived >> lane & 1))
      memset(&meeting.slots[meeting.side][lane], GARBAGE, sizeof(Slot));
    else if (first_thread + lane != s.current)
      push_ready(first_thread + lane);
  }
  meeting.arrived = 0;
  meeting.side ^= 1;
}

Rendezvous& meeting_of(Warp& warp, unsigned mask) {
  for (unsigned m = 0; m < warp.n_meetings; m++)
    if (warp.meetings[m]->mask == mask) return *warp.meetings[m];
  if (warp.n_meetings == warp.meetings.size()) warp.meetings.push_back(std::make_unique<Rendezvous>());
  Rendezvous& meeting = *warp.meetings[warp.n_meetings++];
  meeting.mask = mask;
  meeting.arrived = 0;
  return meeting;
}

const Slot* warp_exchange(unsigned mask, const char* operation, const void* value, unsigned size) {
  Scheduler& s = *scheduler;
  unsigned lane = s.current % 32;
  Warp& warp = s.warps[s.current / 32];
  if (!(mask >> lane & 1)) fail("a lane called a warp operation whose mask leaves it out");
  Rendezvous& meeting = meeting_of(warp, mask);
  if (meeting.arrived && meeting.operation != operation && strcmp(meeting.operation, operation) != 0)
    fail("lanes of one mask called different warp operations");
  meeting.operation = operation;
  Slot* slots = meeting.slots[meeting.side];
  memcpy(slots[lane].bytes, value, size);
  meeting.arrived |= 1u << lane;
  if (complete(warp, meeting))
    release_meeting(s.current - lane, meeting);
  else
    wait(State::AtExchange);
  return slots;
}

void copy_async(void* shared, const void* global, unsigned bytes) {
  Thread& thread = scheduler->threads[scheduler->current];
  // The hardware may write at any time from now on, so the old content is gone.
  memset(shared, GARBAGE, 16);
  thread.copies.push_back({shared, global, bytes, thread.copy_group});
}

void copy_commit() { scheduler->threads[scheduler->current].copy_group++; }

void copy_wait(unsigned newest_groups_left) {
  Thread& thread = scheduler->threads[scheduler->current];
  size_t kept = 0;
  for (const Copy& copy : thread.copies) {
    if (copy.group + newest_groups_left >= thread.copy_group) {
      thread.copies[kept++] = copy;
      continue;
    }
    memset(copy.shared, 0, 16);
    memcpy(copy.shared, copy.global, copy.bytes);
  }
  thread.copies.resize(kept);
}

void exit_thread() {
  Scheduler& s = *scheduler;
  Thread& thread = s.threads[s.current];
  Warp& warp = s.warps[s.current / 32];
  thread.state = State::Exited;
  thread.copies.clear();
  warp.live &= ~(1u << s.current % 32);
  s.n_live--;
  if (s.n_live && s.n_at_barrier == s.n_live) release_barrier();
  for (unsigned m = 0; m < warp.n_meetings; m++)
    if (complete(warp, *warp.meetings[m])) release_meeting(s.current / 32 * 32, *warp.meetings[m]);
}

void start_next_thread() {
  Scheduler& s = *scheduler;
  unsigned order = s.n_started++, index = s.reverse ? s.n_threads - 1 - order : order;
  Thread& thread = s.threads[index];
  thread.fiber = s.running;
  thread.state = State::Running;
  thread.copy_group = 0;
  const Dim& dim = s.launch.block;
  thread.index = {index % dim.x, index / dim.x % dim.y, index / (dim.x * dim.y)};
  make_current(index);
  s.launch.entry(s.launch.args);
  exit_thread();
}

void fiber_main() {
  Scheduler& s = *scheduler;
  for (;;) {
    while (!s.ready_count && s.n_started < s.n_threads) start_next_thread();
    Fiber* self = s.running;
    s.idle.push_back(self);
    if (s.ready_count)
      switch_to(take_ready());
    else if (s.n_live == 0)
      shim_switch(&self->stack_pointer, s.main_stack_pointer);
    else
      fail_deadlock();
  }
}

void run_block() {
  Scheduler& s = *scheduler;
  const Dim& dim = s.launch.block;
  s.n_threads = s.n_live = dim.x * dim.y * dim.z;
  s.n_started = s.n_at_barrier = s.barrier_side = s.ready_count = 0;
  s.predicates[0] = s.predicates[1] = 0;
  for (unsigned t = 0; t < s.n_threads; t++) s.threads[t].state = State::Unstarted;
  for (unsigned w = 0; w * 32 < s.n_threads; w++) {
    unsigned left = s.n_threads - w * 32;
    s.warps[w].live = left >= 32 ? ~0u : (1u << left) - 1;
    s.warps[w].n_meetings = 0;
  }
  memset(s.shared, GARBAGE, s.launch.shared_bytes);
  memset(s.shared + s.launch.shared_bytes, POISON, SHARED_RED_ZONE);
  s.running = take_fiber();
  shim_switch(&s.main_stack_pointer, s.running->stack_pointer);
  for (unsigned i = 0; i < SHARED_RED_ZONE; i++)
    if (s.shared[s.launch.shared_bytes + i] != POISON) fail("wrote past the end of its dynamic shared memory");
}

}  // namespace

Context* context() {
  if (!scheduler) {
    scheduler = new Scheduler;
    Context& c = scheduler->context;
    c.dynamic_shared = scheduler->shared;
    c.block_barrier = block_barrier;
    c.warp_exchange = warp_exchange;
    c.copy_async = copy_async;
    c.copy_commit = copy_commit;
    c.copy_wait = copy_wait;
    c.fail = fail;
    const char* order = getenv("MELISMA_SHIM_ORDER");
    scheduler->reverse = order && strcmp(order, "reverse") == 0;
  }
  return &scheduler->context;
}

void run_grid(const Launch& launch) {
  Context& c = *context();
  scheduler->launch = launch;
  c.block_dim = launch.block;
  c.grid_dim = launch.grid;
  unsigned long n_blocks = (unsigned long)launch.grid.x * launch.grid.y * launch.grid.z;
  for (unsigned long order = 0; order < n_blocks; order++) {
    unsigned long b = scheduler->reverse ? n_blocks - 1 - order : order;
    c.block = {unsigned(b % launch.grid.x), unsigned(b / launch.grid.x % launch.grid.y),
               unsigned(b / launch.grid.x / launch.grid.y)};
    run_block();
  }
}

}  // namespace shim

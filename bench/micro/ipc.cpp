// The pieces of the shared segment that each message goes through.
#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include <cstdlib>

#include "ipc/quiesce.h"
#include "ipc/segment.h"
#include "ipc/shared_lock.h"

namespace {

using softib::u32;
using softib::u64;
namespace ipc = softib::ipc;

ipc::Segment& segment() {
  static auto* mapped = [] {
    void* memory =
        ::mmap(nullptr, ipc::segment_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return static_cast<ipc::Segment*>(memory);
  }();
  return *mapped;
}

void lock_uncontended(benchmark::State& state) {
  ipc::SharedLock& lock = segment().cqs[1].lock;
  for (auto _ : state) {
    if (!ipc::lock(lock, 1)) std::abort();
    ipc::unlock(lock);
  }
}
BENCHMARK(lock_uncontended);

// One lock that all threads want; the time is that of one thread's turn.
void lock_contended(benchmark::State& state) {
  ipc::SharedLock& lock = segment().cqs[2].lock;
  u32 slot = static_cast<u32>(state.thread_index()) + 1;
  for (auto _ : state) {
    if (!ipc::lock(lock, slot)) std::abort();
    ipc::unlock(lock);
  }
}
BENCHMARK(lock_contended)->Threads(2)->UseRealTime();

// What dereg_mr and modify_qp wait for, with `processes` attached and nobody inside the data path.
void quiesce_idle(benchmark::State& state) {
  auto processes = static_cast<u32>(state.range(0));
  segment().header.process_limit = processes + 1;
  for (u32 slot = 1; slot <= processes; ++slot) segment().processes[slot].state = ipc::ProcessState::live;
  for (auto _ : state) {
    ipc::LaneSnapshot snapshot = ipc::LaneSnapshot::take(segment());
    if (!snapshot.passed(segment())) std::abort();
  }
}
BENCHMARK(quiesce_idle)->Arg(2)->Arg(64)->Arg(1024);

}  // namespace

BENCHMARK_MAIN();

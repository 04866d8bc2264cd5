// The doorbell, from the work request in the ring to its completion: what the engine adds to a copy. Both ends are in
// this process and on this core, so nothing here waits for another's cache.
#include "fabric.h"

#include <benchmark/benchmark.h>

namespace {

using softib::u32;
using softib::u64;
using softib::bench::Fabric;
using softib::hca::WrOpcode;
namespace hca = softib::hca;

Fabric& fabric() {
  static Fabric made;
  return made;
}

void report(benchmark::State& state, u64 length, u64 per_round) {
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * per_round));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * per_round * length));
}

void one_by_one(benchmark::State& state, WrOpcode opcode, u32 flags) {
  auto length = static_cast<u64>(state.range(0));
  for (auto _ : state) {
    fabric().post(opcode, length, flags | hca::send_signaled);
    fabric().ring();
    fabric().take_completions(1, 0);
  }
  report(state, length, 1);
}
BENCHMARK_CAPTURE(one_by_one, write_inline, WrOpcode::rdma_write, hca::send_inline)->Arg(2)->Arg(8)->Arg(64);
BENCHMARK_CAPTURE(one_by_one, write, WrOpcode::rdma_write, 0)->Arg(2)->Arg(8)->Arg(4096)->Arg(65536)->Arg(8 << 20);
BENCHMARK_CAPTURE(one_by_one, read, WrOpcode::rdma_read, 0)->Arg(8)->Arg(4096)->Arg(65536)->Arg(8 << 20);
BENCHMARK_CAPTURE(one_by_one, compare_swap, WrOpcode::compare_swap, 0)->Arg(8);

void send(benchmark::State& state) {
  auto length = static_cast<u64>(state.range(0));
  for (auto _ : state) {
    fabric().post_receive(length);
    fabric().post(WrOpcode::send, length, hca::send_signaled);
    fabric().ring();
    fabric().take_completions(1, 1);
  }
  report(state, length, 1);
}
BENCHMARK(send)->Arg(2)->Arg(4096)->Arg(65536);

// One doorbell for many requests, the last one signalled: perftest's -l.
void listed(benchmark::State& state) {
  constexpr u64 length = 8;
  auto count = static_cast<u64>(state.range(0));
  for (auto _ : state) {
    for (u64 i = 1; i < count; ++i) fabric().post(WrOpcode::rdma_write, length, 0);
    fabric().post(WrOpcode::rdma_write, length, hca::send_signaled);
    fabric().ring();
    fabric().take_completions(1, 0);
  }
  report(state, length, count);
}
BENCHMARK(listed)->Arg(1)->Arg(16)->Arg(64);

// What all of the above hold that is not the engine's: writing the request, looking at the completion queue.
void ring_only(benchmark::State& state) {
  for (auto _ : state) fabric().take_completions(0, 0);
}
BENCHMARK(ring_only);

}  // namespace

BENCHMARK_MAIN();

// Runs the ranks of a test, as threads of this process (so that sanitizers see all of them) or as processes.
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "coll/bootstrap/bootstrap.h"

namespace softib::coll::test {

enum class As : u8 { threads, processes };

struct RanksOptions {
  As as = As::threads;
  u32 ranks = 2;
  std::vector<u64> host_keys{};  // by rank; empty: all on one host
  std::set<u32> mortal{};        // who may die by a signal without failing the test; processes only
};

// Runs `body` once for each rank, with what it meets the others by, and waits for all. GoogleTest's checks may be used
// inside; in a process, they fail the test of the parent too. A process that fails takes the others with it.
void run_ranks(const RanksOptions& options, const std::function<void(Bootstrap&)>& body);

// Kills the calling process after that time, wherever it then is.
void die_after(std::chrono::microseconds time);

// Bytes that tell their message and place. `offset` is that of the first byte within its message.
void fill_pattern(std::span<std::byte> bytes, u64 message, u64 offset = 0);
// The first byte that differs; bytes.size() if none does.
[[nodiscard]] u64 first_difference(std::span<const std::byte> bytes, u64 message, u64 offset = 0);

// Memory that this process has in use: resident pages, in bytes.
[[nodiscard]] u64 resident_bytes();

}  // namespace softib::coll::test

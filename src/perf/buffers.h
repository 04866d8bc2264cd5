// The memory of one rank: what it sends from, what it receives in, and what it should have received.
#pragma once

#include <memory>

#include "coll/communicator.h"
#include "perf/options.h"

namespace softib::perf {

class Buffers {
 public:
  // Each of `bytes`; `expected` only where results are checked. Throws Stop.
  Buffers(coll::Communicator& communicator, const Options& options, u64 bytes);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  [[nodiscard]] std::byte* send() { return send_; }
  [[nodiscard]] std::byte* receive() { return receive_; }
  [[nodiscard]] std::byte* expected() { return expected_; }

 private:
  [[nodiscard]] std::byte* take(Memory memory, u64 bytes);
  void give_back();

  coll::Communicator& communicator_;
  u64 bytes_;
  Memory memory_;
  std::byte* send_ = nullptr;
  std::byte* receive_ = nullptr;
  std::byte* expected_ = nullptr;
};

}  // namespace softib::perf

// All ranks of the run, and what they tell each other beside the collective that is measured.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "coll/communicator.h"
#include "perf/stop.h"

namespace softib::perf {

// Waits for what has been started, or ends: with a time-out where nothing moved for `timeout` seconds, unless that is
// 0.
void finish(coll::Communicator& communicator, coll::Request request, u32 timeout);

class World {
 public:
  explicit World(std::unique_ptr<coll::Communicator> communicator, u32 timeout = 0)
      : communicator_(std::move(communicator)), timeout_(timeout) {}

  [[nodiscard]] u32 rank() const { return communicator_->rank(); }
  [[nodiscard]] u32 size() const { return communicator_->size(); }
  [[nodiscard]] coll::Communicator& communicator() { return *communicator_; }

  void barrier();
  // Of all ranks, in order; everyone gives as many.
  template <typename T>
  [[nodiscard]] std::vector<T> gather(std::span<const T> mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<T> all(mine.size() * size());
    gather_bytes(mine.data(), all.data(), mine.size_bytes());
    return all;
  }
  template <typename T>
  [[nodiscard]] std::vector<T> gather(const T& mine) {
    return gather(std::span<const T>(&mine, 1));
  }
  // Everyone gives a text of any length.
  [[nodiscard]] std::vector<std::string> gather_texts(const std::string& mine);

 private:
  void gather_bytes(const void* mine, void* all, u64 each);

  std::unique_ptr<coll::Communicator> communicator_;
  u32 timeout_;
};

}  // namespace softib::perf

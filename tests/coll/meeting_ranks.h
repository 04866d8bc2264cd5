// Ranks that meet, as threads of this process or as processes of their own.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

#include "coll/bootstrap/bootstrap.h"

namespace softib::coll::test {

using Connected = Outcome<std::unique_ptr<Bootstrap>>;

[[nodiscard]] UniqueId made_id();
[[nodiscard]] Connected connect_rank(const UniqueId& id, u32 ranks, u32 rank,
                                     std::chrono::nanoseconds timeout = std::chrono::seconds(60));
// What the ranks' connect() gave, in their order; all of them are under way at once.
[[nodiscard]] std::vector<Connected> connect_all(u32 ranks, const std::vector<u32>& who,
                                                 std::chrono::nanoseconds timeout = std::chrono::seconds(60));
[[nodiscard]] std::vector<Connected> connect_all(const UniqueId& id, u32 ranks, const std::vector<u32>& who,
                                                 std::chrono::nanoseconds timeout = std::chrono::seconds(60));
// Each with a Bootstrap, as threads. Connecting must work.
void as_threads(u32 ranks, const std::function<void(Bootstrap& bootstrap)>& body);

// Forked; ends with what `body` gives as its exit code. Killed and waited for by the destructor, if nobody did.
class Child {
 public:
  explicit Child(const std::function<int()>& body);
  Child(Child&& other) noexcept : pid_(std::exchange(other.pid_, 0)) {}
  Child& operator=(Child&&) = delete;
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  void kill();
  [[nodiscard]] int wait();  // the exit code; -1: ended by a signal

 private:
  pid_t pid_;
};

// A meeting that a process of its own serves, for those who fork ranks: the meeting's thread may be inside the
// allocator at that moment, and AddressSanitizer's, unlike the C library's, would leave its locks taken in the child
// for ever.
struct MeetingElsewhere {
  Child server;
  UniqueId id;
};
[[nodiscard]] MeetingElsewhere meeting_elsewhere();

// The next news, waited for by its descriptor.
[[nodiscard]] Bootstrap::News next_news(Bootstrap& bootstrap);

[[nodiscard]] Bytes bytes_of(std::string_view text);
[[nodiscard]] std::string text_of(const Bytes& bytes);

}  // namespace softib::coll::test

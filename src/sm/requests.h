// The manager's own questions: SMPs by directed route, many at a time, repeated when no answer comes.
#pragma once

#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "sm/subnet.h"
#include "sm/subnet_manager.h"
#include "wire/mad.h"

namespace softib::sm {

class Requests {
 public:
  // The answer, or nothing when there was none.
  using Done = std::function<void(const wire::Mad*)>;

  explicit Requests(Mouth& mouth) : mouth_(mouth), slots_(window) {}

  void get(const Path& path, SmpAttribute attribute, u32 modifier, Done done);
  void set(const Path& path, SmpAttribute attribute, u32 modifier, std::span<const u8> data, Done done);

  // Sends what may go. Answers that come within it are taken by a later call of received().
  void pump(u64 now);
  void received(const wire::Mad& mad);
  // Repeats what is due and gives when to call again.
  u64 on_time(u64 now);
  [[nodiscard]] bool idle() const { return waiting_.empty() && outstanding_ == 0; }
  void forget_all();

 private:
  static constexpr u32 window = 256;  // outstanding at a time
  static constexpr u32 slot_bits = 8;
  static constexpr u64 timeout_ns = 200'000'000;
  static constexpr u32 tries = 4;

  struct Question {
    wire::Mad mad{};
    Done done;
  };
  struct Slot {
    Question question;
    u64 deadline = 0;
    u32 turn = 0;  // tells an answer to an earlier use of the slot
    u32 tries = 0;
    bool used = false;
  };
  void ask(const Path& path, wire::Method method, SmpAttribute attribute, u32 modifier, std::span<const u8> data,
           Done done);
  void transmit(Slot& slot, u64 now);
  Done release(Slot& slot);

  Mouth& mouth_;
  std::vector<Slot> slots_;
  std::deque<Question> waiting_;
  u32 outstanding_ = 0;
  u32 next_slot_ = 0;
};

[[nodiscard]] inline std::span<const u8> data_of(const wire::Mad& mad) {
  return std::span(mad).subspan(wire::smp::data_at, wire::smp::data_size);
}

}  // namespace softib::sm

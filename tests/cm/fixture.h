// Two hosts' connection managers with a wire between them, in virtual time. The wire can lose, hold and repeat MADs.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <vector>

#include "cm/manager.h"

namespace softib::cm {

inline constexpr u64 millisecond = 1'000'000;
inline constexpr u64 second = 1000 * millisecond;

class Wire {
 public:
  struct End final : Manager::Outside {
    End(Wire& owner, u32 number) : wire(owner), index(number), manager(*this, 1000 * (number + 1)) {}
    void send(u32 port, const wire::Packet& packet) override;
    void happened(const Event& event) override;
    [[nodiscard]] u64 ca_guid(u32) const override { return 0x5254'0000'0000'0000 + index; }

    // The last event of a kind; fails the test when there is none.
    [[nodiscard]] const Event& last(Happening what) const;
    [[nodiscard]] size_t count(Happening what) const;

    Wire& wire;
    u32 index;
    Manager manager;
    std::vector<Event> events;
    std::function<void(const Event&)> answer;  // what the user does at once
  };

  Wire() : ends{End(*this, 0), End(*this, 1)} {}

  // Delivers what is under way.
  void settle();
  // Lets time pass, with all that falls due on the way.
  void pass(u64 duration);
  [[nodiscard]] size_t count_sent(wire::cm::Attribute what) const;

  // An established connection: ids at both ends.
  std::pair<u32, u32> connected();
  // Its first half: asked for, answered with REP, up to what the wire lets through.
  u32 ask(const ConnectParameters& parameters);

  u64 now = 0;
  std::array<End, 2> ends;
  // True: the MAD gets lost.
  std::function<bool(u32 from, const wire::Packet&)> loses;
  struct Sent {
    u32 from;
    wire::Packet packet;
    u64 at;
  };
  std::vector<Sent> sent;

 private:
  std::deque<Sent> under_way_;
};

// A path from the first end to the second.
[[nodiscard]] Path some_path();
[[nodiscard]] ConnectParameters some_parameters(u64 service_id = 7471);

}  // namespace softib::cm

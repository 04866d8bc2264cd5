#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>
#include <numeric>
#include <random>

#include "wire/rmpp_exchange.h"

namespace softib::wire::rmpp {
namespace {

constexpr u64 second = 1'000'000'000;

Message message(std::size_t bytes, MgmtClass mgmt_class = MgmtClass::subn_adm) {
  Message message;
  set(message.head, wire::header::mgmt_class, static_cast<u8>(mgmt_class));
  set(message.head, wire::header::method, static_cast<u8>(Method::get_table_resp));
  set(message.head, wire::header::transaction, 0x1234);
  set(message.head, sa::attribute_offset, 8);
  message.data.resize(bytes);
  std::iota(message.data.begin(), message.data.end(), u8{1});
  return message;
}

u32 segment(const Mad& mad) { return static_cast<u32>(get(mad, header::segment)); }
u64 length(const Mad& mad) { return get(mad, header::length); }

Mad ack(u32 number, u32 window) {
  Mad mad{};
  set(mad, header::type, static_cast<u8>(Type::ack));
  set(mad, header::segment, number);
  set(mad, header::window, window);
  return mad;
}

TEST(RmppSender, LengthCountsTheClassHeaderOfEachSegment) {
  Sender sender(message(450), {}, 10);
  const Mad first = *sender.next(0), second_one = *sender.next(0), last = *sender.next(0);
  EXPECT_EQ(get(first, header::flags), flag_active | flag_first);
  EXPECT_EQ(length(first), 450U + 3 * 20);
  EXPECT_EQ(length(second_one), 0U);
  EXPECT_EQ(get(last, header::flags), flag_active | flag_last);
  EXPECT_EQ(length(last), 50U + 20);
  EXPECT_FALSE(sender.next(0));
}

TEST(RmppSender, EmptyMessageIsOneSegment) {
  Sender sender(message(0), {});
  const Mad only = *sender.next(0);
  EXPECT_EQ(get(only, header::flags), flag_active | flag_first | flag_last);
  EXPECT_EQ(length(only), 20U);
  sender.received(ack(1, 1), 0);
  EXPECT_EQ(sender.outcome(), Outcome::done);
}

TEST(RmppSender, VendorClassHasMoreRoom) {
  Sender sender(message(216, MgmtClass::vendor_rmpp_first), {});
  EXPECT_EQ(sender.segments(), 1U);
  EXPECT_EQ(length(*sender.next(0)), 220U);
}

TEST(RmppSender, WaitsForTheWindow) {
  Sender sender(message(2000), {});
  EXPECT_EQ(segment(*sender.next(0)), 1U);
  EXPECT_FALSE(sender.next(0));
  sender.received(ack(1, 4), 0);
  for (u32 i = 2; i <= 4; ++i) EXPECT_EQ(segment(*sender.next(0)), i);
  EXPECT_FALSE(sender.next(0));
}

TEST(RmppSender, RepeatsFromTheFirstUnacknowledgedAndGivesUp) {
  Timing timing;
  timing.retries = 2;
  Sender sender(message(2000), timing, 5);
  for (u32 i = 0; i < 5; ++i) (void)sender.next(0);
  sender.received(ack(2, 5), 0);
  u64 now = sender.deadline();
  sender.on_time(now - 1);
  EXPECT_FALSE(sender.next(now));
  sender.on_time(now);
  EXPECT_EQ(segment(*sender.next(now)), 3U);
  for (u32 i = 0; i < 2; ++i) {
    now = sender.deadline();
    sender.on_time(now);
  }
  EXPECT_EQ(sender.outcome(), Outcome::failed);
  EXPECT_EQ(sender.status(), Status::too_many_retries);
  const Mad abort = *sender.next(now);
  EXPECT_EQ(type_of(abort), Type::abort);
  EXPECT_EQ(get(abort, header::status), static_cast<u8>(Status::too_many_retries));
}

TEST(RmppSender, AbortsOnImpossibleAcknowledgements) {
  const std::tuple<u32, u32, Status> cases[] = {{2, 3, Status::segment_too_big}, {1, 0, Status::window_too_small}};
  for (const auto& [number, window, status] : cases) {
    Sender sender(message(2000), {});
    (void)sender.next(0);
    sender.received(ack(number, window), 0);
    EXPECT_EQ(sender.outcome(), Outcome::failed);
    EXPECT_EQ(sender.status(), status);
  }
}

TEST(RmppSender, StopEndsIt) {
  Sender sender(message(2000), {});
  (void)sender.next(0);
  Mad stop = ack(0, 0);
  set(stop, header::type, static_cast<u8>(Type::stop));
  set(stop, header::status, static_cast<u8>(Status::no_resources));
  sender.received(stop, 0);
  EXPECT_EQ(sender.outcome(), Outcome::failed);
  EXPECT_EQ(sender.status(), Status::no_resources);
  EXPECT_FALSE(sender.next(0));
}

TEST(RmppReceiver, AnswersWithTheOtherDirection) {
  Sender sender(message(10), {});
  Receiver receiver(MgmtClass::subn_adm, {});
  const auto answer = receiver.received(*sender.next(0), 0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(type_of(*answer), Type::ack);
  EXPECT_EQ(method_of(*answer), Method::get_table);
  EXPECT_EQ(segment(*answer), 1U);
  EXPECT_EQ(receiver.outcome(), Outcome::done);
  EXPECT_EQ(receiver.take().data.size(), 10U);
}

TEST(RmppReceiver, RefusesWhatIsNoSegment) {
  struct Case {
    Field field;
    u64 value;
    Status status;
  };
  const Case cases[] = {{header::version, 2, Status::bad_version},
                        {header::type, 7, Status::bad_type},
                        {header::status, 3, Status::bad_status},
                        {header::segment, 0, Status::bad_segment},
                        {header::segment, 2, Status::bad_segment}};
  for (const Case& one : cases) {
    Receiver receiver(MgmtClass::subn_adm, {});
    Mad mad = *Sender(message(1000), {}).next(0);
    set(mad, one.field, one.value);
    const auto answer = receiver.received(mad, 0);
    ASSERT_TRUE(answer);
    EXPECT_EQ(type_of(*answer), Type::abort);
    EXPECT_EQ(get(*answer, header::status), static_cast<u8>(one.status));
    EXPECT_EQ(receiver.outcome(), Outcome::failed);
  }
}

TEST(RmppReceiver, TakesNoMoreThanItsLimit) {
  Receiver receiver(MgmtClass::subn_adm, {}, 300);
  Sender sender(message(1000), {}, 10);
  (void)receiver.received(*sender.next(0), 0);
  const auto answer = receiver.received(*sender.next(0), 0);
  ASSERT_TRUE(answer);
  EXPECT_EQ(receiver.status(), Status::no_resources);
}

TEST(RmppReceiver, GivesUpWhenNothingComes) {
  Receiver receiver(MgmtClass::subn_adm, {});
  (void)receiver.received(*Sender(message(1000), {}).next(0), 0);
  receiver.on_time(60 * second);
  EXPECT_EQ(receiver.outcome(), Outcome::failed);
  EXPECT_EQ(receiver.status(), Status::took_too_long);
}

// Two exchanges with a line between them that loses, doubles and reorders.
class Line {
 public:
  Line(u32 seed, u32 loss_percent) : random_(seed), loss_(loss_percent) {
    left.other = &right;
    right.other = &left;
    left.line = right.line = this;
  }
  struct Side final : Exchange::Owner {
    Exchange exchange{*this};
    Side* other = nullptr;
    Line* line = nullptr;
    std::vector<Message> came;
    std::vector<Outcome> ends;
    u32 forgotten_count = 0;
    void transmit(const Peer& peer, const Mad& mad) override { line->carry(*other, peer, mad); }
    void arrived(const Peer&, Message message) override { came.push_back(std::move(message)); }
    void sent(const Peer&, Outcome outcome, Status) override { ends.push_back(outcome); }
    void forgotten(const Peer&) override { ++forgotten_count; }
  };

  void carry(Side& to, const Peer& peer, const Mad& mad) {
    if (random_() % 100 < loss_) return;
    const std::size_t back = loss_ == 0 ? 0 : random_() % 3;
    const auto at = flight_.end() - static_cast<std::ptrdiff_t>(std::min(back, flight_.size()));
    flight_.insert(at, {&to, peer, mad});
    if (loss_ != 0 && random_() % 20 == 0) flight_.push_back({&to, peer, mad});
  }

  void run(u64 until) {
    for (u64 now = 0; now <= until; now += second / 4) {
      while (!flight_.empty()) {
        const auto [to, peer, mad] = flight_.front();
        flight_.pop_front();
        to->exchange.received(peer, mad, now);
      }
      left.exchange.on_time(now);
      right.exchange.on_time(now);
    }
  }

  Side left, right;

 private:
  struct Flying {
    Side* to;
    Peer peer;
    Mad mad;
  };
  std::mt19937 random_;
  u32 loss_;
  std::deque<Flying> flight_;
};

TEST(RmppExchange, ManyAtOnce) {
  Line line(1, 0);
  for (u64 i = 0; i < 20; ++i) line.left.exchange.send({1, 1, i}, message(i * 137), 0);
  line.run(second);
  ASSERT_EQ(line.right.came.size(), 20U);
  EXPECT_EQ(line.left.ends, std::vector<Outcome>(20, Outcome::done));
  line.run(60 * second);
  EXPECT_TRUE(line.left.exchange.idle() && line.right.exchange.idle());
}

// A program that asks without a pause: what has arrived lingers for a while, and must not keep new messages out.
TEST(RmppExchange, ThousandsWithinASecond) {
  Line line(1, 0);
  constexpr u64 count = 5000;
  for (u64 i = 0; i < count; ++i) {
    line.left.exchange.send({1, 1, i}, message(300), i * 1000);
    line.run(0);
  }
  EXPECT_EQ(line.right.came.size(), count);
  EXPECT_EQ(line.left.ends, std::vector<Outcome>(count, Outcome::done));
  EXPECT_EQ(line.left.forgotten_count, count);
  EXPECT_GT(line.right.forgotten_count, count - 100) << "the owner keeps addresses for each until then";
  line.run(60 * second);
  EXPECT_EQ(line.right.forgotten_count, count);
  EXPECT_TRUE(line.right.exchange.idle());
}

TEST(RmppExchange, WhatArrivesIsWhatWasSentWhateverTheLineLoses) {
  EXPECT_TRUE(rc::check([](u32 seed) {
    const auto bytes = *rc::gen::inRange<std::size_t>(0, 60'000);
    const auto loss = *rc::gen::inRange<u32>(0, 15);
    Line line(seed, loss);
    const Message sent = message(bytes);
    line.left.exchange.send({1, 1, 7}, sent, 0);
    line.run(400 * second);
    RC_ASSERT(line.right.came.size() <= 1U);
    RC_ASSERT(line.left.ends.size() == 1U);
    if (line.left.ends[0] == Outcome::done) RC_ASSERT(line.right.came.size() == 1U);
    if (!line.right.came.empty()) RC_ASSERT(line.right.came[0].data == sent.data);
    if (loss == 0) RC_ASSERT(line.right.came.size() == 1U);
    RC_ASSERT(line.left.exchange.idle() && line.right.exchange.idle());
  }));
}

TEST(RmppExchange, NothingAnswersAtAll) {
  Line line(1, 100);
  line.left.exchange.send({1, 1, 7}, message(5000), 0);
  line.run(60 * second);
  EXPECT_EQ(line.left.ends, std::vector<Outcome>{Outcome::failed});
  EXPECT_TRUE(line.left.exchange.idle());
}

}  // namespace
}  // namespace softib::wire::rmpp

// What programs and aggregation nodes say to each other: every format comes out as it went in, nonsense is turned away,
// and mailboxes get messages through a network that loses, doubles and reorders.
#include <gtest/gtest.h>

#include <random>

#include "coll/innetwork/mailbox.h"
#include "coll/innetwork/messages.h"

namespace softib::coll::innetwork {

namespace {

using std::chrono::milliseconds;

std::vector<Words> examples() {
  const End end{7, 5, 123, 456};
  return {NodeHello{1, 2, 3, 4, 5, {6, 7}, "an0", {8, 9}},
          Welcome{5, {1, 2}},
          BeginJob{3, 2, {1024, 4}, {{end, "rank 0 on host0"}, {end, "rank 1 on host1"}}},
          JobBegun{1, 2, {3, 4}, {{end, "an0"}}, "spine0 <- leaf0"},
          EndJob{1, 2},
          PrepareJob{1, 2, 5, {3, 4}, true, 1, {"a", "b"}},
          Prepared{end, {end, end}},
          ConnectJob{1, end, {end}},
          DismissJob{1, "why"},
          JobOver{1, 2, false, "why"},
          AskReport{},
          Report{{"an0"}, 1, 2},
          coll::innetwork::Done{},
          Refused{"why"}};
}

TEST(InNetworkMessages, WordsComeOutAsTheyWentIn) {
  const auto all = examples();
  EXPECT_EQ(all.size(), std::variant_size_v<Words>);
  for (const Words& words : all) EXPECT_EQ(parse_words(emit(words)), words);
}

TEST(InNetworkMessages, CutOrLongerWordsAreTurnedAway) {
  for (const Words& words : examples()) {
    Bytes bytes = emit(words);
    for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(parse_words(std::span(bytes).first(size)));
    bytes.push_back(std::byte{0});
    EXPECT_FALSE(parse_words(bytes));
  }
}

TEST(InNetworkMessages, SegmentsComeOutAsTheyWentIn) {
  for (const SegmentKind kind : {SegmentKind::hello, SegmentKind::contribution, SegmentKind::result}) {
    const Segment segment{kind, DataType::float16, Op::avg, true, 77, 128, u64{1} << 40};
    Bytes message(segment_header + 128);
    emit(segment, message.data());
    EXPECT_EQ(parse_segment(message), segment);
  }
  const Segment silent{SegmentKind::contribution, DataType::int8, Op::sum, false, 1, 4096, 0};
  Bytes message(segment_header);
  emit(silent, message.data());
  EXPECT_EQ(parse_segment(message), silent);
}

TEST(InNetworkMessages, SegmentsThatContradictThemselvesAreTurnedAway) {
  const auto is_taken = [](const Segment& segment, std::size_t data) {
    Bytes message(segment_header + data);
    emit(segment, message.data());
    return parse_segment(message).has_value();
  };
  const Segment good{SegmentKind::contribution, DataType::float32, Op::sum, true, 1, 64, 0};
  EXPECT_TRUE(is_taken(good, 64));
  EXPECT_FALSE(is_taken(good, 60));
  EXPECT_FALSE(is_taken(good, 68));
  Segment bad = good;
  bad.bytes = 62;  // no whole elements
  EXPECT_FALSE(is_taken(bad, 62));
  bad = good;
  bad.kind = static_cast<SegmentKind>(9);
  EXPECT_FALSE(is_taken(bad, 64));
  bad = good;
  bad.type = static_cast<DataType>(99);
  EXPECT_FALSE(is_taken(bad, 64));
  bad = good;
  bad.op = static_cast<Op>(99);
  EXPECT_FALSE(is_taken(bad, 64));
  bad = good;
  bad.kind = SegmentKind::result;
  bad.gives = false;
  EXPECT_FALSE(is_taken(bad, 0));
}

// Two mailboxes and a network between them.
class MailTest : public testing::Test {
 protected:
  static constexpr Correspondent client_at{1, 10}, server_at{2, 20};

  // Everything that is under way, in any order; each datagram is lost or doubled with these chances.
  void carry(double lost, double doubled) {
    std::vector<std::pair<bool, Bytes>> flying;
    while (auto datagram = client.next_datagram()) flying.emplace_back(true, std::move(datagram->bytes));
    while (auto datagram = server.next_datagram()) flying.emplace_back(false, std::move(datagram->bytes));
    std::shuffle(flying.begin(), flying.end(), random);
    for (const auto& [to_server, bytes] : flying) {
      const auto chance = [&](double limit) { return std::uniform_real_distribution<>()(random) < limit; };
      for (int copies = chance(lost) ? 0 : chance(doubled) ? 2 : 1; copies > 0; --copies)
        to_server ? server.receive(client_at, bytes, now) : client.receive(server_at, bytes, now);
    }
  }

  std::mt19937_64 random{1};
  Mailbox::Time now{};
  MailboxLimits limits{.datagram_bytes = 64, .tries = 100};
  Mailbox client{100, limits};
  Mailbox server{1, limits};
};

Bytes text(std::size_t size, std::mt19937_64& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_F(MailTest, EveryQuestionIsHeardOnceAndAnswered) {
  for (u32 round = 0; round < 100; ++round) {
    const Bytes question = text(random() % 1000, random);
    const Bytes reply = text(random() % 1000, random);
    const u64 transaction = client.ask(server_at, question, now);
    u32 heard = 0;
    bool answered = false;
    for (u32 turn = 0; turn < 400 && !answered; ++turn) {
      carry(0.05, 0.1);
      while (auto event = server.next_event()) {
        ++heard;
        EXPECT_EQ(event->message, question);
        server.answer(event->peer, event->transaction, reply, now);
      }
      while (auto event = client.next_event()) {
        answered = event->kind == Mailbox::Event::Kind::answer;
        EXPECT_EQ(event->transaction, transaction);
        EXPECT_EQ(event->message, reply);
      }
      now += milliseconds(60);
      client.on_time(now);
    }
    EXPECT_TRUE(answered);
    EXPECT_EQ(heard, 1U);
  }
}

TEST_F(MailTest, WhoIsNotThereIsToldOf) {
  const u64 transaction = client.ask(server_at, text(10, random), now);
  for (u32 i = 0; i < 200; ++i) {
    while (client.next_datagram()) {
    }
    now += milliseconds(250);
    client.on_time(now);
  }
  const auto event = client.next_event();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->kind, Mailbox::Event::Kind::unanswered);
  EXPECT_EQ(event->transaction, transaction);
  EXPECT_FALSE(client.deadline());
}

TEST_F(MailTest, NonsenseChangesNothing) {
  for (u32 i = 0; i < 10000; ++i) {
    Bytes bytes = text(random() % 80, random);
    if (random() % 2 == 0 && bytes.size() >= 8) {
      const char magic[] = "SAF1\1\0\0\0";
      std::memcpy(bytes.data(), magic, 8);
    }
    server.receive({3, 3}, bytes, now);
  }
  while (auto event = server.next_event()) EXPECT_EQ(event->kind, Mailbox::Event::Kind::question);
  // An answer from somebody else isn't one.
  static_cast<void>(client.ask(server_at, text(5, random), now));
  while (auto datagram = client.next_datagram()) server.receive(client_at, datagram->bytes, now);
  const auto question = server.next_event();
  ASSERT_TRUE(question);
  server.answer(question->peer, question->transaction, text(5, random), now);
  while (auto datagram = server.next_datagram()) client.receive({9, 9}, datagram->bytes, now);
  EXPECT_FALSE(client.next_event());
}

}  // namespace

}  // namespace softib::coll::innetwork

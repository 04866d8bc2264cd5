#include "coll/bootstrap/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "meeting_ranks.h"

namespace softib::coll::test {

namespace {

Guest some_guest(u32 rank) {
  return {{rank,
           "host" + std::to_string(rank),
           0x1234'5678'9abc'def0U + rank,
           17,
           "10.0.0.7",
           {5, u64{1} << 63},
           0xfedc'ba98'7654'3210U},
          *Address::numeric("10.0.0.7", static_cast<u16>(4000 + rank))};
}

// Every part of a message from its front, and the message with a byte behind it, is no message.
template <typename T>
void expect_only_whole(const Bytes& bytes) {
  EXPECT_TRUE(T::parse(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_FALSE(T::parse(std::span(bytes).first(size))) << size;
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(T::parse(longer));
}

TEST(Messages, OnlyWholeOnesAreTaken) {
  expect_only_whole<Hello>(Hello{{}, 5, some_guest(3)}.emit());
  expect_only_whole<Hello>(Hello{{}, 5, some_guest(3), 1, {std::nullopt, Address::numeric("::1", 5)}}.emit());
  expect_only_whole<Table>(Table{{some_guest(0), some_guest(1)}}.emit());
  expect_only_whole<Join>(Join{{}, 3, 1}.emit());
  expect_only_whole<Reason>(Reason{Code::remote_error, "gone"}.emit());
  expect_only_whole<Blame>(Blame{3, 9}.emit());
}

TEST(Messages, SayTheSameAgain) {
  const auto hello =
      Hello::parse(Hello{{std::byte{7}}, 5, some_guest(3), 1, {std::nullopt, Address::numeric("10.1.0.7", 5)}}.emit());
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->key[0], std::byte{7});
  EXPECT_EQ(hello->ranks, 5U);
  EXPECT_EQ(hello->guest.member.host, "host3");
  EXPECT_EQ(hello->guest.member.host_key, 0x1234'5678'9abc'def3U);
  EXPECT_EQ(hello->guest.member.machine_key, 0xfedc'ba98'7654'3210U);
  EXPECT_EQ(hello->guest.member.process, 17);
  EXPECT_EQ(hello->guest.member.processors, (std::vector<u64>{5, u64{1} << 63}));
  EXPECT_EQ(hello->guest.member.address, "10.0.0.7");
  EXPECT_EQ(hello->guest.listens.text(), "10.0.0.7:4003");
  EXPECT_EQ(hello->came_by, 1);
  ASSERT_EQ(hello->listens.size(), 2U);
  EXPECT_FALSE(hello->listens[0]);
  EXPECT_EQ(hello->listens[1]->text(), "10.1.0.7:5");
  const Bytes with_blob = Gather{3, bytes_of("blob")}.emit();
  const auto gather = Gather::parse(with_blob);
  ASSERT_TRUE(gather);
  EXPECT_EQ(gather->number, 3U);
  EXPECT_EQ(gather->blob.size(), 4U);
  MeetingPlace place{MeetingPlace::Kind::made, {}, {std::byte{3}}};
  EXPECT_FALSE(MeetingPlace::parse(place.emit())) << "without an address";
  for (u16 port = 1; port <= MeetingPlace::most_addresses; ++port) {
    place.addresses.push_back(*Address::numeric("fd00::1", port));
    const auto id = MeetingPlace::parse(place.emit());
    ASSERT_TRUE(id);
    EXPECT_EQ(id->addresses, place.addresses);
    EXPECT_EQ(id->key, place.key);
  }
}

TEST(Messages, RanksOutOfRangeAreRefused) {
  EXPECT_FALSE(Hello::parse(Hello{{}, 3, some_guest(3)}.emit()));
  EXPECT_FALSE(Hello::parse(Hello{{}, most_ranks + 1, some_guest(3)}.emit()));
  EXPECT_FALSE(Table::parse(Table{{some_guest(1), some_guest(0)}}.emit()));
}

TEST(Messages, RanksInWords) {
  using Ranks = std::vector<u32>;
  EXPECT_EQ(names_of_ranks(Ranks{3}), "rank 3");
  EXPECT_EQ(names_of_ranks(Ranks{0, 1}), "ranks 0-1");
  EXPECT_EQ(names_of_ranks(Ranks{1, 2, 3, 5, 9}), "ranks 1-3, 5 and 9");
  Ranks even;
  for (u32 rank = 0; rank < 100; rank += 2) even.push_back(rank);
  EXPECT_TRUE(names_of_ranks(even).ends_with("30 and others"));
}

TEST(Frames, AreCutFromAnyPieces) {
  Bytes stream = make_frame(1, bytes_of("one"));
  const Bytes second = make_frame(2, {});
  const Bytes third = make_frame(3, bytes_of("three"));
  stream.insert(stream.end(), second.begin(), second.end());
  stream.insert(stream.end(), third.begin(), third.end());
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    FrameReader reader(16);
    std::vector<std::string> got;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.take(std::span(stream).subspan(at, std::min(piece, stream.size() - at)));
      while (const auto frame = reader.next()) got.push_back(std::to_string(frame->type) + text_of(frame->body));
    }
    EXPECT_THAT(got, ::testing::ElementsAre("1one", "2", "3three")) << piece;
  }
}

TEST(Frames, GarbageAndTooMuchAreRefused) {
  FrameReader garbage(16);
  garbage.take(bytes_of("GET / HTTP/1.1\r\n"));
  EXPECT_FALSE(garbage.next());
  EXPECT_TRUE(garbage.broken());
  FrameReader small(2);
  small.take(make_frame(1, bytes_of("abc")));
  EXPECT_FALSE(small.next());
  EXPECT_TRUE(small.broken());
}

}  // namespace

}  // namespace softib::coll::test

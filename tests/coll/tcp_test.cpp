#include "coll/transport/tcp/tcp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <thread>

#include "coll/net/sockets.h"
#include "coll/transport/tcp/transport.h"
#include "meeting_ranks.h"
#include "transport_contract.h"

namespace softib::coll::test {

namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// Threads show nothing that processes don't, but to sanitizers.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool with_threads = true;
#else
constexpr bool with_threads = false;
#endif

TransportKind tcp_kind() {
  return {.name = "tcp",
          .create = [](Bootstrap& bootstrap,
                       std::span<const u32> peers) { return tcp::create(bootstrap, Environment{}, peers); },
          .threads = with_threads};
}

// Two ranks, one of which is left to the test: what its peer says is a stream of bytes.
class Alone {
 public:
  Alone() {
    const auto listener = listen_at(*Address::numeric("127.0.0.1"));
    peer_ = std::move(*begin_connect(*local_address(listener->get())));
    pollfd polled{listener->get(), POLLIN, 0};
    ::poll(&polled, 1, 5000);
    std::vector<std::unique_ptr<tcp::Connection>> connections(2);
    connections[1] = std::make_unique<tcp::Connection>(std::move(**accept_one(listener->get())),
                                                       Member{.rank = 1, .host = "host1", .address = "127.0.0.1"});
    transport = std::make_unique<tcp::TcpTransport>(std::move(connections));
    EXPECT_TRUE(transport->open_descriptors());
  }

  // The other side may have closed already.
  void say(std::span<const std::byte> bytes) {
    [[maybe_unused]] const auto sent = ::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void say(const tcp::Header& header) { say(tcp::emit(header)); }
  void hang_up() { peer_.reset(); }

  [[nodiscard]] Error failure() {
    while (true) {
      if (auto broken = transport->broken()) return broken->error;
      if (!transport->progress()) ::sched_yield();
    }
  }
  void drive(const Operation& operation) {
    while (operation.state == State::waiting) transport->progress();
  }

  std::unique_ptr<tcp::TcpTransport> transport;

 private:
  Fd peer_;
};

Receive expecting(std::span<std::byte> memory, Stream stream = 1) {
  Receive receive;
  receive.peer = 1;
  receive.stream = stream;
  receive.bytes = memory.size();
  receive.memory = memory.data();
  return receive;
}

TEST(Tcp, ABrokenConnectionIsToldOfOnceWithRankAndHost) {
  Alone alone;
  Bytes memory(8);
  Receive receive = expecting(memory);
  alone.transport->receive(receive);
  alone.hang_up();
  EXPECT_EQ(alone.failure().text, "rank 1 on host1 closed its connection");
  EXPECT_EQ(receive.state, State::failed);
  EXPECT_FALSE(alone.transport->broken());
  Receive later = expecting(memory);
  alone.transport->receive(later);
  EXPECT_EQ(later.state, State::failed);
  EXPECT_FALSE(alone.transport->progress());
}

TEST(Tcp, APeerThatHasSaidByeIsMissedOnlyBySomebodyWhoWaits) {
  Alone alone;
  alone.say({tcp::Kind::eager, 1, 8, 0});
  alone.say(bytes_of("12345678"));
  alone.say({tcp::Kind::bye, 0, 0, 0});
  alone.hang_up();
  pollfd polled{alone.transport->descriptors()[0], POLLIN, 0};
  while (::poll(&polled, 1, 50) > 0) alone.transport->progress();
  EXPECT_FALSE(alone.transport->broken());
  Bytes memory(8);
  Receive receive = expecting(memory);
  alone.transport->receive(receive);
  alone.drive(receive);
  EXPECT_EQ(receive.state, State::done);
  EXPECT_EQ(text_of(memory), "12345678");
  Receive never = expecting(memory);
  alone.transport->receive(never);
  alone.drive(never);
  EXPECT_EQ(never.state, State::failed);
  EXPECT_TRUE(alone.transport->broken());
}

// The receive is posted before the message comes, while it comes, or afterwards.
TEST(Tcp, LengthsThatDoNotFitAreAnError) {
  for (const int there : {-1, 0, 3, 8}) {
    Alone alone;
    Bytes memory(16);
    Receive receive = expecting(memory);
    if (there < 0) alone.transport->receive(receive);
    alone.say({tcp::Kind::eager, 1, 8, 0});
    alone.say(bytes_of(std::string_view("12345678").substr(0, there < 0 ? 8U : static_cast<u32>(there))));
    if (there >= 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      alone.transport->progress();
      alone.transport->receive(receive);
    }
    const Error error = alone.failure();
    EXPECT_EQ(error.code, Code::invalid_usage);
    EXPECT_EQ(error.text, "rank 1 on host1 sent 8 bytes where 16 are received");
    EXPECT_EQ(receive.state, State::failed);
  }
}

TEST(Tcp, NonsenseEndsTheConnection) {
  using tcp::Kind;
  const u64 huge = ~u64{0};
  const std::vector<tcp::Header> headers{
      {Kind::eager, 1, tcp::most_eager + 1, 0},
      {Kind::eager, 1, huge, 0},
      {Kind::pull, 7, 0, 1},
      {Kind::data, 7, 64, 0},
      {Kind::credit, 0, 1, 0},
      {Kind::credit, 0, huge, 0},
      {static_cast<Kind>(7), 0, 0, 0},
      {static_cast<Kind>(0), 0, 0, 0},
  };
  for (const tcp::Header& header : headers) {
    Alone alone;
    Bytes memory(1 << 20);
    Receive receive = expecting(memory);
    alone.transport->receive(receive);
    alone.say(header);
    EXPECT_THAT(alone.failure().text, MatchesRegex("rank 1 on host1 sent (garbage|what makes no sense here)"));
    EXPECT_EQ(receive.state, State::failed);
  }
  Alone alone;
  alone.say(bytes_of("GET / HTTP/1.1\r\nHost: somewhere\r\n\r\n"));
  EXPECT_THAT(alone.failure().text, HasSubstr("garbage"));
}

// Without the receiver's leave nobody may fill its memory.
TEST(Tcp, MoreThanMayBeKeptEndsTheConnection) {
  Alone alone;
  const Bytes message(tcp::most_eager);
  std::jthread talker([&] {
    for (u64 i = 0; i <= tcp::most_kept / tcp::most_eager; ++i) {
      alone.say({tcp::Kind::eager, i, tcp::most_eager, 0});
      alone.say(message);
    }
  });
  EXPECT_THAT(alone.failure().text, HasSubstr("makes no sense"));
  talker.join();
}

TEST(Tcp, PiecesGoWhereTheyWereAskedFor) {
  Alone alone;
  Bytes memory(130);
  Receive receive = expecting(memory);
  alone.transport->receive(receive);
  alone.say({tcp::Kind::announce, 1, 130, 5});
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  alone.transport->progress();
  const std::string text = std::string(64, 'a') + std::string(66, 'b');
  alone.say({tcp::Kind::data, receive.token, 64, 0});
  alone.say(bytes_of(text.substr(0, 64)));
  alone.say({tcp::Kind::data, receive.token, 66, 0});
  alone.say(bytes_of(text.substr(64)));
  alone.drive(receive);
  EXPECT_EQ(receive.state, State::done);
  EXPECT_EQ(text_of(memory), text);
}

TEST(Tcp, ConnectsOverARealBootstrap) {
  as_threads(3, [](Bootstrap& bootstrap) {
    const u32 next = (bootstrap.rank() + 1) % 3;
    const u32 before = (bootstrap.rank() + 2) % 3;
    const auto transport = tcp::create(bootstrap, Environment{}, std::vector<u32>{next, before});
    ASSERT_TRUE(transport) << transport.error().text;
    EXPECT_STREQ((*transport)->name(), "tcp");
    EXPECT_EQ((*transport)->descriptors().size(), 1U);
    u64 mine = bootstrap.rank(), theirs = 99;
    Send send;
    send.peer = next;
    send.bytes = 8;
    send.memory = &mine;
    Receive receive;
    receive.peer = before;
    receive.bytes = 8;
    receive.memory = &theirs;
    (*transport)->receive(receive);
    (*transport)->send(send);
    while (send.state == State::waiting || receive.state == State::waiting) {
      if ((*transport)->progress() || !(*transport)->arm()) continue;
      pollfd polled{(*transport)->descriptors()[0], POLLIN, 0};
      ::poll(&polled, 1, -1);
    }
    EXPECT_EQ(theirs, before);
    bootstrap.leave();
  });
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Tcp, TransportContract, testing::ValuesIn(contract_settings(tcp_kind())), setting_name);

}  // namespace softib::coll::test

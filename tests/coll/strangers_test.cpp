// Connections of those who don't belong there, at every place that listens or is connected to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <filesystem>
#include <random>
#include <thread>

#include "coll/bootstrap/messages.h"
#include "coll/net/sockets.h"
#include "meeting_ranks.h"

namespace softib::coll::test {

namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

Fd connected_to(const Address& address) {
  auto fd = begin_connect(address);
  if (!fd) return {};
  pollfd polled{fd->get(), POLLOUT, 0};
  ::poll(&polled, 1, 5000);
  return std::move(*fd);
}

void say(const Fd& fd, std::span<const std::byte> bytes) {
  [[maybe_unused]] const auto sent = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

Bytes random_bytes(std::mt19937& random, std::size_t most) {
  Bytes bytes(random() % (most + 1));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// What is said by strangers: nothing, garbage, frames of every type with garbage in them, halves of frames, lengths
// beyond all bounds.
std::vector<Bytes> strange_words() {
  std::mt19937 random(1);
  std::vector<Bytes> words{{}, bytes_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), bytes_of("x")};
  for (u16 type = 0; type < 14; ++type) {
    words.push_back(make_frame(type, {}));
    words.push_back(make_frame(type, random_bytes(random, 600)));
    Bytes half = make_frame(type, random_bytes(random, 600));
    half.resize(half.size() / 2);
    words.push_back(half);
    Bytes endless = make_frame(type, {});
    for (std::size_t i = 8; i < 12; ++i) endless[i] = std::byte{0xff};
    words.push_back(endless);
  }
  return words;
}

// Some stay, some close at once, some reset.
std::vector<Fd> disturb(const Address& address) {
  std::vector<Fd> staying;
  u32 turn = 0;
  for (const Bytes& words : strange_words()) {
    Fd fd = connected_to(address);
    say(fd, words);
    if (++turn % 3 == 0) {
      const linger hard{1, 0};
      ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    if (turn % 3 == 1) staying.push_back(std::move(fd));
  }
  return staying;
}

TEST(Strangers, DoNotDisturbTheMeeting) {
  const UniqueId id = made_id();
  const Address address = MeetingPlace::parse(id)->addresses[0];
  std::vector<std::jthread> threads;
  const auto join = [&](u32 rank) {
    threads.emplace_back([&id, rank] {
      const auto bootstrap = connect_rank(id, 3, rank);
      ASSERT_TRUE(bootstrap) << bootstrap.error().text;
      EXPECT_TRUE((*bootstrap)->all_gather({}));
      (*bootstrap)->leave();
    });
  };
  const auto before = disturb(address);
  join(0);
  const auto between = disturb(address);
  join(1);
  join(2);
  threads.clear();
}

TEST(Strangers, MoreThanAreListenedToDoNotDisturbTheMeeting) {
  const UniqueId id = made_id();
  std::vector<Fd> silent;
  for (int i = 0; i < 400; ++i) silent.push_back(connected_to(MeetingPlace::parse(id)->addresses[0]));
  EXPECT_TRUE(connect_rank(id, 1, 0));
}

// A meeting and a peer that are played by the test.
class Played {
 public:
  Played() {
    listener_ = std::move(*listen_at(*Address::numeric("127.0.0.1")));
    place_.addresses = {*local_address(listener_.get())};
  }

  [[nodiscard]] UniqueId id() const { return place_.emit(); }
  [[nodiscard]] const Key& key() const { return place_.key; }

  // The hello of the rank that came.
  [[nodiscard]] Hello welcome() {
    pollfd polled{listener_.get(), POLLIN, 0};
    ::poll(&polled, 1, 5000);
    rank_.emplace(std::move(**accept_one(listener_.get())), most_table_bytes);
    return *Hello::parse(hear().body);
  }
  [[nodiscard]] Frame hear() {
    while (true) {
      if (auto frame = rank_->next()) return *frame;
      pollfd polled{rank_->fd(), POLLIN, 0};
      if (::poll(&polled, 1, 5000) == 0 || rank_->receive() == FrameSocket::Stream::ended) return {};
    }
  }
  void answer(MeetingMessage message, std::span<const std::byte> body = {}) {
    rank_->post(static_cast<u16>(message), body);
    EXPECT_TRUE(rank_->flush());
  }
  void answer_raw(std::span<const std::byte> bytes) {
    [[maybe_unused]] const auto sent = ::send(rank_->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void hang_up() { rank_->close(); }

 private:
  MeetingPlace place_;
  Fd listener_;
  std::optional<FrameSocket> rank_;
};

TEST(Strangers, DoNotDisturbARankThatWaitsForOthers) {
  Played played;
  Connected bootstrap = refuse(Code::internal_error, "");
  std::jthread thread([&] { bootstrap = connect_rank(played.id(), 2, 0); });
  const Hello hello = played.welcome();
  const auto before = disturb(hello.guest.listens);
  Hello other = hello;
  other.guest.member.rank = 1;
  played.answer(MeetingMessage::table, Table{{hello.guest, other.guest}}.emit());
  const auto between = disturb(hello.guest.listens);
  std::vector<Fd> wrong;
  for (const Join& join :
       {Join{{std::byte{9}}, 1, 0}, Join{played.key(), 0, 0}, Join{played.key(), 2, 0}, Join{played.key(), 1, 1}}) {
    wrong.push_back(connected_to(hello.guest.listens));
    say(wrong.back(), frame_of(MeetingMessage::join, join.emit()));
  }
  const Fd right = connected_to(hello.guest.listens);
  say(right, frame_of(MeetingMessage::join, Join{played.key(), 1, 0}.emit()));
  EXPECT_EQ(static_cast<MeetingMessage>(played.hear().type), MeetingMessage::ready);
  played.answer(MeetingMessage::go);
  thread.join();
  ASSERT_TRUE(bootstrap) << bootstrap.error().text;
  say(right, frame_of(MeetingMessage::gather, Gather{1, bytes_of("mine")}.emit()));
  const auto all = (*bootstrap)->all_gather({});
  ASSERT_TRUE(all);
  EXPECT_EQ(text_of((*all)[1]), "mine");
}

TEST(Strangers, AMeetingThatIsNoneGivesAnError) {
  for (const Bytes& words : strange_words()) {
    if (words.size() < frame_header_bytes) continue;  // that may still become something
    Played played;
    Connected bootstrap = refuse(Code::internal_error, "");
    std::jthread thread([&] { bootstrap = connect_rank(played.id(), 2, 0); });
    static_cast<void>(played.welcome());
    played.answer_raw(words);
    played.hang_up();
    thread.join();
    ASSERT_FALSE(bootstrap);
    EXPECT_THAT(bootstrap.error().text, HasSubstr("127.0.0.1"));
  }
}

// Rank 0 of two, with the meeting and rank 1 played.
struct PlayedPeer {
  PlayedPeer() {
    std::jthread thread([this] { bootstrap = connect_rank(played.id(), 2, 0); });
    const Hello hello = played.welcome();
    Hello other = hello;
    other.guest.member.rank = 1;
    played.answer(MeetingMessage::table, Table{{hello.guest, other.guest}}.emit());
    peer = connected_to(hello.guest.listens);
    say(peer, frame_of(MeetingMessage::join, Join{played.key(), 1, 0}.emit()));
    static_cast<void>(played.hear());
    played.answer(MeetingMessage::go);
  }

  Played played;
  Connected bootstrap = refuse(Code::internal_error, "");
  Fd peer;
};

// A peer with the right key that talks nonsense has ended, as far as others are concerned.
TEST(Strangers, APeerThatTalksNonsenseHasEnded) {
  for (const Bytes& words : {bytes_of("GET / HTTP/1.1\r\n"), frame_of(MeetingMessage::gather, Gather{7, {}}.emit()),
                             frame_of(MeetingMessage::gather), frame_of(MeetingMessage::hello), make_frame(99, {})}) {
    PlayedPeer other;
    ASSERT_TRUE(other.bootstrap);
    say(other.peer, words);
    EXPECT_EQ(next_news(**other.bootstrap).kind, Bootstrap::News::Kind::ended);
  }
}

// Of this process: those of the ranks in it.
void shorten_patience_of_sockets() {
  const int milliseconds = 100;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ::setsockopt(std::stoi(entry.path().filename()), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

// A peer that takes nothing is to TCP as one whose cable is pulled: it hasn't ended, as far as anybody knows.
TEST(Strangers, APeerThatCannotBeReachedIsNotSaidToHaveEnded) {
  PlayedPeer other;
  ASSERT_TRUE(other.bootstrap);
  shorten_patience_of_sockets();
  for (int times = 0; times < 10'000; ++times) (*other.bootstrap)->say(std::string(4000, 'x'));
  const Bootstrap::News news = next_news(**other.bootstrap);
  EXPECT_EQ(news.kind, Bootstrap::News::Kind::ended);
  EXPECT_EQ(news.text, "Connection timed out");
  const auto all = (*other.bootstrap)->all_gather({});
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().text, HasSubstr("can't be reached any more (Connection timed out)"));
}

}  // namespace

}  // namespace softib::coll::test

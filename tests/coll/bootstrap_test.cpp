#include "coll/bootstrap/bootstrap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

#include <thread>

#include "coll/bootstrap/crowding.h"
#include "coll/bootstrap/identity.h"
#include "coll/bootstrap/messages.h"
#include "coll/net/sockets.h"
#include "meeting_ranks.h"

namespace softib::coll::test {

namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::SizeIs;
using Kind = Bootstrap::News::Kind;

u16 free_port(const std::string& host) {
  const auto listener = listen_at(*Address::numeric(host));
  return listener ? local_address(listener->get())->port() : 0;
}

// A variable of the environment, for as long as this lives.
class WithVariable {
 public:
  WithVariable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~WithVariable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  WithVariable(const WithVariable&) = delete;
  WithVariable& operator=(const WithVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

void gather_many(Bootstrap& bootstrap) {
  const u32 ranks = static_cast<u32>(bootstrap.members().size());
  const auto blob = [](u32 rank, u32 turn) { return Bytes(rank * 70'000 % 150'001 * turn, std::byte(rank + turn)); };
  for (u32 turn = 0; turn < 4; ++turn) {
    const auto all = bootstrap.all_gather(blob(bootstrap.rank(), turn));
    ASSERT_TRUE(all) << all.error().text;
    ASSERT_THAT(*all, SizeIs(ranks));
    for (u32 rank = 0; rank < ranks; ++rank) EXPECT_EQ((*all)[rank], blob(rank, turn)) << rank << " " << turn;
  }
}

std::vector<Member> ranks_bound_to(const std::vector<std::vector<u64>>& processors) {
  std::vector<Member> members;
  for (const auto& each : processors)
    members.push_back({static_cast<u32>(members.size()), "host", 1, 0, "127.0.0.1", each});
  return members;
}

TEST(Crowding, IsWhereRanksCannotHaveAProcessorEach) {
  using Sets = std::vector<std::vector<u64>>;
  const auto crowded = [](const Sets& sets) { return is_crowded(ranks_bound_to(sets), 0); };
  EXPECT_FALSE(crowded(Sets{{0b1}}));
  EXPECT_FALSE(crowded(Sets{{0b01}, {0b10}}));
  EXPECT_TRUE(crowded(Sets{{0b10}, {0b10}}));
  EXPECT_FALSE(crowded(Sets{{0b11}, {0b11}}));
  EXPECT_TRUE(crowded(Sets{{0b11}, {0b11}, {0b11}}));
  // Each has one only if the others make room.
  EXPECT_FALSE(crowded(Sets{{0b111}, {0b011}, {0b001}}));
  EXPECT_TRUE(crowded(Sets{{0b111, 1}, {0b001}, {0b001}}));
  EXPECT_FALSE(crowded(Sets{{0, 0b1}, {1}, {0, 0b11}}));
}

TEST(Crowding, RanksOfOtherHostsAreNotInTheWay) {
  std::vector<Member> members = ranks_bound_to({{0b1}, {0b1}, {0b10}});
  EXPECT_TRUE(is_crowded(members, 2));
  members[1].host_key = 2;
  for (const u32 rank : {0U, 1U, 2U}) EXPECT_FALSE(is_crowded(members, rank));
}

// Hosts in SoftIB, and containers.
TEST(Crowding, RanksOfOtherHostsAreInTheWayOnTheSameMachine) {
  std::vector<Member> members = ranks_bound_to({{0b1}, {0b1}, {0b10}});
  for (Member& member : members) member.host_key = member.rank + 1;
  for (Member& member : members) member.machine_key = 7;
  for (const u32 rank : {0U, 1U, 2U}) EXPECT_TRUE(is_crowded(members, rank));
  members[1].machine_key = 8;
  for (const u32 rank : {0U, 1U, 2U}) EXPECT_FALSE(is_crowded(members, rank));
  EXPECT_TRUE(is_crowded(members, 0, 1));
  EXPECT_TRUE(is_crowded(members, 1, 1));
  members[0].processors = {0b111};
  EXPECT_FALSE(is_crowded(members, 0, 1));
  EXPECT_TRUE(is_crowded(members, 0, 2));
}

TEST(Crowding, RanksTellWhichMachineTheyAreOn) {
  as_threads(2, [](Bootstrap& bootstrap) {
    EXPECT_EQ(bootstrap.members()[0].machine_key, own_identity({}).machine_key);
    EXPECT_NE(bootstrap.members()[1].machine_key, 0U);
    bootstrap.leave();
  });
}

TEST(Crowding, RanksTellWhereTheyMayRun) {
  as_threads(2, [](Bootstrap& bootstrap) {
    EXPECT_EQ(bootstrap.members()[bootstrap.rank()].processors, own_processors());
    EXPECT_FALSE(own_processors().empty());
    bootstrap.leave();
  });
}

TEST(Bootstrap, RanksMeetAndGather) {
  for (u32 ranks : {1U, 2U, 3U, 8U})
    as_threads(ranks, [&](Bootstrap& bootstrap) {
      ASSERT_THAT(bootstrap.members(), SizeIs(ranks));
      for (u32 rank = 0; rank < ranks; ++rank) {
        const Member& member = bootstrap.members()[rank];
        EXPECT_EQ(member.rank, rank);
        EXPECT_EQ(member.process, ::getpid());
        EXPECT_EQ(member.host_key, bootstrap.members()[0].host_key);
        EXPECT_EQ(member.address, "127.0.0.1");
      }
      gather_many(bootstrap);
      bootstrap.leave();
    });
}

TEST(Bootstrap, RanksOfSeveralProcessesMeet) {
  constexpr u32 ranks = 4;
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  std::vector<Child> children;
  for (u32 rank = 0; rank < ranks; ++rank)
    children.emplace_back([&, rank] {
      const auto bootstrap = connect_rank(id, ranks, rank);
      if (!bootstrap) return 1;
      gather_many(**bootstrap);
      (*bootstrap)->leave();
      return ::testing::Test::HasFailure() ? 2 : 0;
    });
  for (Child& child : children) EXPECT_EQ(child.wait(), 0);
}

TEST(Bootstrap, OthersHearOfAKilledRank) {
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  Child victim([&] {
    const auto bootstrap = connect_rank(id, 3, 1);
    ::pause();
    return bootstrap ? 0 : 1;
  });
  std::array<Connected, 2> rest{refuse(Code::internal_error, ""), refuse(Code::internal_error, "")};
  std::jthread([&] {
    std::jthread other([&] { rest[1] = connect_rank(id, 3, 2); });
    rest[0] = connect_rank(id, 3, 0);
  }).join();
  for (const Connected& bootstrap : rest) ASSERT_TRUE(bootstrap) << bootstrap.error().text;
  EXPECT_FALSE((*rest[0])->news());
  victim.kill();
  for (const Connected& bootstrap : rest) {
    const auto news = next_news(**bootstrap);
    EXPECT_EQ(news.kind, Kind::ended);
    EXPECT_EQ(news.rank, 1U);
    EXPECT_FALSE((*bootstrap)->news());
    const auto gathered = (*bootstrap)->all_gather({});
    ASSERT_FALSE(gathered);
    EXPECT_EQ(gathered.error().code, Code::remote_error);
    EXPECT_THAT(gathered.error().text, MatchesRegex("rank 1 on .+ ended"));
  }
}

// A data loader's workers outlive it for a while.
TEST(Bootstrap, OthersHearOfAKilledRankThatHasForked) {
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Fd from_worker(ends[0]), to_test(ends[1]);
  Child victim([&] {
    const auto bootstrap = connect_rank(id, 2, 1);
    if (const pid_t worker = ::fork(); worker != 0) return ::write(ends[1], &worker, sizeof worker) > 0 ? ::pause() : 1;
    ::alarm(60);
    return ::pause();
  });
  const auto bootstrap = connect_rank(id, 2, 0);
  ASSERT_TRUE(bootstrap);
  pid_t worker = 0;
  ASSERT_EQ(::read(from_worker.get(), &worker, sizeof worker), static_cast<ssize_t>(sizeof worker));
  victim.kill();
  EXPECT_EQ(next_news(**bootstrap).kind, Kind::ended);
  EXPECT_EQ(::kill(worker, SIGKILL), 0) << "heard only when the worker had ended too";
}

TEST(Bootstrap, AForkedChildSaysNothingForItsParent) {
  const MeetingElsewhere meeting = meeting_elsewhere();
  auto ranks = connect_all(meeting.id, 2, {0, 1});
  ASSERT_TRUE(ranks[0] && ranks[1]);
  EXPECT_EQ(Child([&] {
              (*ranks[1])->abort("in the child");
              (*ranks[1])->leave();
              ranks[1] = refuse(Code::internal_error, "");
              return 0;
            }).wait(),
            0);
  EXPECT_FALSE((*ranks[0])->news());
  std::jthread other([&] { EXPECT_TRUE((*ranks[1])->all_gather({})); });
  EXPECT_TRUE((*ranks[0])->all_gather({}));
}

TEST(Bootstrap, AKilledRankEndsAllGather) {
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  Child victim([&] { return connect_rank(id, 2, 1) ? (::pause(), 0) : 1; });
  const auto bootstrap = connect_rank(id, 2, 0);
  ASSERT_TRUE(bootstrap);
  const std::jthread killer([&] {
    std::this_thread::sleep_for(50ms);
    victim.kill();
  });
  const auto gathered = (*bootstrap)->all_gather(bytes_of("x"));
  ASSERT_FALSE(gathered);
  EXPECT_THAT(gathered.error().text, HasSubstr("rank 1 on "));
  EXPECT_EQ(next_news(**bootstrap).kind, Kind::ended);
}

// One of those that have come is killed before the last one comes.
TEST(Bootstrap, AKilledRankEndsTheMeeting) {
  const MeetingElsewhere meeting = meeting_elsewhere();
  const UniqueId& id = meeting.id;
  std::optional<Child> victim(std::in_place, [&] { return connect_rank(id, 3, 1) ? 0 : 1; });
  const std::jthread killer([&] {
    std::this_thread::sleep_for(200ms);
    victim.reset();
  });
  const auto bootstrap = connect_rank(id, 3, 0);
  ASSERT_FALSE(bootstrap);
  EXPECT_THAT(bootstrap.error().text, MatchesRegex("rank 1 on .+ ended before all ranks had come"));
}

TEST(Bootstrap, ATimeOutNamesWhoIsMissing) {
  const auto results = connect_all(7, {0, 2, 6}, 300ms);
  for (const Connected& bootstrap : results) {
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.error().code, Code::remote_error);
    EXPECT_THAT(bootstrap.error().text,
                MatchesRegex("ranks 1 and 3-5 of 7 had not come when rank [026] on .+ gave up after 0.3 s; ranks meet "
                             "at 127.0.0.1:[0-9]+( or .::1.:[0-9]+)?, and SOFTIB_SOCKET_IFNAME chooses by which "
                             "interfaces ranks meet"));
  }
}

// An address to which connections lead nowhere: the queue of its listener is full, so it keeps silent.
class Silent {
 public:
  Silent() {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const Address any = *Address::numeric("127.0.0.1");
    EXPECT_EQ(::bind(listener_.get(), any.data(), any.size()), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
    for (bool room = true; room;) {
      auto fd = begin_connect(address());
      pollfd polled{fd->get(), POLLOUT, 0};
      room = ::poll(&polled, 1, 100) == 1;
      waiting_.push_back(std::move(*fd));
    }
  }
  [[nodiscard]] Address address() const { return *local_address(listener_.get()); }

 private:
  Fd listener_;
  std::vector<Fd> waiting_;
};

TEST(Bootstrap, AnotherAddressOfTheMeetingLeadsThereToo) {
  const Silent silent;
  const Address refused = *Address::numeric("127.0.0.1", free_port("127.0.0.1"));
  for (const std::vector<Address>& before : {std::vector<Address>{}, {refused}, {silent.address(), refused}}) {
    MeetingPlace place = *MeetingPlace::parse(made_id());
    place.addresses.insert(place.addresses.begin(), before.begin(), before.end());
    place.addresses.push_back(refused);
    for (const Connected& bootstrap : connect_all(place.emit(), 2, {0, 1}))
      EXPECT_TRUE(bootstrap) << bootstrap.error().text;
  }
}

TEST(Bootstrap, AllAddressesThatWereTriedAreNamed) {
  const Silent silent;
  const Address refused = *Address::numeric("127.0.0.1", free_port("127.0.0.1"));
  const Key key{};
  using Place = MeetingPlace;
  const auto text_for = [](const Place& place) { return connect_rank(place.emit(), 2, 1, 300ms).error().text; };
  EXPECT_THAT(text_for({Place::Kind::made, {refused, refused}, key}),
              MatchesRegex("rank 1 on .+ can't reach the meeting at 127.0.0.1:[0-9]+ .Connection refused. or "
                           "127.0.0.1:[0-9]+ .Connection refused.; it is over, or who made the unique id has ended, or "
                           "is on another host: .* SOFTIB_SOCKET_IFNAME chooses other interfaces"));
  EXPECT_THAT(text_for({Place::Kind::made, {silent.address()}, key}),
              MatchesRegex("rank 1 on .+ can't reach the meeting at 127.0.0.1:[0-9]+ .no answer.; it gave up after "
                           "0.3 s, and SOFTIB_SOCKET_IFNAME chooses by which interfaces ranks meet"));
  EXPECT_THAT(text_for({Place::Kind::agreed, {refused}, key}),
              MatchesRegex("rank 1 on .+ can't reach the meeting at 127.0.0.1:[0-9]+ .Connection refused.; it gave up "
                           "after 0.3 s, and SOFTIB_COMM_ID says where ranks meet"));
}

// A guest that is played: says hello, and hears the table.
class PlayedGuest {
 public:
  PlayedGuest(const UniqueId& id, const Hello& hello) {
    auto fd = begin_connect(MeetingPlace::parse(id)->addresses[0]);
    pollfd polled{fd->get(), POLLOUT, 0};
    EXPECT_EQ(::poll(&polled, 1, 60'000), 1);
    socket_ = FrameSocket(std::move(*fd), most_table_bytes);
    socket_.post(static_cast<u16>(MeetingMessage::hello), hello.emit());
    EXPECT_TRUE(socket_.flush());
  }
  [[nodiscard]] std::vector<std::string> table() {
    std::optional<Frame> frame;
    while (!(frame = socket_.next())) {
      pollfd polled{socket_.fd(), POLLIN, 0};
      if (::poll(&polled, 1, 60'000) != 1 || socket_.receive() == FrameSocket::Stream::ended) return {};
    }
    std::vector<std::string> listens;
    const auto table = Table::parse(frame->body);
    EXPECT_TRUE(table) << frame->type;
    if (!table) return {};
    for (const Guest& guest : table->guests) listens.push_back(guest.listens.text());
    return listens;
  }

 private:
  FrameSocket socket_{Fd(), most_table_bytes};
};

// A host that reaches the meeting by its second network only doesn't reach the others by the first.
TEST(Bootstrap, RanksUseTheNetworkByWhichAllCame) {
  const auto hello = [](const UniqueId& id, u32 rank, u8 came_by) {
    const auto port = static_cast<u16>(4000 + rank);
    Hello made{MeetingPlace::parse(id)->key,
               3,
               {{.rank = rank, .host = "host", .address = ""}, *Address::numeric("10.9.0.1", port)},
               came_by};
    for (const char* network : {"10.1.0.1", "10.2.0.1"}) made.listens.push_back(Address::numeric(network, port));
    if (rank == 2) made.listens[came_by] = std::nullopt;
    return made;
  };
  const auto tables = [&](u8 second) {
    const UniqueId id = made_id();
    PlayedGuest first(id, hello(id, 0, 0));
    PlayedGuest other(id, hello(id, 1, second));
    PlayedGuest last(id, hello(id, 2, second));
    EXPECT_EQ(first.table(), other.table());
    return last.table();
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(tables(0), (Texts{"10.1.0.1:4000", "10.1.0.1:4001", "10.9.0.1:4002"}));
  EXPECT_EQ(tables(1), (Texts{"10.2.0.1:4000", "10.2.0.1:4001", "10.9.0.1:4002"}));
}

TEST(Bootstrap, NoRankMayBeThereTwice) {
  const auto results = connect_all(3, {1, 1, 0});
  for (const Connected& bootstrap : results) {
    ASSERT_FALSE(bootstrap);
    EXPECT_EQ(bootstrap.error().code, Code::invalid_usage);
    EXPECT_THAT(bootstrap.error().text, MatchesRegex("rank 1 is there twice: process [0-9]+ on .+, and process .+"));
  }
}

TEST(Bootstrap, RanksAgreeOnTheirNumber) {
  const UniqueId id = made_id();
  Connected first = refuse(Code::internal_error, "");
  std::jthread thread([&] { first = connect_rank(id, 3, 0); });
  const auto second = connect_rank(id, 4, 1);
  thread.join();
  for (const Connected* bootstrap : std::array<const Connected*, 2>{&first, &second}) {
    ASSERT_FALSE(*bootstrap);
    EXPECT_THAT((*bootstrap).error().text, AllOf(HasSubstr("3"), HasSubstr("4"), HasSubstr("ranks")));
  }
}

TEST(Bootstrap, AWrongKeyIsRefusedAndDisturbsNobody) {
  const UniqueId id = made_id();
  auto place = *MeetingPlace::parse(id);
  place.key[3] ^= std::byte{1};
  Connected first = refuse(Code::internal_error, "");
  std::jthread thread([&] { first = connect_rank(id, 2, 0); });
  const auto wrong = connect_rank(place.emit(), 2, 1);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::invalid_usage);
  EXPECT_THAT(wrong.error().text, HasSubstr("key"));
  const auto second = connect_rank(id, 2, 1);
  thread.join();
  EXPECT_TRUE(first) << first.error().text;
  EXPECT_TRUE(second);
}

TEST(Bootstrap, ArgumentsAreChecked) {
  EXPECT_EQ(connect_rank(UniqueId{}, 1, 0).error().code, Code::invalid_argument);
  const UniqueId id = made_id();
  EXPECT_EQ(connect_rank(id, 2, 2).error().code, Code::invalid_argument);
  EXPECT_EQ(connect_rank(id, 0, 0).error().code, Code::invalid_argument);
}

TEST(Bootstrap, AMeetingThatIsOverIsSaidToBe) {
  const UniqueId id = made_id();
  ASSERT_TRUE(connect_rank(id, 1, 0));
  Connected late = refuse(Code::internal_error, "");
  do {
    late = connect_rank(id, 1, 0, 1s);
  } while (late);
  EXPECT_THAT(late.error().text, HasSubstr("meeting at 127.0.0.1:"));
}

// Whoever ends because of it, and perhaps first, isn't blamed.
TEST(Bootstrap, AbortIsHeardByAllAndEndsAllGather) {
  as_threads(5, [&](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 1) {
      bootstrap.abort("out of memory");
      EXPECT_FALSE(bootstrap.all_gather({}));
      return;
    }
    const auto gathered = bootstrap.all_gather(bytes_of("x"));
    ASSERT_FALSE(gathered);
    EXPECT_THAT(gathered.error().text,
                MatchesRegex("(rank [0-9] on .+ has left: )*rank 1 on .+ aborted: out of memory"));
    const auto news = next_news(bootstrap);
    EXPECT_EQ(news.kind, Kind::aborted);
    EXPECT_EQ(news.rank, 1U);
    EXPECT_EQ(news.text, "out of memory");
    while (const auto more = bootstrap.news()) {  // in the end it ends, too
      EXPECT_EQ(more->kind, Kind::ended);
      EXPECT_EQ(more->rank, 1U);
    }
  });
}

TEST(Bootstrap, OnlyTheOneThatEndedFirstIsBlamed) {
  as_threads(5, [&](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 3) return;
    const auto gathered = bootstrap.all_gather({});
    ASSERT_FALSE(gathered);
    EXPECT_THAT(gathered.error().text, MatchesRegex("(rank [0-9] on .+ has left: )*rank 3 on .+ ended"));
    const auto news = next_news(bootstrap);
    EXPECT_EQ(news.kind, Kind::ended);
    EXPECT_EQ(news.rank, 3U);
    EXPECT_FALSE(bootstrap.news());
  });
}

TEST(Bootstrap, AnotherThreadMayAbortWhileOneWaits) {
  const auto ranks = connect_all(2, {0, 1});
  ASSERT_TRUE(ranks[0] && ranks[1]);
  const std::jthread other([&] {
    std::this_thread::sleep_for(50ms);
    (*ranks[0])->abort("Ctrl-C");
  });
  const auto gathered = (*ranks[0])->all_gather({});
  ASSERT_FALSE(gathered);
  EXPECT_EQ(gathered.error().text, "aborted: Ctrl-C");
  EXPECT_EQ(next_news(**ranks[1]).text, "Ctrl-C");
}

TEST(Bootstrap, BlamesComeAsOftenAsTheyAreSaid) {
  const auto ranks = connect_all(3, {0, 1, 2});
  for (const Connected& bootstrap : ranks) ASSERT_TRUE(bootstrap);
  (*ranks[0])->blame(2, 77);
  (*ranks[0])->blame(1, 78);
  for (u32 rank : {1U, 2U}) {
    for (u32 waits_for : {2U, 1U}) {
      const auto news = next_news(**ranks[rank]);
      EXPECT_EQ(news.kind, Kind::blames);
      EXPECT_EQ(news.rank, 0U);
      EXPECT_EQ(news.waits_for, waits_for);
      EXPECT_EQ(news.collective, waits_for == 2 ? 77U : 78U);
    }
    pollfd polled{(*ranks[rank])->descriptor(), POLLIN, 0};
    EXPECT_EQ(::poll(&polled, 1, 0), 0);
  }
}

// News that nobody has asked for yet must not make all_gather() spin, nor get lost.
TEST(Bootstrap, NewsDuringAllGatherWaitForTheirReader) {
  as_threads(2, [](Bootstrap& bootstrap) {
    if (bootstrap.rank() == 0) bootstrap.blame(1, 5);
    ASSERT_TRUE(bootstrap.all_gather({}));
    if (bootstrap.rank() == 1) {
      EXPECT_EQ(next_news(bootstrap).collective, 5U);
    }
    ASSERT_TRUE(bootstrap.all_gather({}));
    bootstrap.leave();
  });
}

TEST(Bootstrap, LeavingIsNoEnd) {
  auto ranks = connect_all(2, {0, 1});
  ASSERT_TRUE(ranks[0] && ranks[1]);
  (*ranks[1])->leave();
  ranks[1] = refuse(Code::internal_error, "");
  const auto gathered = (*ranks[0])->all_gather({});
  ASSERT_FALSE(gathered);
  EXPECT_THAT(gathered.error().text, MatchesRegex("rank 1 on .+ has left"));
  EXPECT_FALSE((*ranks[0])->news());
}

TEST(Bootstrap, AllGatherNamesWhoDoesNotCome) {
  const auto ranks = connect_all(3, {0, 1, 2}, 1s);
  for (const Connected& bootstrap : ranks) ASSERT_TRUE(bootstrap);
  const std::jthread other([&] { EXPECT_FALSE((*ranks[1])->all_gather({})); });
  const auto gathered = (*ranks[0])->all_gather({});
  ASSERT_FALSE(gathered);
  EXPECT_THAT(gathered.error().text, MatchesRegex("rank 0 on .+ waited 1 s for rank 2 in all_gather"));
}

TEST(Bootstrap, MeetsWhereTheVariableSays) {
  for (const std::string host : {"127.0.0.1", "[::1]"}) {
    const u16 port = free_port(host == "[::1]" ? "::1" : host);
    if (port == 0) continue;  // a machine without IPv6
    const WithVariable agreed("SOFTIB_COMM_ID", host + ":" + std::to_string(port));
    for (int turn = 0; turn < 2; ++turn) {
      std::vector<std::jthread> threads;
      for (u32 rank : {2U, 1U, 0U})
        threads.emplace_back([rank] {
          if (rank == 0) std::this_thread::sleep_for(20ms);
          const auto id = UniqueId::make();
          ASSERT_TRUE(id) << id.error().text;
          const auto bootstrap = connect_rank(*id, 3, rank);
          ASSERT_TRUE(bootstrap) << bootstrap.error().text;
          gather_many(**bootstrap);
          (*bootstrap)->leave();
        });
    }
  }
}

TEST(Bootstrap, RankZeroMustBeWhereTheVariableSays) {
  const WithVariable agreed("SOFTIB_COMM_ID", "192.0.2.1:4000");
  const auto bootstrap = connect_rank(made_id(), 1, 0);
  ASSERT_FALSE(bootstrap);
  EXPECT_THAT(bootstrap.error().text, AllOf(HasSubstr("192.0.2.1:4000"), HasSubstr("address of its host")));
}

TEST(Bootstrap, IdsMadeApartDoNotMeetThere) {
  const WithVariable agreed("SOFTIB_COMM_ID", "127.0.0.1:1");
  const auto id = UniqueId::make_apart();
  ASSERT_TRUE(id) << id.error().text;
  EXPECT_TRUE(connect_rank(*id, 1, 0));
}

TEST(Bootstrap, SignalsDoNotDisturb) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = [](int) {};  // without SA_RESTART
  ::sigaction(SIGALRM, &action, &before);
  const itimerval often{{0, 500}, {0, 500}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  as_threads(4, [](Bootstrap& bootstrap) {
    gather_many(bootstrap);
    bootstrap.leave();
  });
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
}

TEST(Bootstrap, TheSoftLimitOfDescriptorsIsRaised) {
  Child child([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 24;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    as_threads(8, [](Bootstrap& bootstrap) {
      gather_many(bootstrap);
      bootstrap.leave();
    });
    return ::testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

TEST(HostKey, EqualOnlyIfAllAgree) {
  const u64 key = host_key_of("host0", "boot", 21, 1);
  EXPECT_EQ(key, host_key_of("host0", "boot", 21, 1));
  EXPECT_NE(key, host_key_of("host1", "boot", 21, 1));
  EXPECT_NE(key, host_key_of("host0", "another", 21, 1));
  EXPECT_NE(key, host_key_of("host0", "boot", 22, 1));
  Environment named;
  named.host_id = "rack7";
  EXPECT_NE(own_identity({}).host_key, own_identity(named).host_key);
  EXPECT_EQ(own_identity({}).host_key, own_identity({}).host_key);
}

}  // namespace

}  // namespace softib::coll::test

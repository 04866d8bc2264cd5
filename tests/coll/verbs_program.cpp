// The contract of transports over the HCAs of the host on which this runs: `softib run host0 -- coll_verbs_program`, or
// on a machine with real ones. tests/integration/coll_verbs.py runs it.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "coll/transport/verbs/registrar.h"
#include "coll/transport/verbs/verbs.h"
#include "transport_contract.h"

namespace softib::coll::test {

namespace {

TransportKind verbs_kind() {
  return {.name = "verbs", .create = [](Bootstrap& bootstrap, std::span<const u32> peers) {
            return VerbsTransport::create(bootstrap, Environment::read(), peers);
          }};
}

TransportKind hinting_kind() {
  TransportKind kind = verbs_kind();
  kind.name = "verbs_hinted";
  kind.allocate = [](Transport& transport, u64 bytes) {
    auto* memory = new std::byte[bytes];
    transport.hint_memory(memory, bytes);
    return std::shared_ptr<std::byte>(memory, [&transport, bytes](std::byte* it) {
      transport.forget_memory(it, bytes);
      delete[] it;
    });
  };
  return kind;
}

}  // namespace

// What the contract can't ask of every transport.
class VerbsTransportTest : public testing::Test {
 protected:
  // Two ranks, threads of this process. Each body gets its transport.
  static void run_two(const std::function<void(Node&)>& body, As as = As::threads) {
    static const TransportKind kind = verbs_kind();
    run_ranks({.as = as, .ranks = 2}, [&](Bootstrap& bootstrap) {
      Node node(kind, bootstrap);
      if (!HasFailure()) body(node);
    });
  }

  static void wait(Node& node, const Operation& operation) {
    while (operation.state == State::waiting) node.transport().progress();
  }

  template <typename T>
  static T message(Node& node, void* memory, u64 bytes, Stream stream = 1) {
    T operation{};
    operation.peer = node.peer();
    operation.stream = stream;
    operation.bytes = bytes;
    operation.memory = memory;
    return operation;
  }
};

constexpr u64 large = u64{4} << 20;

// Long enough to be held while it is borrowed.
constexpr u64 longest = u64{16} << 20;

void exchange(Node& node, std::byte* memory, u64 bytes) {
  Send send{};
  Receive receive{};
  Operation& operation = node.rank() == 0 ? static_cast<Operation&>(send) : receive;
  operation.peer = node.peer();
  operation.stream = 1;
  operation.bytes = bytes;
  send.memory = receive.memory = memory;
  if (node.rank() == 0)
    node.transport().send(send);
  else
    node.transport().receive(receive);
  EXPECT_TRUE(node.finish(operation));
}

enum class Vouched { for_good, while_borrowed, never };

// The sender goes on writing while the receiver gives it up: not a byte comes afterwards.
void give_up_in_the_middle(Node& node, Vouched vouched, int round) {
  std::vector<std::byte> memory(longest, std::byte{7});
  Transport& transport = node.transport();
  if (vouched == Vouched::for_good) transport.hint_memory(memory.data(), longest);
  if (vouched == Vouched::while_borrowed) transport.borrow_memory(memory.data(), longest);
  // The first one is copied.
  exchange(node, memory.data(), longest);
  if (node.rank() == 0) {
    Send send{};
    send.peer = node.peer();
    send.bytes = longest;
    send.memory = memory.data();
    transport.send(send);
    for (int i = 0; i < 3000 && send.state == State::waiting; i++) transport.progress();
    transport.give_up(node.peer());
    node.meet();
  } else {
    Receive receive{};
    receive.peer = node.peer();
    receive.bytes = longest;
    receive.memory = memory.data();
    transport.receive(receive);
    for (int i = 0; i < round * 3; i++) transport.progress();
    transport.give_up(node.peer());
    std::fill(memory.begin(), memory.end(), std::byte{9});
    node.meet();
    EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{9}), static_cast<std::ptrdiff_t>(longest));
  }
  if (vouched == Vouched::for_good) transport.forget_memory(memory.data(), longest);
  if (vouched == Vouched::while_borrowed) transport.give_memory_back(memory.data(), longest);
}

TEST_F(VerbsTransportTest, NothingIsWrittenAfterGivingUp) {
  for (const Vouched vouched : {Vouched::for_good, Vouched::while_borrowed, Vouched::never})
    for (int round = 0; round < 7; round++) run_two([&](Node& node) { give_up_in_the_middle(node, vouched, round); });
}

// Counts what it gets by its first byte.
class ByteCounter final : public Sink {
 public:
  void take(u64 /*offset*/, const void* data, u64 bytes) override {
    const auto* from = static_cast<const std::byte*>(data);
    for (u64 i = 0; i < bytes; i++) counts_[static_cast<u8>(from[i])]++;
  }
  [[nodiscard]] u64 count(u8 value) const { return counts_[value]; }

 private:
  std::array<u64, 256> counts_{};
};

// `memory` of rank 0 to `sink` of rank 1.
struct ToSink {
  ToSink(Node& node, std::byte* memory, u64 bytes, Sink& sink) : sends(node.rank() == 0) {
    Operation& operation = this->operation();
    operation.peer = node.peer();
    operation.stream = 2;
    operation.bytes = bytes;
    send.memory = memory;
    receive.sink = &sink;
  }
  [[nodiscard]] Operation& operation() { return sends ? static_cast<Operation&>(send) : receive; }
  void begin(Transport& transport) {
    if (sends)
      transport.send(send);
    else
      transport.receive(receive);
  }

  bool sends;
  Send send{};
  Receive receive{};
};

// The receiver is still reading when the sender gives it up: what comes to that memory afterwards doesn't get there.
TEST_F(VerbsTransportTest, NothingIsReadAfterGivingUp) {
  for (int round = 0; round < 12; round++) {
    run_two([round](Node& node) {
      std::vector<std::byte> memory(longest, std::byte{7});
      node.transport().hint_memory(memory.data(), longest);
      ByteCounter sink;
      ToSink message(node, memory.data(), longest, sink);
      node.meet();
      message.begin(node.transport());
      const int rounds = node.rank() == 0 ? round * 40 : 1 << 20;
      for (int i = 0; i < rounds && message.operation().state == State::waiting; i++) node.transport().progress();
      node.transport().give_up(node.peer());
      if (node.rank() == 0) std::fill(memory.begin(), memory.end(), std::byte{9});
      node.meet();
      EXPECT_EQ(sink.count(9), 0U);
      EXPECT_LE(sink.count(7), longest);
      node.transport().forget_memory(memory.data(), longest);
    });
  }
}

// What is combined comes when its receiver has time for it, so that it finds it in its near cache; with
// SOFTIB_IB_READ=0 the sender writes as much as a window holds before.
TEST_F(VerbsTransportTest, WhatIsCombinedIsReadByItsReceiver) {
  const bool reads = Environment::read().ib_read;
  run_two([reads](Node& node) {
    std::vector<std::byte> memory(large, std::byte{7});
    node.transport().hint_memory(memory.data(), large);
    ByteCounter sink;
    ToSink message(node, memory.data(), large, sink);
    if (node.rank() == 1) message.begin(node.transport());
    node.meet();  // the grant is on its way
    if (node.rank() == 0) {
      message.begin(node.transport());
      node.drive_a_while();
      std::fill(memory.begin(), memory.end(), std::byte{9});
    }
    node.meet();
    EXPECT_TRUE(node.finish(message.operation()));
    if (node.rank() == 1) {
      EXPECT_EQ(sink.count(7) + sink.count(9), large);
      EXPECT_EQ(sink.count(7) == 0, reads);
    }
    node.meet();
    node.transport().forget_memory(memory.data(), large);
  });
}

// The sender's part ends by a word of the receiver, for which there may be no credit: then the receiver isn't done yet,
// or it would stop calling, and nobody would ever send that word.
TEST_F(VerbsTransportTest, WhoHasReadAllIsDoneWhenItHasSaidSo) {
  run_two([](Node& node) {
    std::vector<std::byte> memory(large, std::byte{7});
    node.transport().hint_memory(memory.data(), large);
    ByteCounter sink;
    ToSink great(node, memory.data(), large, sink);
    if (node.rank() == 1) great.begin(node.transport());
    node.meet();
    if (node.rank() == 0) {
      great.begin(node.transport());
      node.drive_a_while();  // the offer is on its way
    }
    node.meet();
    std::byte little[8]{};
    std::vector<Send> sends(node.rank() == 0 ? 0 : 100);
    std::vector<Receive> receives(node.rank() == 0 ? 100 : 0);
    for (Send& send : sends) {
      send = message<Send>(node, little, sizeof little);
      node.transport().send(send);
    }
    if (node.rank() == 0) usleep(20'000);
    EXPECT_TRUE(node.finish(great.operation()));
    node.meet();  // until here rank 1 doesn't call
    for (Receive& receive : receives) {
      receive = message<Receive>(node, little, sizeof little);
      node.transport().receive(receive);
    }
    for (const Send& send : sends) EXPECT_TRUE(node.finish(send));
    for (const Receive& receive : receives) EXPECT_TRUE(node.finish(receive));
    node.meet();
    node.transport().forget_memory(memory.data(), large);
  });
}

// Nobody tells the transport that memory went away and other memory came to the same place.
void exchange_with_other_memory(Node& node, u64 bytes, bool borrows) {
  void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto* memory = static_cast<std::byte*>(place);
  for (u64 number = 0; number < 8; number++) {
    if (node.rank() == 0) fill_pattern({memory, bytes}, number);
    if (borrows) node.transport().borrow_memory(place, bytes);
    // In pieces, as schedules do it.
    for (u64 at = 0; at < bytes; at += bytes / 4) exchange(node, memory + at, bytes / 4);
    if (borrows) node.transport().give_memory_back(place, bytes);
    EXPECT_EQ(first_difference({memory, bytes}, number), bytes);
    if (number % 2 == 0) continue;
    munmap(place, bytes);
    void* again = mmap(place, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ASSERT_EQ(again, place);
  }
  munmap(place, bytes);
  node.meet();
}

TEST_F(VerbsTransportTest, OtherMemoryAtTheSamePlace) {
  for (const As as : {As::threads, As::processes})
    for (const u64 bytes : {u64{128} << 10, large, longest})
      for (const bool borrows : {false, true})
        run_two([&](Node& node) { exchange_with_other_memory(node, bytes, borrows); }, as);
}

// Madvise takes pages away and leaves the mapping: what comes there next is not what was registered.
TEST_F(VerbsTransportTest, PagesThatWereThrownAway) {
  run_two([](Node& node) {
    void* place = mmap(nullptr, longest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* memory = static_cast<std::byte*>(place);
    for (u64 number = 0; number < 6; number++) {
      if (node.rank() == 0) fill_pattern({memory, longest}, number);
      exchange(node, memory, longest);
      EXPECT_EQ(first_difference({memory, longest}, number), longest);
      madvise(place, longest, MADV_DONTNEED);
    }
    munmap(place, longest);
    node.meet();
  });
}

// Runs that overlap borrow overlapping ranges, and give them back in any order.
TEST_F(VerbsTransportTest, BorrowedRangesMayOverlap) {
  run_two([](Node& node) {
    std::vector<std::byte> memory(3 * longest / 2);
    Transport& transport = node.transport();
    std::byte* const second = memory.data() + longest / 2;
    for (u64 number = 0; number < 4; number++) {
      if (node.rank() == 0) fill_pattern(memory, number);
      transport.borrow_memory(memory.data(), longest);
      transport.borrow_memory(second, longest);
      exchange(node, memory.data(), longest / 2);
      transport.borrow_memory(memory.data(), longest);
      exchange(node, second, longest / 2);
      transport.give_memory_back(memory.data(), longest);
      if (number % 2 == 0) transport.give_memory_back(memory.data(), longest);
      exchange(node, second + longest / 2, longest / 2);
      transport.give_memory_back(second, longest);
      if (number % 2 != 0) transport.give_memory_back(memory.data(), longest);
      EXPECT_EQ(first_difference(memory, number), memory.size());
    }
    node.meet();
  });
}

class RegistrarTest : public testing::Test {
 protected:
  static constexpr u64 bytes = u64{1} << 20;

  static verbs::RegistrarLimits limits(bool on_demand) {
    verbs::RegistrarLimits limits;
    limits.on_demand = on_demand;
    limits.shortest_held = bytes;
    limits.quick = 1;  // however long it takes
    return limits;
  }

  verbs::Devices devices_ = verbs::Devices::open(Environment::read());
  verbs::Registrar held_{devices_.all, 0, limits(false)};
  verbs::Registrar on_demand_{devices_.all, 0, limits(true)};
  std::vector<std::byte> memory_ = std::vector<std::byte>(2 * bytes);
};

TEST_F(RegistrarTest, WhatIsBorrowedIsHeldOnceAndNoLonger) {
  std::byte* const begin = memory_.data();
  held_.borrow(begin, bytes);
  EXPECT_EQ(held_.acquire(begin, 4096, verbs::Access::write), nullptr) << "it may come only once";
  for (int run = 0; run < 3; run++) {
    if (run > 0) held_.borrow(begin, bytes);
    verbs::Registration* first = held_.acquire(begin, 4096, verbs::Access::write);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(held_.acquire(begin + 8192, 4096, verbs::Access::read), first);
    EXPECT_EQ(held_.acquire(begin + bytes - 1, 2, verbs::Access::read), nullptr) << "beyond what is borrowed";
    held_.release(first);
    held_.release(first);
    EXPECT_EQ(held_.held(), 1U);
    held_.give_back(begin, bytes);
    EXPECT_EQ(held_.held(), 0U);
  }
}

TEST_F(RegistrarTest, AMessageThatEndsAfterItsRunHoldsOn) {
  std::byte* const begin = memory_.data();
  held_.borrow(begin, bytes);
  static_cast<void>(held_.acquire(begin, 4096, verbs::Access::write));
  verbs::Registration* late = held_.acquire(begin, 4096, verbs::Access::write);
  ASSERT_NE(late, nullptr);
  held_.give_back(begin, bytes);
  EXPECT_EQ(held_.held(), 1U);
  held_.release(late);
  EXPECT_EQ(held_.held(), 0U);
}

TEST_F(RegistrarTest, TwoRunsOnTheSameMemoryShareIt) {
  std::byte* const begin = memory_.data();
  held_.borrow(begin, bytes);
  held_.borrow(begin, bytes);
  static_cast<void>(held_.acquire(begin, 4096, verbs::Access::read));
  verbs::Registration* one = held_.acquire(begin, 4096, verbs::Access::read);
  ASSERT_NE(one, nullptr);
  held_.release(one);
  held_.give_back(begin, bytes);
  EXPECT_EQ(held_.held(), 1U);
  held_.give_back(begin, bytes);
  EXPECT_EQ(held_.held(), 0U);
  held_.give_back(begin, bytes);  // nobody has it any more
}

TEST_F(RegistrarTest, AMessageAloneIsHeldUntilItEnds) {
  EXPECT_EQ(held_.acquire(memory_.data(), bytes - 1, verbs::Access::read), nullptr);
  EXPECT_EQ(held_.acquire(memory_.data(), bytes, verbs::Access::read), nullptr);
  verbs::Registration* it = held_.acquire(memory_.data(), bytes, verbs::Access::read);
  ASSERT_NE(it, nullptr);
  held_.release(it);
  EXPECT_EQ(held_.held(), 0U);
}

TEST_F(RegistrarTest, WhatCanNotBeRegisteredIsCopied) {
  void* place = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  held_.borrow(place, bytes);
  for (int i = 0; i < 3; i++) EXPECT_EQ(held_.acquire(place, 4096, verbs::Access::write), nullptr);
  munmap(place, bytes);
  for (int i = 0; i < 3; i++) EXPECT_EQ(held_.acquire(place, 4096, verbs::Access::read), nullptr);
  held_.give_back(place, bytes);
  EXPECT_EQ(held_.held(), 0U);
}

TEST_F(RegistrarTest, OnDemandRegistrationsAreKeptAndHoldNothing) {
  if (!devices_.all.front().on_demand) GTEST_SKIP() << "this HCA has no on-demand paging";
  std::byte* const begin = memory_.data();
  constexpr u64 half = bytes / 2;
  EXPECT_EQ(on_demand_.acquire(begin, half, verbs::Access::write), nullptr);
  verbs::Registration* it = on_demand_.acquire(begin, half, verbs::Access::write);
  ASSERT_NE(it, nullptr);
  on_demand_.release(it);
  EXPECT_EQ(on_demand_.kept(), 1U);
  EXPECT_EQ(on_demand_.held(), 0U);
  EXPECT_EQ(on_demand_.acquire(begin, half, verbs::Access::read, false), nullptr) << "slots do better";
  EXPECT_EQ(on_demand_.acquire(begin + 4096, 1 << 15, verbs::Access::read), it);
  EXPECT_EQ(on_demand_.acquire(begin + 4096, 1 << 10, verbs::Access::read), nullptr) << "too short";
  on_demand_.release(it);
  // The whole makes the part needless.
  on_demand_.borrow(begin, bytes - 4096);
  static_cast<void>(on_demand_.acquire(begin + half, half - 4096, verbs::Access::write));
  verbs::Registration* whole = on_demand_.acquire(begin + half, half - 4096, verbs::Access::write);
  ASSERT_NE(whole, nullptr);
  on_demand_.release(whole);
  on_demand_.give_back(begin, bytes - 4096);
  EXPECT_EQ(on_demand_.kept(), 1U);
  on_demand_.forget(begin, 1);
  EXPECT_EQ(on_demand_.kept(), 0U);
}

// Once hinted, forgotten, and used by others: the registration must be gone.
TEST_F(VerbsTransportTest, ForgottenMemoryIsRegisteredAnew) {
  run_two([](Node& node) {
    void* place = mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (u64 number = 0; number < 6; number++) {
      std::byte* bytes = static_cast<std::byte*>(place);
      node.transport().hint_memory(place, large);
      // A part first, so that the registration is of the whole only by the hint.
      const u64 offset = number % 2 == 0 ? 4096 : 0;
      const u64 length = large / 2;
      if (node.rank() == 0) {
        fill_pattern({bytes + offset, length}, number);
        Send send = message<Send>(node, bytes + offset, length);
        node.transport().send(send);
        EXPECT_TRUE(node.finish(send));
      } else {
        Receive receive = message<Receive>(node, bytes + offset, length);
        node.transport().receive(receive);
        EXPECT_TRUE(node.finish(receive));
        EXPECT_EQ(first_difference({bytes + offset, length}, number), length);
      }
      node.transport().forget_memory(place, large);
      munmap(place, large);
      ASSERT_EQ(mmap(place, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), place);
    }
    munmap(place, large);
    node.meet();
  });
}

TEST_F(VerbsTransportTest, MemoryThatMayOnlyBeReadIsSent) {
  run_two([](Node& node) {
    void* place = mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill_pattern({static_cast<std::byte*>(place), large}, 5);
    mprotect(place, large, PROT_READ);
    std::vector<std::byte> target(large);
    for (int round = 0; round < 4; round++) {
      if (round == 2) node.transport().hint_memory(place, large);
      if (node.rank() == 0) {
        Send send = message<Send>(node, place, large);
        node.transport().send(send);
        EXPECT_TRUE(node.finish(send));
      } else {
        Receive receive = message<Receive>(node, target.data(), large);
        node.transport().receive(receive);
        EXPECT_TRUE(node.finish(receive));
        EXPECT_EQ(first_difference(target, 5), large);
        std::fill(target.begin(), target.end(), std::byte{0});
      }
    }
    node.transport().forget_memory(place, large);
    munmap(place, large);
    node.meet();
  });
}

// What nobody receives waits with its sender, but for a few.
TEST_F(VerbsTransportTest, FewMessagesWaitAtTheReceiver) {
  run_two([](Node& node) {
    constexpr u64 bytes = 2000;
    std::vector<std::byte> memory(bytes);
    std::vector<Send> sends(node.rank() == 0 ? 500 : 0);
    std::vector<Receive> receives(node.rank() == 0 ? 0 : 500);
    for (Send& send : sends) {
      send = message<Send>(node, memory.data(), bytes);
      node.transport().send(send);
    }
    for (int i = 0; i < 5; i++) {
      node.drive_a_while();
      node.meet();
    }
    if (node.rank() == 0) {
      const auto done =
          std::count_if(sends.begin(), sends.end(), [](const Send& it) { return it.state == State::done; });
      EXPECT_GT(done, 8);
      EXPECT_LT(done, 100);
    }
    node.meet();
    for (Receive& receive : receives) {
      receive = message<Receive>(node, memory.data(), bytes);
      node.transport().receive(receive);
    }
    for (const Receive& receive : receives) EXPECT_TRUE(node.finish(receive));
    for (const Send& send : sends) EXPECT_TRUE(node.finish(send));
    node.meet();
  });
}

// Both sides hear of it, with both lengths.
TEST_F(VerbsTransportTest, LengthsThatDifferAreTold) {
  const std::pair<u64, u64> lengths[] = {{8, 16},    {16, 8},    {0, 100},   {large, large / 2}, {large / 2, large},
                                         {8, large}, {large, 8}, {0, large}, {large, 0}};
  for (const auto& [sent, expected] : lengths) {
    for (const bool late : {false, true}) {
      run_two([&, sent = sent, expected = expected](Node& node) {
        std::vector<std::byte> memory(large);
        Send send = message<Send>(node, memory.data(), sent);
        Receive receive = message<Receive>(node, memory.data(), expected);
        send.ordinal = receive.ordinal = 1;
        if (late && node.rank() == 1) node.meet();
        if (node.rank() == 0) {
          node.transport().send(send);
        } else {
          node.transport().receive(receive);
        }
        if (late && node.rank() == 0) node.meet();
        std::optional<PeerFailure> broken;
        while (!broken) {
          if (!node.transport().progress()) static_cast<void>(node.transport().arm());
          broken = node.transport().broken();
        }
        EXPECT_EQ(broken->error.code, Code::invalid_usage);
        for (const u64 bytes : {sent, expected})
          EXPECT_NE(broken->error.text.find(std::to_string(bytes)), std::string::npos) << broken->error.text;
        if (node.rank() == 1) {
          EXPECT_EQ(receive.state, State::failed);
        }
        node.meet();
      });
    }
  }
}

// In a stream of both kinds, short ones that overtake long ones on their way are no misfits, whoever comes first.
TEST_F(VerbsTransportTest, ShortAndLongOnesOfAStreamFindTheirReceives) {
  for (const bool late : {false, true}) {
    run_two([&](Node& node) {
      constexpr u32 count = 20;
      std::vector<std::byte> memory(large);
      std::vector<Send> sends(node.rank() == 0 ? count : 0);
      std::vector<Receive> receives(node.rank() == 0 ? 0 : count);
      if (late == (node.rank() == 1)) node.meet();
      u32 number = 0;
      const auto bytes = [](u32 ordinal) { return ordinal % 3 == 0 ? u64{8} : u64{20'000}; };
      for (Send& send : sends) {
        send = message<Send>(node, memory.data(), bytes(number));
        send.ordinal = ++number;
        node.transport().send(send);
        static_cast<void>(node.transport().arm());
      }
      for (Receive& receive : receives) {
        receive = message<Receive>(node, memory.data(), bytes(number));
        receive.ordinal = ++number;
        node.transport().receive(receive);
        static_cast<void>(node.transport().arm());
      }
      if (late == (node.rank() == 0)) node.meet();
      for (const Send& send : sends) EXPECT_TRUE(node.finish(send));
      for (const Receive& receive : receives) EXPECT_TRUE(node.finish(receive));
      node.meet();
    });
  }
}

// What was sent before the end still arrives; what waits for more fails, and says that the peer left.
TEST_F(VerbsTransportTest, WhoLeavesInOrderLosesNothing) {
  static const TransportKind kind = verbs_kind();
  run_ranks({.as = As::threads, .ranks = 2}, [&](Bootstrap& bootstrap) {
    std::vector<std::byte> memory(large);
    auto own = std::make_unique<Node>(kind, bootstrap);
    Node& node = *own;
    if (node.rank() == 0) {
      fill_pattern({memory.data(), 3000}, 1);
      Send first = message<Send>(node, memory.data(), 3000);
      Send second = message<Send>(node, memory.data(), 100, 2);
      node.transport().send(first);
      node.transport().send(second);
      EXPECT_TRUE(node.finish(first) && node.finish(second));
      own.reset();
      const std::array<std::byte, sizeof(u64)> nothing{};  // as the other one's meet() says it
      EXPECT_TRUE(bootstrap.all_gather(nothing) && bootstrap.all_gather(nothing));
      return;
    }
    node.meet();
    Receive first = message<Receive>(node, memory.data(), 3000);
    Receive none = message<Receive>(node, memory.data(), 8, 3);
    Receive second = message<Receive>(node, memory.data() + 4096, 100, 2);
    node.transport().receive(first);
    node.transport().receive(none);
    wait(node, first);
    EXPECT_EQ(first.state, State::done);
    EXPECT_EQ(first_difference({memory.data(), 3000}, 1), 3000u);
    node.transport().receive(second);
    wait(node, second);
    wait(node, none);
    EXPECT_EQ(none.state, State::failed);
    const auto broken = node.transport().broken();
    ASSERT_TRUE(broken);
    EXPECT_NE(broken->error.text.find("has left"), std::string::npos) << broken->error.text;
    node.meet();
  });
}

INSTANTIATE_TEST_SUITE_P(Verbs, TransportContract, testing::ValuesIn(contract_settings(verbs_kind())), setting_name);
INSTANTIATE_TEST_SUITE_P(Hinted, TransportContract, testing::ValuesIn(contract_settings(hinting_kind())), setting_name);

}  // namespace softib::coll::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

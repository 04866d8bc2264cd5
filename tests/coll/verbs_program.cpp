// The contract of transports over the HCAs of the host on which this runs: `softib run host0 -- coll_verbs_program`, or
// on a machine with real ones. tests/integration/coll_verbs.py runs it.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

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

// The sender goes on writing while the receiver gives it up: not a byte comes afterwards.
TEST_F(VerbsTransportTest, NothingIsWrittenAfterGivingUp) {
  for (int round = 0; round < 20; round++) {
    run_two([&](Node& node) {
      std::vector<std::byte> memory(large, std::byte{7});
      node.transport().hint_memory(memory.data(), memory.size());
      if (node.rank() == 0) {
        Send send = message<Send>(node, memory.data(), large);
        node.transport().send(send);
        for (int i = 0; i < 3000 && send.state == State::waiting; i++) node.transport().progress();
        node.transport().give_up(node.peer());
        node.meet();
      } else {
        Receive receive = message<Receive>(node, memory.data(), large);
        node.transport().receive(receive);
        for (int i = 0; i < round * 3; i++) node.transport().progress();
        node.transport().give_up(node.peer());
        std::fill(memory.begin(), memory.end(), std::byte{9});
        node.meet();
        EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte{9}), static_cast<std::ptrdiff_t>(large));
      }
      node.transport().forget_memory(memory.data(), memory.size());
    });
  }
}

// Nobody tells the transport that memory went away and other memory came to the same place.
TEST_F(VerbsTransportTest, OtherMemoryAtTheSamePlace) {
  run_two([](Node& node) {
    void* place = mmap(nullptr, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (u64 number = 0; number < 8; number++) {
      std::byte* bytes = static_cast<std::byte*>(place);
      if (node.rank() == 0) {
        fill_pattern({bytes, large}, number);
        Send send = message<Send>(node, place, large);
        node.transport().send(send);
        EXPECT_TRUE(node.finish(send));
      } else {
        Receive receive = message<Receive>(node, place, large);
        node.transport().receive(receive);
        EXPECT_TRUE(node.finish(receive));
        EXPECT_EQ(first_difference({bytes, large}, number), large);
      }
      if (number % 2 == 0) continue;
      munmap(place, large);
      void* again = mmap(place, large, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      ASSERT_EQ(again, place);
    }
    munmap(place, large);
    node.meet();
  });
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

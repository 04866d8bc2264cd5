#include "transport_contract.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iostream>
#include <map>
#include <random>

namespace softib::coll::test {

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr u64 slowness = 16;
#else
constexpr u64 slowness = 1;
#endif

constexpr Stream barrier_stream = ~Stream{0};

u64 number_from(const char* variable, u64 otherwise) {
  const char* text = std::getenv(variable);
  return text ? std::strtoull(text, nullptr, 0) : otherwise;
}

// A message under way with the memory that it needs.
struct Sent {
  Send operation{};
  std::shared_ptr<std::byte> memory{};
};

struct Received {
  Receive operation{};
  std::shared_ptr<std::byte> memory{};

  [[nodiscard]] std::span<const std::byte> data() const {
    const void* at = operation.lend ? operation.data : operation.memory;
    return {static_cast<const std::byte*>(at), operation.bytes};
  }
};

struct Message {
  u32 peer = 0;
  Stream stream = 0;
  u64 bytes = 0;
  u64 number = 0;  // of its pattern
  bool lend = false;
};

std::unique_ptr<Sent> send(Node& node, const Message& message) {
  auto sent = std::make_unique<Sent>();
  sent->memory = node.memory(message.bytes);
  fill_pattern({sent->memory.get(), message.bytes}, message.number);
  sent->operation.peer = message.peer;
  sent->operation.stream = message.stream;
  sent->operation.bytes = message.bytes;
  sent->operation.lend = message.lend;
  sent->operation.push = message.number % 2 == 0;
  sent->operation.memory = message.bytes ? sent->memory.get() : nullptr;
  node.transport().send(sent->operation);
  return sent;
}

std::unique_ptr<Received> receive(Node& node, const Message& message) {
  auto received = std::make_unique<Received>();
  received->memory = node.memory(message.bytes);
  received->operation.peer = message.peer;
  received->operation.stream = message.stream;
  received->operation.bytes = message.bytes;
  received->operation.lend = message.lend;
  received->operation.memory = message.bytes ? received->memory.get() : nullptr;
  node.transport().receive(received->operation);
  return received;
}

// A sink that checks what it gets.
class Checker final : public Sink {
 public:
  Checker(u64 bytes, u64 number) : bytes_(bytes), number_(number) {}

  void take(u64 offset, const void* data, u64 bytes) override {
    if (offset != taken_ || bytes > bytes_ - taken_) ++wrong_;
    if (bytes % 64 != 0 && offset + bytes != bytes_) ++wrong_;
    if (first_difference({static_cast<const std::byte*>(data), bytes}, number_, offset) != bytes) ++wrong_;
    taken_ += bytes;
  }

  [[nodiscard]] bool right() const { return wrong_ == 0 && taken_ == bytes_; }

 private:
  u64 bytes_;
  u64 number_;
  u64 taken_ = 0;
  u64 wrong_ = 0;
};

void expect_message(const Received& received, u64 number) {
  EXPECT_EQ(received.operation.state, State::done);
  EXPECT_EQ(first_difference(received.data(), number), received.operation.bytes)
      << "in message " << number << " of " << received.operation.bytes << " bytes";
}

// Around powers of two and around what cells, slots and chunks are likely to hold.
std::vector<u64> interesting_sizes() {
  std::vector<u64> sizes{0};
  for (u64 power = 1; power <= (u64{32} << 20) / slowness; power *= 2)
    for (const u64 size : {power - 1, power, power + 1})
      if (size > sizes.back()) sizes.push_back(size);
  for (u64 size = 8; size <= 512; size += 8)
    for (const u64 near : {size - 1, size, size + 1}) sizes.push_back(near);
  for (u64 size = 4096; size <= 66 << 10; size += 4096)
    for (const u64 header : {16, 32, 48, 64, 128}) sizes.push_back(size - header);
  return sizes;
}

}  // namespace

std::vector<ContractSetting> contract_settings(const TransportKind& kind) {
  std::vector<ContractSetting> settings;
  if (kind.threads) settings.push_back({kind, As::threads});
  if (kind.processes) settings.push_back({kind, As::processes});
  return settings;
}

std::string setting_name(const testing::TestParamInfo<ContractSetting>& info) {
  return info.param.kind.name + (info.param.as == As::threads ? "_threads" : "_processes");
}

void PrintTo(const ContractSetting& setting, std::ostream* out) { *out << setting.kind.name; }

Node::Node(const TransportKind& kind, Bootstrap& bootstrap) : kind_(kind), bootstrap_(bootstrap) {
  rank_ = bootstrap.rank();
  ranks_ = static_cast<u32>(bootstrap.members().size());
  std::vector<u32> peers;
  for (u32 peer = 0; peer < ranks_; ++peer)
    if (peer != rank_) peers.push_back(peer);
  auto made = kind_.create(bootstrap, peers);
  if (made)
    transport_ = std::move(*made);
  else
    ADD_FAILURE() << made.error().text;
}

std::shared_ptr<std::byte> Node::memory(u64 bytes) {
  if (kind_.allocate) return kind_.allocate(*transport_, std::max<u64>(bytes, 1));
  return {new std::byte[std::max<u64>(bytes, 1)], std::default_delete<std::byte[]>()};
}

bool Node::harmed() {
  if (const auto broken = transport_->broken()) {
    ADD_FAILURE() << "rank " << rank_ << " lost rank " << broken->peer << ": " << broken->error.text;
    return true;
  }
  if (const auto news = bootstrap_.news()) {
    ADD_FAILURE() << "rank " << rank_ << " waits while rank " << news->rank << " is gone";
    return true;
  }
  return false;
}

bool Node::drive_until(const std::function<bool()>& holds) {
  for (u64 idle = 0; !holds();) {
    if (transport_->progress()) {
      idle = 0;
      continue;
    }
    ++idle;
    if (idle % 16 == 0) ::sched_yield();
    if (idle % 1024 == 0 && harmed()) return false;
  }
  return true;
}

bool Node::finish(const Operation& operation) {
  if (!drive_until([&operation] { return operation.state != State::waiting; })) return false;
  EXPECT_EQ(operation.state, State::done) << "rank " << rank_ << " and rank " << operation.peer;
  return operation.state == State::done;
}

void Node::drive_a_while() {
  for (int i = 0; i < 2000; ++i)
    if (!transport_->progress()) ::sched_yield();
}

std::vector<u64> Node::meet(u64 word) {
  const auto all = bootstrap_.all_gather(std::as_bytes(std::span(&word, 1)));
  std::vector<u64> words(ranks_);
  if (!all) {
    ADD_FAILURE() << all.error().text;
    return words;
  }
  for (u32 rank = 0; rank < ranks_; ++rank) std::memcpy(&words[rank], (*all)[rank].data(), sizeof word);
  return words;
}

void Node::barrier() {
  std::vector<std::unique_ptr<Sent>> sent;
  std::vector<std::unique_ptr<Received>> received;
  const u64 number = ++barriers_;
  for (u32 other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    received.push_back(receive(*this, {.peer = other, .stream = barrier_stream, .bytes = 8, .number = number}));
    sent.push_back(send(*this, {.peer = other, .stream = barrier_stream, .bytes = 8, .number = number}));
  }
  for (const auto& one : received)
    if (finish(one->operation)) expect_message(*one, number);
  for (const auto& one : sent) finish(one->operation);
}

// Whoever is done may stop calling: the others can end what they have begun.
void Node::part() { meet(); }

void TransportContract::run(u32 ranks, const std::function<void(Node&)>& body, const std::set<u32>& mortal) {
  const ContractSetting& setting = GetParam();
  run_ranks({.as = setting.as, .ranks = ranks, .mortal = mortal}, [&](Bootstrap& bootstrap) {
    Node node(setting.kind, bootstrap);
    if (!testing::Test::HasFailure()) body(node);
    if (!testing::Test::HasFailure() && mortal.empty()) node.part();
  });
}

namespace {

// -- two ranks: rank 0 sends what rank 1 receives

void send_all(Node& node, const std::vector<Message>& messages) {
  std::vector<std::unique_ptr<Sent>> sent;
  for (const Message& message : messages) sent.push_back(send(node, message));
  for (const auto& one : sent)
    if (!node.finish(one->operation)) return;
}

void receive_all(Node& node, const std::vector<Message>& messages) {
  std::vector<std::unique_ptr<Received>> received;
  for (const Message& message : messages) received.push_back(receive(node, message));
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (!node.finish(received[i]->operation)) return;
    expect_message(*received[i], messages[i].number);
    if (!messages[i].lend) continue;
    node.transport().release(received[i]->operation);
    node.finish(received[i]->operation);
  }
}

// The message goes to a sink that checks it.
void receive_in_sink(Node& node, const Message& message) {
  Checker sink(message.bytes, message.number);
  Receive receive{};
  receive.peer = message.peer;
  receive.stream = message.stream;
  receive.bytes = message.bytes;
  receive.sink = &sink;
  node.transport().receive(receive);
  if (!node.finish(receive)) return;
  EXPECT_TRUE(sink.right()) << message.bytes << " bytes";
}

std::vector<Message> numbered(const std::vector<u64>& sizes, Stream stream) {
  std::vector<Message> messages;
  for (const u64 size : sizes) messages.push_back({.stream = stream, .bytes = size, .number = messages.size() + 1});
  return messages;
}

std::vector<Message> between(Node& node, std::vector<Message> messages) {
  for (Message& message : messages) message.peer = node.peer();
  return messages;
}

}  // namespace

TEST_P(TransportContract, a_stream_keeps_its_order) {
  run(2, [](Node& node) {
    std::vector<u64> sizes;
    for (u64 i = 0; i < 300; ++i) sizes.push_back(i % 7 == 0 ? i * 1000 : i * 13 % 700);
    const auto messages = between(node, numbered(sizes, 5));
    if (node.rank() == 0)
      send_all(node, messages);
    else
      receive_all(node, messages);
  });
}

TEST_P(TransportContract, every_size_arrives) {
  run(2, [](Node& node) {
    for (const Message& message : between(node, numbered(interesting_sizes(), 1))) {
      if (node.rank() == 0)
        send_all(node, {message});
      else
        receive_all(node, {message});
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST_P(TransportContract, every_size_arrives_before_its_receive) {
  run(2, [](Node& node) {
    for (const Message& message : between(node, numbered(interesting_sizes(), 1))) {
      if (node.rank() == 0) {
        const auto sent = send(node, message);
        node.meet();
        if (!node.finish(sent->operation)) return;
      } else {
        node.meet();
        for (int i = 0; i < 3; ++i) node.transport().progress();
        receive_all(node, {message});
      }
    }
  });
}

TEST_P(TransportContract, messages_of_no_bytes_count) {
  run(2, [](Node& node) {
    std::vector<Message> messages;
    for (u64 i = 0; i < 500; ++i)
      messages.push_back(
          {.peer = node.peer(), .stream = i % 3, .bytes = i % 5 == 0 ? 100u : 0u, .number = i, .lend = i % 7 == 0});
    if (node.rank() == 0)
      send_all(node, messages);
    else
      receive_all(node, messages);
  });
}

// What stands in one stream, large or small or much, must not be in the way of another.
TEST_P(TransportContract, no_stream_waits_for_another) {
  run(2, [](Node& node) {
    std::vector<Message> held{{.peer = node.peer(), .stream = 1, .bytes = u64{8} << 20, .number = 1},
                              {.peer = node.peer(), .stream = 1, .bytes = 64, .number = 2}};
    for (u64 i = 0; i < 3000; ++i)
      held.push_back({.peer = node.peer(), .stream = 2 + i % 10, .bytes = i % 2000, .number = 10 + i});
    std::vector<Message> first;
    for (const u64 size : {u64{8}, u64{3000}, u64{70000}, u64{2} << 20})
      first.push_back({.peer = node.peer(), .stream = 100, .bytes = size, .number = size});
    std::vector<std::unique_ptr<Sent>> sent;
    if (node.rank() == 0) {
      for (const Message& message : held) sent.push_back(send(node, message));
      send_all(node, first);
      for (const auto& one : sent) node.finish(one->operation);
    } else {
      receive_all(node, first);
      receive_all(node, held);
    }
  });
}

// Rank 1 has so much under way to rank 0 that what it says of the long message may have to wait: 128 is what fills the
// way of transports with fixed queues, and all of that is done at once.
TEST_P(TransportContract, who_is_done_may_stop_calling) {
  enum class Into { memory, lent, sink };
  for (const Into into : {Into::memory, Into::lent, Into::sink})
    for (const u64 count : {u64{100}, u64{128}, u64{150}})
      run(2, [into, count](Node& node) {
        const std::vector<Message> few = between(node, numbered(std::vector<u64>(count, 8), 1));
        const Message great{
            .peer = node.peer(), .stream = 2, .bytes = 200'000, .number = 7, .lend = into == Into::lent};
        if (node.rank() == 0) {
          const auto sent = send(node, great);
          node.meet();
          ::usleep(20'000);
          receive_all(node, few);
          node.finish(sent->operation);
        } else {
          std::vector<std::unique_ptr<Sent>> sent;
          for (const Message& message : few) sent.push_back(send(node, message));
          node.meet();
          if (into == Into::sink)
            receive_in_sink(node, great);
          else
            receive_all(node, {great});
          for (const auto& one : sent) node.finish(one->operation);
        }
      });
}

// Rank 1 moves on but doesn't receive. However much rank 0 sends, nobody may keep it all.
void expect_bounded(Node& node, u64 bytes, u64 total, u64 limit) {
  constexpr std::size_t most_waiting = 1000;
  const u64 before = resident_bytes();
  const u64 count = total / bytes;
  std::deque<std::unique_ptr<Sent>> waiting;
  const auto message = [&](u64 i) -> Message {
    return {.peer = node.peer(), .stream = i % 3, .bytes = bytes, .number = i};
  };
  u64 sent = 0;
  if (node.rank() == 0) {
    for (; sent < count && waiting.size() < most_waiting; ++sent) {
      waiting.push_back(send(node, message(sent)));
      node.transport().progress();
      std::erase_if(waiting, [](const auto& one) { return one->operation.state == State::done; });
    }
    node.drive_a_while();
  } else {
    for (u64 i = 0; i < count / 16; ++i) node.transport().progress();
  }
  sent = node.meet(sent)[0];
  node.drive_a_while();
  // The sender's own messages apart.
  EXPECT_LT(resident_bytes(), before + limit + (node.rank() == 0 ? most_waiting * (bytes + 256) : 0));
  node.meet();
  if (node.rank() == 0)
    for (const auto& one : waiting) node.finish(one->operation);
  else
    for (u64 i = 0; i < sent && !testing::Test::HasFailure(); ++i) receive_all(node, {message(i)});
  node.barrier();
}

TEST_P(TransportContract, what_nobody_receives_takes_bounded_memory) {
  if (GetParam().as == As::threads) GTEST_SKIP() << "threads share their memory";
  run(2, [](Node& node) {
    expect_bounded(node, 65536, (u64{320} << 20) / slowness, u64{48} << 20);
    expect_bounded(node, 2048, (u64{128} << 20) / slowness, u64{32} << 20);
    expect_bounded(node, 16, (u64{16} << 20) / slowness, u64{24} << 20);
  });
}

TEST_P(TransportContract, sinks_get_whole_elements_in_order) {
  run(2, [](Node& node) {
    u64 number = 0;
    for (const u64 size : interesting_sizes()) {
      const Message message{.peer = node.peer(), .stream = 9, .bytes = size, .number = ++number};
      const bool late = number % 2 == 0;
      if (node.rank() == 0) {
        send_all(node, {message});
        continue;
      }
      if (late) {
        for (int i = 0; i < 20; ++i) node.transport().progress();
      }
      receive_in_sink(node, message);
      if (testing::Test::HasFailure()) return;
    }
  });
}

// Whether it is really lent or not: between done and release the receiver sees what was sent, whatever the sender does
// with memory that it got back.
TEST_P(TransportContract, lent_memory_is_the_receivers_until_it_gives_it_back) {
  run(2, [](Node& node) {
    u64 number = 0;
    for (const u64 size : {u64{0}, u64{8}, u64{64}, u64{4000}, u64{65536}, u64{1} << 20, (u64{3} << 20) + 8}) {
      const Message message{.peer = node.peer(), .stream = 3, .bytes = size, .number = ++number, .lend = true};
      if (node.rank() == 0) {
        const auto sent = send(node, message);
        node.barrier();
        node.drive_a_while();
        const bool back = sent->operation.state == State::done;
        if (back && size) fill_pattern({sent->memory.get(), size}, 1'000'000);
        node.barrier();
        node.finish(sent->operation);
      } else {
        const auto received = receive(node, message);
        if (!node.finish(received->operation)) return;
        expect_message(*received, number);
        node.barrier();
        node.barrier();
        expect_message(*received, number);
        node.transport().release(received->operation);
        node.finish(received->operation);
      }
    }
  });
}

TEST_P(TransportContract, both_sides_may_send_first) {
  run(2, [](Node& node) {
    for (const u64 size : {u64{8}, u64{5000}, u64{100'000}, u64{16} << 20}) {
      std::vector<std::unique_ptr<Sent>> sent;
      const u64 count = size < 10'000 ? 2000 : 4;
      const auto message = [&node, size](u64 i, u32 from) -> Message {
        return {.peer = node.peer(), .stream = i % 2, .bytes = size, .number = 2 * i + from};
      };
      for (u64 i = 0; i < count; ++i) sent.push_back(send(node, message(i, node.rank())));
      std::vector<Message> expected;
      for (u64 i = 0; i < count; ++i) expected.push_back(message(i, node.peer()));
      receive_all(node, expected);
      for (const auto& one : sent) node.finish(one->operation);
    }
  });
}

TEST_P(TransportContract, large_and_small_go_both_ways_at_once) {
  run(2, [](Node& node) {
    std::vector<std::unique_ptr<Sent>> sent;
    std::vector<std::unique_ptr<Received>> received;
    for (u64 i = 0; i < 400; ++i) {
      const u64 size = i % 10 == 0 ? 300'000 + i : i * 20;
      const Message message{.peer = node.peer(), .stream = i % 4, .bytes = size, .number = i};
      received.push_back(receive(node, message));
      sent.push_back(send(node, message));
    }
    for (u64 i = 0; i < received.size(); ++i)
      if (node.finish(received[i]->operation)) expect_message(*received[i], i);
    for (const auto& one : sent) node.finish(one->operation);
  });
}

TEST_P(TransportContract, an_idle_transport_says_so) {
  run(2, [](Node& node) {
    for (const u64 size : {u64{8}, u64{1} << 20}) {
      const Message message{.peer = node.peer(), .stream = 1, .bytes = size, .number = size};
      if (node.rank() == 0)
        send_all(node, {message});
      else
        receive_all(node, {message});
    }
    node.barrier();
    node.part();
    node.drive_a_while();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(node.transport().progress());
  });
}

// -- more ranks

TEST_P(TransportContract, many_ranks_all_with_all) {
  run(6, [](Node& node) {
    for (const u64 size : {u64{8}, u64{6000}, u64{400'000}}) {
      std::vector<std::unique_ptr<Sent>> sent;
      std::vector<std::unique_ptr<Received>> received;
      for (u64 i = 0; i < 10; ++i)
        for (u32 peer = 0; peer < node.ranks(); ++peer) {
          if (peer == node.rank()) continue;
          sent.push_back(send(node, {.peer = peer, .stream = i % 2, .bytes = size, .number = 10 * node.rank() + i}));
          received.push_back(receive(node, {.peer = peer, .stream = i % 2, .bytes = size}));
        }
      std::size_t next = 0;
      for (u64 i = 0; i < 10; ++i)
        for (u32 peer = 0; peer < node.ranks(); ++peer) {
          if (peer == node.rank()) continue;
          const Received& one = *received[next++];
          if (node.finish(one.operation)) expect_message(one, 10 * peer + i);
        }
      for (const auto& one : sent) node.finish(one->operation);
    }
  });
}

// -- failures

TEST_P(TransportContract, giving_up_ends_what_was_under_way) {
  run(3, [](Node& node) {
    constexpr u64 large = u64{4} << 20;
    if (node.rank() == 2) {
      receive_all(node, {{.peer = 0, .stream = 1, .bytes = large, .number = 7}});
      return;
    }
    const u32 peer = 1 - node.rank();
    const auto small = receive(node, {.peer = peer, .stream = 1, .bytes = 8});
    const auto in = receive(node, {.peer = peer, .stream = 2, .bytes = large});
    Checker sink(large, 1);
    Receive sunk{};
    sunk.peer = peer;
    sunk.stream = 3;
    sunk.bytes = large;
    sunk.sink = &sink;
    node.transport().receive(sunk);
    const auto out = send(node, {.peer = peer, .stream = 4, .bytes = large, .number = 2});
    const auto lent = send(node, {.peer = peer, .stream = 5, .bytes = large, .number = 3, .lend = true});
    node.drive_a_while();
    node.transport().give_up(peer);
    for (const Operation* one : {static_cast<Operation*>(&small->operation), static_cast<Operation*>(&in->operation),
                                 static_cast<Operation*>(&sunk), static_cast<Operation*>(&out->operation),
                                 static_cast<Operation*>(&lent->operation)})
      EXPECT_EQ(one->state, State::failed);
    const auto later = send(node, {.peer = peer, .stream = 1, .bytes = 8});
    EXPECT_EQ(later->operation.state, State::failed);
    EXPECT_EQ(receive(node, {.peer = peer, .stream = 9, .bytes = 8})->operation.state, State::failed);
    node.drive_a_while();
    if (node.rank() == 0) send_all(node, {{.peer = 2, .stream = 1, .bytes = large, .number = 7}});
  });
}

namespace {

// Rank 1 dies at some time. The others go on: with each other as if nothing were, with rank 1 until they hear of it.
class Survivor {
 public:
  Survivor(Node& node, u64 seed) : node_(node), random_(seed + node.rank()) {}

  void run() {
    for (u64 i = 0; i < 40 || !both_gave_up_; ++i) {
      exchange(i);
      if (testing::Test::HasFailure()) return;
    }
    node_.drive_a_while();
  }

 private:
  static constexpr u32 mortal = 1;
  static constexpr u64 unaware = 1'000'000;
  static constexpr u64 aware = 1'000'001;
  u32 friendly() const { return 2 - node_.rank(); }

  void exchange(u64 i) {
    const u64 size = sizes_[i % std::size(sizes_)];
    const Message with_friend{.peer = friendly(), .stream = 1, .bytes = size, .number = i};
    const auto sent = send(node_, with_friend);
    const auto received = receive(node_, with_friend);
    const bool gave_up = gave_up_;
    const auto told =
        send(node_, {.peer = friendly(), .stream = 2, .bytes = 4096, .number = gave_up ? aware : unaware});
    const auto heard = receive(node_, {.peer = friendly(), .stream = 2, .bytes = 4096});
    if (!in_) in_ = receive(node_, {.peer = mortal, .stream = 1, .bytes = 100'000});
    if (!out_) out_ = send(node_, {.peer = mortal, .stream = 1, .bytes = 100'000, .lend = i % 2 == 0});
    for (const Operation* one :
         {static_cast<Operation*>(&sent->operation), static_cast<Operation*>(&told->operation),
          static_cast<Operation*>(&received->operation), static_cast<Operation*>(&heard->operation)}) {
      while (one->state == State::waiting) look();
      EXPECT_EQ(one->state, State::done);
    }
    expect_message(*received, i);
    const bool friend_gave_up = first_difference(heard->data(), aware) == heard->operation.bytes;
    if (!friend_gave_up) expect_message(*heard, unaware);
    both_gave_up_ = gave_up && friend_gave_up;
    if (!in_ || in_->operation.state != State::waiting) in_ = nullptr;
    if (!out_ || out_->operation.state != State::waiting) out_ = nullptr;
  }

  void look() {
    if (!node_.transport().progress()) ::sched_yield();
    if (++looks_ % 64 != 0) return;
    // A transport may see it first, and may see nothing.
    if (const auto broken = node_.transport().broken()) {
      EXPECT_EQ(broken->peer, mortal);
      EXPECT_FALSE(broken->error.text.empty());
    }
    if (const auto news = node_.bootstrap().news()) {
      EXPECT_EQ(news->rank, mortal);
      node_.transport().give_up(mortal);
      gave_up_ = true;
    }
  }

  Node& node_;
  std::mt19937_64 random_;
  static constexpr u64 sizes_[]{8, 200'000, 3000, 0, 64};
  std::unique_ptr<Received> in_;
  std::unique_ptr<Sent> out_;
  bool gave_up_ = false;
  bool both_gave_up_ = false;
  u64 looks_ = 0;
};

// Talks with both until it is killed.
void live_on(Node& node) {
  struct Talk {
    std::unique_ptr<Sent> sent;
    std::unique_ptr<Received> received{};
  };
  std::map<u32, Talk> talks;
  for (u64 i = 0;; ++i) {
    for (const u32 peer : {0u, 2u}) {
      Talk& talk = talks[peer];
      if (!talk.sent || talk.sent->operation.state != State::waiting)
        talk.sent = send(node, {.peer = peer, .stream = 1, .bytes = 100'000, .number = i});
      if (!talk.received || talk.received->operation.state != State::waiting) {
        if (talk.received && talk.received->operation.lend) node.transport().release(talk.received->operation);
        talk.received = receive(node, {.peer = peer, .stream = 1, .bytes = 100'000});
      }
    }
    if (!node.transport().progress()) ::sched_yield();
  }
}

}  // namespace

TEST_P(TransportContract, a_killed_rank_harms_no_other) {
  if (GetParam().as == As::threads) GTEST_SKIP() << "a thread can't be killed";
  const u64 seed = number_from("SOFTIB_TEST_SEED", std::random_device()());
  std::mt19937_64 random(seed);
  SCOPED_TRACE(testing::Message() << "SOFTIB_TEST_SEED=" << seed);
  for (u64 round = 0; round < number_from("SOFTIB_TEST_ROUNDS", 10) && !HasFailure(); ++round) {
    const auto time = std::chrono::microseconds(random() % 20'000);
    run(3,
        [time, seed](Node& node) {
          node.meet();
          if (node.rank() != 1) return Survivor(node, seed).run();
          die_after(time);
          live_on(node);
        },
        {1});
  }
}

namespace {

// Messages between all pairs in many streams, posted in random order on both sides, with some of each under way.
class Traffic {
 public:
  Traffic(Node& node, u64 seed) : node_(node), random_(seed * 64 + node.rank()) {
    for (u32 peer = 0; peer < node.ranks(); ++peer) {
      if (peer == node.rank()) continue;
      for (const Message& message : messages_between(seed, node.rank(), peer)) add(sends_, message, peer);
      for (const Message& message : messages_between(seed, peer, node.rank())) add(receives_, message, peer);
    }
  }

  void run() {
    while (!sends_.empty() || !receives_.empty() || !sent_.empty() || !received_.empty()) {
      for (u64 burst = random_() % 8; burst > 0; --burst) post_any();
      for (u64 turns = random_() % 6; turns > 0; --turns) node_.transport().progress();
      if (random_() % 64 == 0) ::sched_yield();
      collect();
      // All receives are posted before any is waited for: else each side might wait for streams that the other holds
      // back.
      if (receives_.empty() && (sends_.empty() || sent_.size() >= limit_))
        if (!node_.drive_until([this] { return collect() || (sent_.empty() && received_.empty()); })) return;
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  using Key = std::pair<u32, Stream>;
  using Queues = std::map<Key, std::deque<Message>>;
  struct Arriving {
    std::unique_ptr<Received> received{};
    std::unique_ptr<Checker> sink{};
    u64 number = 0;
    int held = 0;  // lent: how many more looks until it is given back
    bool given_back = false;
  };

  // Both sides make the same list.
  static std::vector<Message> messages_between(u64 seed, u32 from, u32 to) {
    std::mt19937_64 random(seed * 4096 + from * 64 + to);
    std::vector<Message> messages;
    for (u64 i = 0; i < 1500 / slowness; ++i) {
      const u64 widths[]{8, 64, 300, 5000, 20'000, 140'000, 1'500'000};
      const u64 kind = random() % 100;
      const u64 width = widths[kind < 40   ? 0
                               : kind < 60 ? 1
                               : kind < 75 ? 2
                               : kind < 88 ? 3
                               : kind < 95 ? 4
                               : kind < 99 ? 5
                                           : 6];
      messages.push_back({.stream = random() % 12,
                          .bytes = random() % (width + 1),
                          .number = random() % 100'000,
                          .lend = random() % 6 == 0});
    }
    return messages;
  }

  static void add(Queues& queues, Message message, u32 peer) {
    message.peer = peer;
    queues[{peer, message.stream}].push_back(message);
  }

  Message take_any(Queues& queues) {
    auto at = std::next(queues.begin(), static_cast<std::ptrdiff_t>(random_() % queues.size()));
    const Message message = at->second.front();
    at->second.pop_front();
    if (at->second.empty()) queues.erase(at);
    return message;
  }

  void post_any() {
    if (!sends_.empty() && sent_.size() < limit_ && random_() % 2 == 0)
      sent_.push_back(send(node_, take_any(sends_)));
    else if (!receives_.empty())
      post_receive(take_any(receives_));
  }

  void post_receive(const Message& message) {
    Arriving arriving{.number = message.number, .held = static_cast<int>(random_() % 4)};
    if (!message.lend && random_() % 3 == 0) {
      arriving.sink = std::make_unique<Checker>(message.bytes, message.number);
      arriving.received = std::make_unique<Received>();
      Receive& receive = arriving.received->operation;
      receive.peer = message.peer;
      receive.stream = message.stream;
      receive.bytes = message.bytes;
      receive.sink = arriving.sink.get();
      node_.transport().receive(receive);
    } else {
      arriving.received = receive(node_, message);
    }
    received_.push_back(std::move(arriving));
  }

  // True if anything ended.
  bool collect() {
    const std::size_t before = sent_.size() + received_.size();
    std::erase_if(sent_, [](const auto& one) { return one->operation.state == State::done; });
    std::erase_if(received_, [this](Arriving& one) { return ended(one); });
    return sent_.size() + received_.size() != before;
  }

  bool ended(Arriving& one) {
    Receive& receive = one.received->operation;
    if (receive.state == State::waiting) return false;
    if (one.given_back) return true;
    if (receive.lend && one.held-- > 0) return false;
    if (one.sink)
      EXPECT_TRUE(receive.state == State::done && one.sink->right());
    else
      expect_message(*one.received, one.number);
    if (!receive.lend) return true;
    one.given_back = true;
    node_.transport().release(receive);
    return receive.state != State::waiting;
  }

  Node& node_;
  std::mt19937_64 random_;
  const std::size_t limit_ = 100;
  Queues sends_;
  Queues receives_;
  std::vector<std::unique_ptr<Sent>> sent_;
  std::vector<Arriving> received_;
};

}  // namespace

TEST_P(TransportContract, many_streams_at_random) {
  const u64 seed = number_from("SOFTIB_TEST_SEED", std::random_device()());
  SCOPED_TRACE(testing::Message() << "SOFTIB_TEST_SEED=" << seed);
  for (u64 round = 0; round < number_from("SOFTIB_TEST_ROUNDS", 1) && !HasFailure(); ++round) {
    const u32 ranks = 2 + static_cast<u32>((seed + round) % 3);
    run(ranks, [seed, round](Node& node) {
      Traffic(node, seed % 1'000'000'007 + round).run();
      node.barrier();
    });
  }
}

}  // namespace softib::coll::test

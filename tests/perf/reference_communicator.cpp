// A communicator between threads of one process whose collectives are what their definitions say and nothing else:
// every rank gives all it has, and works out its own result. Linked in place of the real one, it tests the benchmarks'
// frame without an engine.
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "coll/communicator.h"
#include "coll/kernels/kernels.h"

namespace softib::coll {

// Where the ranks of one communicator put what they give.
class Circle {
 public:
  explicit Circle(u32 ranks) : given_(ranks) {}

  [[nodiscard]] u32 size() const { return static_cast<u32>(given_.size()); }

  // What all gave, by rank.
  std::vector<Bytes> exchange(u32 rank, Bytes mine) {
    std::unique_lock lock(mutex_);
    // The round before may still be read.
    changed_.wait(lock, [this] { return leaving_ == 0; });
    given_[rank] = std::move(mine);
    const u64 round = round_;
    if (++arrived_ == size()) {
      ++round_;
      leaving_ = size();
      arrived_ = 0;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return round_ != round; });
    std::vector<Bytes> all = given_;
    if (--leaving_ == 0) changed_.notify_all();
    return all;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Bytes> given_;
  u32 arrived_ = 0;
  u32 leaving_ = 0;
  u64 round_ = 0;
};

namespace {

std::shared_ptr<Circle> circle_of(const std::string& name, u32 ranks) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<Circle>> circles;
  const std::lock_guard lock(mutex);
  auto circle = circles[name].lock();
  if (!circle) circles[name] = circle = std::make_shared<Circle>(ranks);
  return circle;
}

Bytes bytes_of(const void* memory, u64 bytes) {
  const auto* begin = static_cast<const std::byte*>(memory);
  return {begin, begin + bytes};
}

}  // namespace

class Communicator::Body {
 public:
  std::shared_ptr<Circle> circle;
  std::string name;
  u32 rank = 0;
  std::vector<Member> members;
  std::map<void*, std::unique_ptr<std::byte[]>> memory;
  u32 children = 0;

  [[nodiscard]] u32 size() const { return circle->size(); }
  std::vector<Bytes> exchange(const void* in, u64 bytes) { return circle->exchange(rank, bytes_of(in, bytes)); }
};

Outcome<UniqueId> UniqueId::make() {
  static std::mutex mutex;
  static u8 last = 0;
  const std::lock_guard lock(mutex);
  UniqueId id;
  id.bytes[0] = static_cast<std::byte>(++last);
  return id;
}

Communicator::Communicator(std::unique_ptr<Body> body) : body_(std::move(body)) {}
Communicator::~Communicator() = default;

Outcome<std::unique_ptr<Communicator>> Communicator::create(const UniqueId& id, u32 ranks, u32 rank,
                                                            const Config& /*config*/) {
  auto body = std::make_unique<Body>();
  body->name = std::to_string(std::to_integer<int>(id.bytes[0]));
  body->circle = circle_of(body->name, ranks);
  body->rank = rank;
  for (u32 member = 0; member < ranks; ++member) body->members.push_back({member, "here", 1, 4711, "127.0.0.1"});
  std::unique_ptr<Communicator> communicator(new Communicator(std::move(body)));
  static_cast<void>(communicator->body_->exchange(nullptr, 0));  // all are there, and hold their circle
  return communicator;
}

u32 Communicator::rank() const { return body_->rank; }
u32 Communicator::size() const { return body_->size(); }
std::span<const Member> Communicator::members() const { return body_->members; }

Outcome<std::unique_ptr<Communicator>> Communicator::split(i32 color, i32 /*key*/) {
  const auto colors = body_->exchange(&color, sizeof(color));
  auto body = std::make_unique<Body>();
  u32 ranks = 0;
  for (u32 member = 0; member < size(); ++member) {
    if (std::memcmp(colors[member].data(), &color, sizeof(color)) != 0) continue;
    if (member == rank()) body->rank = ranks;
    body->members.push_back(body_->members[member]);
    body->members.back().rank = ranks++;
  }
  body->name = body_->name + "/" + std::to_string(++body_->children) + "/" + std::to_string(color);
  body->circle = circle_of(body->name, ranks);
  std::unique_ptr<Communicator> communicator(new Communicator(std::move(body)));
  static_cast<void>(communicator->body_->exchange(nullptr, 0));
  return communicator;
}

Started Communicator::start_all_reduce(const void* in, void* out, u64 count, const Reduction& reduction) {
  Bytes scaled(count * size_of(reduction.type));
  if (reduction.op == Op::premul_sum) {
    kernels::scale(reduction.factor, scaled.data(), in, count);
    in = scaled.data();
  }
  const auto all = body_->exchange(in, scaled.size());
  std::vector<const void*> inputs;
  for (const Bytes& each : all) inputs.push_back(each.data());
  kernels::reduce(reduction.type, reduction.op, out, inputs, count, size());
  return Request{};
}

Started Communicator::start_reduce(const void* in, void* out, u64 count, const Reduction& reduction, u32 root) {
  Bytes result(count * size_of(reduction.type));
  auto started = start_all_reduce(in, result.data(), count, reduction);
  if (rank() == root) std::memcpy(out, result.data(), result.size());
  return started;
}

Started Communicator::start_reduce_scatter(const void* in, void* out, u64 count, const Reduction& reduction) {
  Bytes result(count * size() * size_of(reduction.type));
  auto started = start_all_reduce(in, result.data(), count * size(), reduction);
  const u64 part = count * size_of(reduction.type);
  std::memcpy(out, result.data() + rank() * part, part);
  return started;
}

Started Communicator::start_broadcast(const void* in, void* out, u64 count, DataType type, u32 root) {
  const auto all = body_->exchange(in, rank() == root ? count * size_of(type) : 0);
  std::memcpy(out, all[root].data(), all[root].size());
  return Request{};
}

Started Communicator::start_all_gather(const void* in, void* out, u64 count, DataType type) {
  const u64 part = count * size_of(type);
  const auto all = body_->exchange(in, part);
  for (u32 from = 0; from < size(); ++from)
    std::memcpy(static_cast<std::byte*>(out) + from * part, all[from].data(), part);
  return Request{};
}

Started Communicator::start_gather(const void* in, void* out, u64 count, DataType type, u32 root) {
  Bytes result(size() * count * size_of(type));
  auto started = start_all_gather(in, result.data(), count, type);
  if (rank() == root) std::memcpy(out, result.data(), result.size());
  return started;
}

Started Communicator::start_scatter(const void* in, void* out, u64 count, DataType type, u32 root) {
  const u64 part = count * size_of(type);
  const auto all = body_->exchange(in, rank() == root ? part * size() : 0);
  std::memcpy(out, all[root].data() + rank() * part, part);
  return Request{};
}

Started Communicator::start_all_to_all(const void* in, void* out, u64 count, DataType type) {
  const u64 part = count * size_of(type);
  const auto all = body_->exchange(in, part * size());
  for (u32 from = 0; from < size(); ++from)
    std::memcpy(static_cast<std::byte*>(out) + from * part, all[from].data() + rank() * part, part);
  return Request{};
}

Started Communicator::start_all_to_all_v(const void* in, const Parts& sent, void* out, const Parts& received,
                                         DataType type) {
  const u64 each = size_of(type);
  std::vector<u64> places(sent.offsets.begin(), sent.offsets.end());
  const auto offsets = body_->exchange(places.data(), places.size() * sizeof(u64));
  const auto all = body_->exchange(in, (sent.offsets.back() + sent.counts.back()) * each);
  for (u32 from = 0; from < size(); ++from) {
    u64 offset = 0;
    std::memcpy(&offset, offsets[from].data() + rank() * sizeof(u64), sizeof(u64));
    std::memcpy(static_cast<std::byte*>(out) + received.offsets[from] * each, all[from].data() + offset * each,
                received.counts[from] * each);
  }
  return Request{};
}

Started Communicator::start_barrier() {
  static_cast<void>(body_->exchange(nullptr, 0));
  return Request{};
}

// For one message to and one from another rank, by all ranks at once.
Started Communicator::start_messages(std::span<const PointToPoint> messages) {
  Bytes given;
  for (const PointToPoint& message : messages)
    if (message.kind == PointToPoint::Kind::send) given = bytes_of(message.memory, message.bytes);
  const auto all = body_->exchange(given.data(), given.size());
  for (const PointToPoint& message : messages)
    if (message.kind == PointToPoint::Kind::receive)
      std::memcpy(message.memory, all[message.peer].data(), message.bytes);
  return Request{};
}

Outcome<bool> Communicator::test(Request /*request*/) { return true; }
Done Communicator::wait(Request /*request*/) { return {}; }
std::optional<Error> Communicator::async_error() const { return std::nullopt; }
void Communicator::abort(const std::string& /*why*/) {}

Outcome<void*> Communicator::allocate(u64 bytes) {
  auto memory = std::make_unique<std::byte[]>(bytes);
  void* address = memory.get();
  body_->memory.emplace(address, std::move(memory));
  return address;
}

void Communicator::free_memory(void* memory) { body_->memory.erase(memory); }

}  // namespace softib::coll

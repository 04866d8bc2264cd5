// Stand-ins for what the command interpreter calls: engine, process memory, descriptor list, the program's memory.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernel/control.h"
#include "kernel/fd_registry.h"
#include "kernel/user_memory.h"

namespace softib::kernel::testing {

// Notes what it is asked to do.
class FakeEngine final : public hca::Engine {
 public:
  struct NoThread final : hca::OwnThread {
    bool park() override { return false; }
    void resume() override {}
  } helper;

  explicit FakeEngine(ipc::Segment& segment) : segment_(segment) {}

  int doorbell(u32 qpn, u32 context) override {
    ++doorbells;
    if (qpn == 0 || qpn >= ipc::max_qps) return EINVAL;
    const ipc::Qp& qp = segment_.qps[qpn];
    return qp.generation.load() != 0 && qp.context == context ? doorbell_error : EINVAL;
  }
  void qp_modified(u32 qpn, ipc::QpState from, ipc::QpState to) override {
    notes.push_back("modified " + std::to_string(qpn) + " " + std::to_string(static_cast<u32>(from)) + ">" +
                    std::to_string(static_cast<u32>(to)));
  }
  void qp_destroyed(u32 qpn) override { notes.push_back("destroyed " + std::to_string(qpn)); }
  void wait_quiescent() override { notes.push_back("quiescent"); }
  int arm_cq(u32 cq, u32 context, bool solicited_only) override {
    if (cq == 0 || cq >= ipc::max_cqs) return EINVAL;
    if (segment_.cqs[cq].generation.load() == 0 || segment_.cqs[cq].context != context) return EINVAL;
    notes.push_back("arm " + std::to_string(cq) + (solicited_only ? " solicited" : " next"));
    return 0;
  }
  Result<void> move_cq_ring(u32 cq, u64 ring, u32 mask) override {
    if (move_error) return fail(move_error);
    notes.push_back("move cq " + std::to_string(mask));
    segment_.cqs[cq].ring = ring;
    segment_.cqs[cq].mask = mask;
    return {};
  }
  Result<void> move_srq_ring(u32 srq, u64 ring, u32 mask) override {
    if (move_error) return fail(move_error);
    notes.push_back("move srq " + std::to_string(mask));
    segment_.srqs[srq].ring = ring;
    segment_.srqs[srq].mask = mask;
    return {};
  }
  void srq_limit_armed(u32 srq) override { notes.push_back("limit " + std::to_string(srq)); }
  void serve_peers() override {}
  hca::OwnThread& helper_thread() override { return helper; }
  void abandon() override {}

  u64 doorbells = 0;
  int doorbell_error = 0;
  int move_error = 0;
  std::vector<std::string> notes;

 private:
  ipc::Segment& segment_;
};

// Counts pins and charges instead of making them, so that any address will do.
class FakeProcessMemory final : public hca::ProcessMemory {
 public:
  int fd() const override { return -1; }
  Result<hca::AddressRange> share(u64 address, u64 length, bool writable) override {
    if (share_error) return fail(share_error);
    ++shares[{address, length}];
    last_writable = writable;
    return hca::AddressRange{address, address + length};
  }
  void unshare(u64 address, u64 length) override { drop(shares, {address, length}); }
  std::optional<int> on_madvise(void*, size_t, int) override { return std::nullopt; }
  void after_unmap(u64, u64) override {}
  std::optional<void*> on_mremap(void*, size_t, size_t, int, void*) override { return std::nullopt; }
  void before_fork() override {}
  void after_fork_in_parent() override {}
  void after_fork_in_child() override {}
  bool holds(const void*, u64) const override { return false; }
  Usage usage() const override { return {}; }
  void set_own_thread(hca::OwnThread*) override {}
  void set_usual_limit(u64) override {}
  Result<void> charge(u64 address, u64 length) override {
    if (length > memlock_limit) return fail(ENOMEM);
    ++charges[{address, length}];
    return {};
  }
  void uncharge(u64 address, u64 length) override { drop(charges, {address, length}); }

  using Ranges = std::map<std::pair<u64, u64>, int>;
  Ranges shares;
  Ranges charges;
  int share_error = 0;
  u64 memlock_limit = ~0ULL;
  bool last_writable = false;
  bool balanced = true;  // false: something was given back that had never been taken

 private:
  void drop(Ranges& ranges, std::pair<u64, u64> range) {
    auto found = ranges.find(range);
    if (found == ranges.end()) {
      balanced = false;
    } else if (--found->second == 0) {
      ranges.erase(found);
    }
  }
};

class FakeFds final : public FdRegistry {
 public:
  Result<int> adopt_async_fd(Fd fd, u32) override { return keep(std::move(fd)); }
  Result<int> adopt_channel_fd(Fd fd, u32, Channel channel) override {
    auto number = keep(std::move(fd));
    if (number) channels[*number] = channel;
    return number;
  }
  Result<Channel> channel_of_fd(int fd, u32) override {
    auto found = channels.find(fd);
    if (found == channels.end()) return fail(EBADF);
    return found->second;
  }
  void drop_fd(int fd) override {
    held.erase(fd);
    channels.erase(fd);
    ++dropped;
  }

  std::map<int, Fd> held;  // by number in the program: made up, so that recorded calls stay valid
  std::map<int, Channel> channels;
  int dropped = 0;
  int error = 0;

 private:
  Result<int> keep(Fd fd) {
    if (error) return fail(error);
    int number = next_++;
    held.emplace(number, std::move(fd));
    return number;
  }
  int next_ = 100;
};

// The program's memory: one window at a made-up address, so that no pointer in a call can reach anything else.
class Window final : public UserMemory {
 public:
  static constexpr u64 base = 0x10'0000;
  static constexpr size_t size = 64 * 1024;

  Result<void> copy_in(void* to, u64 from, size_t length) override {
    if (!inside(from, length)) return fail(EFAULT);
    std::memcpy(to, bytes_.data() + (from - base), length);
    return {};
  }
  Result<void> copy_out(u64 to, const void* from, size_t length) override {
    if (read_only_from <= to && length > 0) return fail(EFAULT);
    if (!inside(to, length)) return fail(EFAULT);
    std::memcpy(bytes_.data() + (to - base), from, length);
    return {};
  }
  Result<void> clear(u64 to, size_t length) override {
    if (!inside(to, length)) return fail(EFAULT);
    std::memset(bytes_.data() + (to - base), 0, length);
    return {};
  }
  Result<void> prefetch(u64 address, size_t length, bool writing) override {
    prefetched.push_back({address, length, writing});
    return {};
  }

  // Puts bytes at the next free place; gives the address.
  u64 put(const void* from, size_t length) {
    next_ = (next_ + 15) & ~size_t{15};
    if (length > size - next_) std::abort();
    u64 at = base + next_;
    if (from) std::memcpy(bytes_.data() + next_, from, length);
    next_ += length;
    return at;
  }
  template <typename T>
  u64 put(const T& value) {
    return put(&value, sizeof value);
  }
  u64 room(size_t length) { return put(nullptr, length); }
  template <typename T>
  void get(u64 at, T& into) const {
    std::memcpy(&into, bytes_.data() + (at - base), sizeof into);
  }
  template <typename T>
  T get(u64 at) const {
    T value{};
    get(at, value);
    return value;
  }
  void set(u64 at, const void* from, size_t length) {
    if (length) std::memcpy(bytes_.data() + (at - base), from, length);
  }
  void reset() {
    std::fill(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size), 0);
    next_ = 0;
  }
  [[nodiscard]] std::vector<u8> used() const {
    return {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(next_)};
  }

  struct Prefetch {
    u64 address;
    size_t length;
    bool writing;
  };
  std::vector<Prefetch> prefetched;
  u64 read_only_from = ~0ULL;  // writing at or above it is refused

 private:
  static bool inside(u64 at, size_t length) { return at >= base && at - base <= size && length <= size - (at - base); }

  std::vector<u8> bytes_ = std::vector<u8>(size);
  size_t next_ = 0;
};

}  // namespace softib::kernel::testing

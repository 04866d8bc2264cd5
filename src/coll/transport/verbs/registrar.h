// Registered memory of messages. Registrations that hold pages outlive their message only for memory of which somebody
// promised that it stays: what is hinted at, or with SOFTIB_IB_MR_CACHE=1 all of it, for good; what is borrowed, until
// it is given back. For other memory nothing tells this library when it is unmapped and something else mapped there,
// and HCAs would go on with the old pages. On-demand registrations hold none, the HCA finds what is there: those are
// kept.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "coll/transport/verbs/devices.h"

namespace softib::coll::verbs {

class Registration {
 public:
  enum class Kind : u8 { held, on_demand };  // whose pages stay; which refers to addresses alone

  [[nodiscard]] u32 local_key(u32 device) const { return regions_[device]->lkey; }
  [[nodiscard]] u32 remote_key(u32 device) const { return regions_[device]->rkey; }

 private:
  friend class Registrar;
  std::vector<RegionOwner> regions_;  // one for each device
  u64 begin_ = 0;
  u64 end_ = 0;
  u32 users_ = 0;
  bool kept_ = false;      // in the cache, or borrowed memory's
  bool writable_ = false;  // peers may write there
  Kind kind_ = Kind::held;
  u64 last_used_ = 0;
};

enum class Access : u8 { read, write };  // sent from there, or read by peers; written to by peers

struct RegistrarLimits {
  bool keep_all = false;      // SOFTIB_IB_MR_CACHE
  bool on_demand = true;      // SOFTIB_IB_ODP; and all HCAs can
  u64 bytes = u64{64} << 30;  // kept registrations at most, all together
  u32 count = 4096;           // and so many
  // What nobody hinted at is copied the first time that it comes, and where it is shorter than this. A registration
  // that holds pages is made and ended for each run, and each takes 50 us or more where ranks leave the kernel, or
  // softibd, no processor of its own. On-demand ones cost that once, but then the HCA looks up each page.
  u64 shortest_held = u64{8} << 20;        // all that is borrowed, or a message alone
  u64 shortest_on_demand = u64{16} << 10;  // a message
  // Bytes that are registered in a microsecond where pages need no work. Where they do, as those that a program gets
  // anew for each call, holding them takes longer than any copy; it is tried less and less often then.
  u64 quick = u64{8} << 10;
};

class Registrar {
 public:
  Registrar(std::span<const Device> devices, i32 rank, const RegistrarLimits& limits);

  // Null: send or receive it by way of the bounce slots. `on_demand`: where those would be slower than looking up
  // pages.
  [[nodiscard]] Registration* acquire(const void* memory, u64 bytes, Access access, bool on_demand = true);
  void release(Registration* registration);

  // Messages from and to parts of this memory may come, and it stays until it is given back as often with the same
  // numbers. Costs nothing before the first message.
  void borrow(const void* memory, u64 bytes);
  void give_back(const void* memory, u64 bytes);

  void hint(const void* memory, u64 bytes);
  void forget(const void* memory, u64 bytes);

  [[nodiscard]] std::size_t kept() const { return kept_.size(); }
  [[nodiscard]] std::size_t held() const;  // registrations that hold pages

 private:
  using Kind = Registration::Kind;
  using Kept = std::multimap<u64, Registration*>;  // by begin
  struct Range {
    u64 begin;
    u64 end;
    [[nodiscard]] u64 size() const { return end - begin; }
    [[nodiscard]] bool covers(const Range& other) const { return begin <= other.begin && end >= other.end; }
    friend bool operator==(const Range&, const Range&) = default;
  };
  struct Borrowed {
    Range range;
    u32 times;
    Registration* registration;  // nullptr: no message has had one
  };

  [[nodiscard]] Registration* find_kept(Range range, Access access, Kind at_least) const;
  [[nodiscard]] Borrowed* find_borrowed(Range range);
  [[nodiscard]] const std::pair<const u64, u64>* find_hint(Range range) const;
  [[nodiscard]] bool seen_before(Range range);
  [[nodiscard]] Registration* make_kept(Range range, Access access);
  [[nodiscard]] Registration* hold_for_now(Range range, Access access);
  [[nodiscard]] Registration* on_demand(Range range, Access access);
  [[nodiscard]] Registration* make(Range range, Access access, Kind kind);
  [[nodiscard]] bool register_on_all(Registration& registration, Access access, Kind kind);
  void keep(Registration& registration);
  void drop_parts_of(Range range);
  void make_room(u64 bytes);
  bool drop_oldest();
  Kept::iterator unkeep(Kept::iterator place);
  void complain(u64 bytes, Kind kind, int error);
  [[nodiscard]] bool pauses();
  void learn(u64 bytes, std::chrono::nanoseconds time);

  std::span<const Device> devices_;
  i32 rank_;
  RegistrarLimits limits_;
  std::map<u64, u64> hints_;           // begin to end
  std::unordered_map<u64, u64> seen_;  // begin to end, of what came once
  std::vector<Borrowed> borrowed_;     // as many as runs are under way, so few
  Kept kept_;
  u64 kept_bytes_ = 0;
  std::unordered_map<Registration*, std::unique_ptr<Registration>> all_;
  u64 clock_ = 0;
  bool complained_ = false;
  u32 pause_ = 0;       // attempts to leave out after a refusal: each costs a system call
  u32 slow_pause_ = 0;  // likewise, after pages that had to be got ready
  u32 next_slow_pause_ = 0;
};

}  // namespace softib::coll::verbs

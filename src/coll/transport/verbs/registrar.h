// Registered memory of messages. Registrations that outlive their message are kept only for memory of which somebody
// promised that it stays: what is hinted at, or with SOFTIB_IB_MR_CACHE=1 all of it. For other memory nothing tells
// this library when it is unmapped and something else mapped there, and HCAs would go on with the old pages.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "coll/transport/verbs/devices.h"

namespace softib::coll::verbs {

class Registration {
 public:
  [[nodiscard]] u32 local_key(u32 device) const { return regions_[device]->lkey; }
  [[nodiscard]] u32 remote_key(u32 device) const { return regions_[device]->rkey; }

 private:
  friend class Registrar;
  std::vector<RegionOwner> regions_;  // one for each device
  u64 begin_ = 0;
  u64 end_ = 0;
  u32 users_ = 0;
  bool kept_ = false;      // in the cache
  bool writable_ = false;  // peers may write there
  u64 last_used_ = 0;
};

enum class Access : u8 { read, write };  // sent from there; written to by peers

struct RegistrarLimits {
  bool keep_all = false;      // SOFTIB_IB_MR_CACHE
  u64 bytes = u64{64} << 30;  // kept registrations at most, all together
  u32 count = 4096;           // and so many
  // Messages in memory that nobody hinted at are copied below that, and the first time that they come from a place. A
  // registration costs some 50 us wherever it is, and much more where pages are new; copying costs that much for 1 MiB.
  u64 shortest = u64{512} << 10;
};

class Registrar {
 public:
  Registrar(std::span<const Device> devices, i32 rank, const RegistrarLimits& limits);

  // Null: send or receive it by way of the bounce slots.
  [[nodiscard]] Registration* acquire(const void* memory, u64 bytes, Access access);
  void release(Registration* registration);

  void hint(const void* memory, u64 bytes);
  void forget(const void* memory, u64 bytes);

  [[nodiscard]] std::size_t kept() const { return kept_.size(); }

 private:
  using Kept = std::multimap<u64, Registration*>;  // by begin

  [[nodiscard]] Registration* find_kept(u64 begin, u64 end, Access access);
  [[nodiscard]] const std::pair<const u64, u64>* find_hint(u64 begin, u64 end) const;
  [[nodiscard]] bool seen_before(u64 begin, u64 end);
  [[nodiscard]] Registration* make(u64 begin, u64 end, Access access);
  [[nodiscard]] bool register_on_all(Registration& registration, Access access);
  void keep(Registration& registration);
  void make_room(u64 bytes);
  bool drop_oldest();
  Kept::iterator unkeep(Kept::iterator place);
  void complain(u64 bytes, int error);

  std::span<const Device> devices_;
  i32 rank_;
  RegistrarLimits limits_;
  std::map<u64, u64> hints_;           // begin to end
  std::unordered_map<u64, u64> seen_;  // begin to end, of messages that weren't worth a registration
  Kept kept_;
  u64 kept_bytes_ = 0;
  std::unordered_map<Registration*, std::unique_ptr<Registration>> all_;
  u64 clock_ = 0;
  bool complained_ = false;
  u32 pause_ = 0;  // attempts to leave out after a refusal: each costs a system call
};

}  // namespace softib::coll::verbs

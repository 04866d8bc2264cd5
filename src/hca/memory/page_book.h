// What we did to each page: registered how often, on the memory file or not, what the program said about fork.
#pragma once

#include <map>

#include "hca/memory/node_pool.h"
#include "hca/memory/pages.h"

namespace softib::hca {

enum class Place : u8 {
  own,      // where the program put it; the file has nothing at its offset
  home,     // on the file, at offset = address, mapped at its address
  detached  // the file still has the page, but its address shows it no more: unmapped while registered, or moved away
};

enum class ForkRule : u8 { copy, omit, wipe };

struct PageState {
  u32 pins = 0;  // share() calls that cover the page
  Place place = Place::own;
  ForkRule on_fork = ForkRule::copy;
  bool away = false;   // a mapping at another address (after mremap) shows the page
  bool guest = false;  // this address is such another: it shows pages whose home is elsewhere

  bool operator==(const PageState&) const = default;
};

// More than one call makes, as a rule.
inline constexpr size_t updates_per_call = 64;

struct Segment {
  AddressRange range;
  PageState state;
};

// A piecewise constant function from addresses to PageState, with running totals.
class PageBook {
 public:
  PageBook() : pool_(node_size), starts_(*new (tree_) Map(std::less<>(), PoolAllocator<Entry>(pool_))) {}
  PageBook(const PageBook&) = delete;
  PageBook& operator=(const PageBook&) = delete;

  // Room for so many calls of update(), which splits two entries at most. Without it an update may throw bad_alloc.
  // Calls that can't fail ask for it too, and go on: what the last one left unused is still there.
  bool reserve(size_t updates) { return pool_.reserve(2 * updates); }

  // The longest stretch of one state that begins at `address`, up to `end`.
  [[nodiscard]] Segment at(u64 address, u64 end = address_space_end) const;

  // Calls visit(const Segment&) for every stretch in `range`. visit may change the stretch that it was given.
  template <typename Visit>
  void for_each(AddressRange range, Visit visit) const {
    for (u64 address = range.begin; address < range.end;) {
      const Segment segment = at(address, range.end);
      visit(segment);
      address = segment.range.end;
    }
  }

  template <typename Mutate>
  void update(AddressRange range, Mutate mutate) {
    if (range.empty()) return;
    split(range.begin);
    split(range.end);
    count(range, -1);
    for (auto entry = starts_.find(range.begin); entry->first != range.end; ++entry) mutate(entry->second);
    count(range, +1);
    join(range);
  }

  [[nodiscard]] bool any(AddressRange range, Place place) const;
  [[nodiscard]] bool all(AddressRange range, Place place) const;

  [[nodiscard]] u64 home_bytes() const { return home_bytes_; }
  [[nodiscard]] u64 pinned_home_bytes() const { return pinned_home_bytes_; }
  [[nodiscard]] bool has_guests() const { return guest_bytes_ != 0; }
  [[nodiscard]] u64 runs() const { return runs_; }
  [[nodiscard]] bool file_in_use() const { return home_bytes_ != 0 || detached_bytes_ != 0; }

 private:
  using Entry = std::pair<const u64, PageState>;
  using Map = std::map<u64, PageState, std::less<>, PoolAllocator<Entry>>;
  static constexpr size_t node_size = sizeof(Entry) + 4 * sizeof(void*);  // links and colour of a tree node

  void split(u64 address);
  void join(AddressRange range);
  void count(AddressRange range, int sign);

  // The tree is never taken down: its nodes go with the pool, and in the child of a fork it may be half changed.
  BlockPool pool_;
  alignas(Map) std::byte tree_[sizeof(Map)];
  Map& starts_;  // the state holds from the key to the next key; before the first it is PageState{}
  u64 home_bytes_ = 0;
  u64 pinned_home_bytes_ = 0;
  u64 detached_bytes_ = 0;
  u64 guest_bytes_ = 0;
  u64 runs_ = 0;
};

}  // namespace softib::hca

#include "coll/transport/verbs/registrar.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "coll/log.h"

namespace softib::coll::verbs {

namespace {

constexpr u32 attempts_left_out = 256;
constexpr u32 longest_slow_pause = 1024;
constexpr u64 slack_ns = 1'000'000;  // a processor may be taken away meanwhile
constexpr std::size_t places_remembered = 1024;

u64 address_of(const void* memory) { return reinterpret_cast<u64>(memory); }

std::string locked_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{} KiB", limit.rlim_cur >> 10);
}

}  // namespace

Registrar::Registrar(std::span<const Device> devices, i32 rank, const RegistrarLimits& limits)
    : devices_(devices), rank_(rank), limits_(limits) {
  for (const Device& device : devices) limits_.on_demand = limits_.on_demand && device.on_demand;
}

Registration* Registrar::acquire(const void* memory, u64 bytes, Access access, bool on_demand) {
  const Range range{address_of(memory), address_of(memory) + bytes};
  Registration* registration = find_kept(range, access, Kind::held);
  if (registration == nullptr && (limits_.keep_all || find_hint(range) != nullptr)) {
    registration = make_kept(range, access);
  } else if (registration == nullptr) {
    registration = hold_for_now(range, access);
    if (registration == nullptr && on_demand) registration = this->on_demand(range, access);
  }
  if (registration == nullptr) return nullptr;
  registration->users_++;
  registration->last_used_ = ++clock_;
  return registration;
}

void Registrar::release(Registration* registration) {
  if (registration == nullptr) return;
  if (--registration->users_ == 0 && !registration->kept_) all_.erase(registration);
}

// After a refusal for lack of memory some attempts are left out: each costs a system call.
bool Registrar::pauses() {
  if (pause_ == 0) return false;
  pause_--;
  return true;
}

Registration* Registrar::make_kept(Range range, Access access) {
  if (pauses()) return nullptr;
  const auto* hint = find_hint(range);
  Registration* registration = hint != nullptr ? make({hint->first, hint->second}, access, Kind::held) : nullptr;
  // The whole range may be more than the system allows while the message isn't.
  if (registration == nullptr) registration = make(range, access, Kind::held);
  if (registration != nullptr) keep(*registration);
  return registration;
}

// Until the message ends, or the run that the memory is borrowed for.
Registration* Registrar::hold_for_now(Range range, Access access) {
  Borrowed* borrowed = find_borrowed(range);
  if (borrowed != nullptr && borrowed->registration != nullptr)
    return access == Access::read || borrowed->registration->writable_ ? borrowed->registration : nullptr;
  const Range whole = borrowed != nullptr ? borrowed->range : range;
  if (whole.size() < limits_.shortest_held || !seen_before(whole) || pauses()) return nullptr;
  if (slow_pause_ > 0) {
    slow_pause_--;
    return nullptr;
  }
  const auto begin = std::chrono::steady_clock::now();
  Registration* registration = make(whole, access, Kind::held);
  learn(whole.size(), std::chrono::steady_clock::now() - begin);
  if (registration == nullptr || borrowed == nullptr) return registration;
  registration->kept_ = true;
  return borrowed->registration = registration;
}

void Registrar::learn(u64 bytes, std::chrono::nanoseconds time) {
  const bool quick = static_cast<u64>(time.count()) * limits_.quick <= bytes * 1000 + slack_ns * limits_.quick;
  next_slow_pause_ = quick ? 0 : std::clamp(2 * next_slow_pause_, 1U, longest_slow_pause);
  slow_pause_ = next_slow_pause_;
}

// Long memory goes that way the first time; shorter is copied then.
Registration* Registrar::on_demand(Range range, Access access) {
  if (!limits_.on_demand || range.size() < limits_.shortest_on_demand) return nullptr;
  if (Registration* registration = find_kept(range, access, Kind::on_demand)) return registration;
  const Borrowed* borrowed = find_borrowed(range);
  const Range whole = borrowed != nullptr ? borrowed->range : range;
  if (!seen_before(whole)) return nullptr;
  Registration* registration = make(whole, access, Kind::on_demand);
  if (registration == nullptr) return nullptr;
  drop_parts_of(whole);
  keep(*registration);
  return registration;
}

void Registrar::borrow(const void* memory, u64 bytes) {
  const Range range{address_of(memory), address_of(memory) + bytes};
  for (Borrowed& borrowed : borrowed_)
    if (borrowed.range == range) {
      borrowed.times++;
      return;
    }
  borrowed_.push_back({.range = range, .times = 1, .registration = nullptr});
}

// A message may hold on to the registration where it ends later.
void Registrar::give_back(const void* memory, u64 bytes) {
  const Range range{address_of(memory), address_of(memory) + bytes};
  const auto place =
      std::find_if(borrowed_.begin(), borrowed_.end(), [&](const auto& it) { return it.range == range; });
  if (place == borrowed_.end() || --place->times > 0) return;
  Registration* registration = place->registration;
  borrowed_.erase(place);
  if (registration == nullptr) return;
  registration->kept_ = false;
  if (registration->users_ == 0) all_.erase(registration);
}

std::size_t Registrar::held() const {
  return static_cast<std::size_t>(
      std::count_if(all_.begin(), all_.end(), [](const auto& it) { return it.first->kind_ == Kind::held; }));
}

// The longest one that the range lies in.
Registrar::Borrowed* Registrar::find_borrowed(Range range) {
  Borrowed* found = nullptr;
  for (Borrowed& borrowed : borrowed_)
    if (borrowed.range.covers(range) && (found == nullptr || found->range.size() < borrowed.range.size()))
      found = &borrowed;
  return found;
}

void Registrar::hint(const void* memory, u64 bytes) {
  if (bytes == 0) return;
  u64& end = hints_[address_of(memory)];
  end = std::max(end, address_of(memory) + bytes);
}

void Registrar::forget(const void* memory, u64 bytes) {
  const u64 begin = address_of(memory);
  const u64 end = begin + bytes;
  std::erase_if(hints_, [&](const auto& hint) { return hint.first < end && begin < hint.second; });
  for (auto place = kept_.begin(); place != kept_.end() && place->first < end;) {
    place = place->second->end_ > begin ? unkeep(place) : std::next(place);
  }
}

// With Kind::on_demand either kind will do.
Registration* Registrar::find_kept(Range range, Access access, Kind at_least) const {
  // Ranges may overlap, so the one that covers this may stand some places before. Few do, and a miss costs no more than
  // another registration.
  auto place = kept_.upper_bound(range.begin);
  for (u32 looked = 0; place != kept_.begin() && looked < 4; looked++) {
    --place;
    Registration* registration = place->second;
    const bool fits = registration->end_ >= range.end && (at_least != Kind::held || registration->kind_ == Kind::held);
    if (fits && (access == Access::read || registration->writable_)) return registration;
  }
  return nullptr;
}

const std::pair<const u64, u64>* Registrar::find_hint(Range range) const {
  auto place = hints_.upper_bound(range.begin);
  if (place == hints_.begin()) return nullptr;
  --place;
  return place->second >= range.end ? &*place : nullptr;
}

bool Registrar::seen_before(Range range) {
  if (seen_.size() > places_remembered) seen_.clear();
  u64& known = seen_[range.begin];
  if (known >= range.end) return true;
  known = range.end;
  return false;
}

Registration* Registrar::make(Range range, Access access, Kind kind) {
  auto registration = std::make_unique<Registration>();
  registration->begin_ = range.begin;
  registration->end_ = range.end;
  make_room(range.size());
  // Memory that this process may only read can't be given to peers to write.
  bool made = register_on_all(*registration, Access::write, kind);
  if (!made && access == Access::read) made = register_on_all(*registration, Access::read, kind);
  while (!made && errno == ENOMEM && drop_oldest()) made = register_on_all(*registration, access, kind);
  if (!made) {
    complain(range.size(), kind, errno);
    return nullptr;
  }
  Registration* it = registration.get();
  all_.emplace(it, std::move(registration));
  return it;
}

bool Registrar::register_on_all(Registration& registration, Access access, Kind kind) {
  int flags = IBV_ACCESS_REMOTE_READ;
  if (access == Access::write) flags |= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (kind == Kind::on_demand) flags |= IBV_ACCESS_ON_DEMAND;
  registration.regions_.clear();
  for (const Device& device : devices_) {
    RegionOwner region(ibv_reg_mr(device.domain.get(), reinterpret_cast<void*>(registration.begin_),
                                  registration.end_ - registration.begin_, flags));
    if (!region) {
      const int error = errno;
      registration.regions_.clear();
      errno = error;
      return false;
    }
    registration.regions_.push_back(std::move(region));
  }
  registration.writable_ = access == Access::write;
  registration.kind_ = kind;
  return true;
}

void Registrar::keep(Registration& registration) {
  registration.kept_ = true;
  kept_.emplace(registration.begin_, &registration);
  kept_bytes_ += registration.end_ - registration.begin_;
}

// Those that on-demand registration of the whole makes needless; else programs whose buffers grow would collect them.
void Registrar::drop_parts_of(Range range) {
  for (auto place = kept_.lower_bound(range.begin); place != kept_.end() && place->first < range.end;) {
    const Registration& part = *place->second;
    const bool needless = part.kind_ == Kind::on_demand && part.end_ <= range.end && part.users_ == 0;
    place = needless ? unkeep(place) : std::next(place);
  }
}

void Registrar::make_room(u64 bytes) {
  while (kept_.size() >= limits_.count || (kept_bytes_ + bytes > limits_.bytes && !kept_.empty())) {
    if (!drop_oldest()) return;
  }
}

bool Registrar::drop_oldest() {
  auto oldest = kept_.end();
  for (auto place = kept_.begin(); place != kept_.end(); ++place) {
    if (place->second->users_ > 0) continue;
    if (oldest == kept_.end() || place->second->last_used_ < oldest->second->last_used_) oldest = place;
  }
  if (oldest == kept_.end()) return false;
  unkeep(oldest);
  return true;
}

Registrar::Kept::iterator Registrar::unkeep(Kept::iterator place) {
  Registration* registration = place->second;
  kept_bytes_ -= registration->end_ - registration->begin_;
  registration->kept_ = false;
  if (registration->users_ == 0) all_.erase(registration);
  return kept_.erase(place);
}

void Registrar::complain(u64 bytes, Kind kind, int error) {
  if (kind == Kind::on_demand) {
    limits_.on_demand = false;
    return log::info(rank_, Subsystem::net, "NET/IB : no on-demand paging any more: registering {} bytes failed: {}",
                     bytes, std::strerror(error));
  }
  if (error == ENOMEM) pause_ = attempts_left_out;
  if (complained_) return;
  complained_ = true;
  log::warn(
      rank_,
      "NET/IB : registering {} bytes failed: {}; such messages are copied through bounce buffers, or looked up page "
      "by page, which is slower. {}",
      bytes, std::strerror(error),
      error == ENOMEM ? fmt::format("The limit of locked memory is {}: raise it (ulimit -l unlimited, or "
                                    "LimitMEMLOCK, or /etc/security/limits.conf).",
                                    locked_limit())
                      : "");
}

}  // namespace softib::coll::verbs

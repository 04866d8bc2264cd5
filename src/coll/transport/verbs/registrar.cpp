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
constexpr std::size_t places_remembered = 1024;

u64 address_of(const void* memory) { return reinterpret_cast<u64>(memory); }

std::string locked_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return fmt::format("{} KiB", limit.rlim_cur >> 10);
}

}  // namespace

Registrar::Registrar(std::span<const Device> devices, i32 rank, const RegistrarLimits& limits)
    : devices_(devices), rank_(rank), limits_(limits) {}

Registration* Registrar::acquire(const void* memory, u64 bytes, Access access) {
  const u64 begin = address_of(memory);
  const u64 end = begin + bytes;
  Registration* registration = find_kept(begin, end, access);
  if (registration == nullptr) {
    const auto* hint = find_hint(begin, end);
    const bool keeps = hint != nullptr || limits_.keep_all;
    if (!keeps && (bytes < limits_.shortest || !seen_before(begin, end))) return nullptr;
    if (pause_ > 0) {
      pause_--;
      return nullptr;
    }
    registration = hint != nullptr ? make(hint->first, hint->second, access) : nullptr;
    // The whole range may be more than the system allows while the message isn't.
    if (registration == nullptr) registration = make(begin, end, access);
    if (registration == nullptr) return nullptr;
    if (keeps) keep(*registration);
  }
  registration->users_++;
  registration->last_used_ = ++clock_;
  return registration;
}

void Registrar::release(Registration* registration) {
  if (registration == nullptr) return;
  if (--registration->users_ == 0 && !registration->kept_) all_.erase(registration);
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

Registration* Registrar::find_kept(u64 begin, u64 end, Access access) {
  // Ranges may overlap, so the one that covers this may stand some places before. Few do, and a miss costs no more than
  // another registration.
  auto place = kept_.upper_bound(begin);
  for (u32 looked = 0; place != kept_.begin() && looked < 4; looked++) {
    --place;
    Registration* registration = place->second;
    if (registration->end_ >= end && (access == Access::read || registration->writable_)) return registration;
  }
  return nullptr;
}

const std::pair<const u64, u64>* Registrar::find_hint(u64 begin, u64 end) const {
  auto place = hints_.upper_bound(begin);
  if (place == hints_.begin()) return nullptr;
  --place;
  return place->second >= end ? &*place : nullptr;
}

bool Registrar::seen_before(u64 begin, u64 end) {
  if (seen_.size() > places_remembered) seen_.clear();
  u64& known = seen_[begin];
  if (known == end) return true;
  known = end;
  return false;
}

Registration* Registrar::make(u64 begin, u64 end, Access access) {
  auto registration = std::make_unique<Registration>();
  registration->begin_ = begin;
  registration->end_ = end;
  make_room(end - begin);
  // Memory that this process may only read can't be given to peers to write.
  bool made = register_on_all(*registration, Access::write);
  if (!made && access == Access::read) made = register_on_all(*registration, Access::read);
  while (!made && errno == ENOMEM && drop_oldest()) made = register_on_all(*registration, access);
  if (!made) {
    complain(end - begin, errno);
    return nullptr;
  }
  Registration* it = registration.get();
  all_.emplace(it, std::move(registration));
  return it;
}

bool Registrar::register_on_all(Registration& registration, Access access) {
  const int flags = access == Access::write ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
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
  return true;
}

void Registrar::keep(Registration& registration) {
  registration.kept_ = true;
  kept_.emplace(registration.begin_, &registration);
  kept_bytes_ += registration.end_ - registration.begin_;
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

void Registrar::complain(u64 bytes, int error) {
  if (error == ENOMEM) pause_ = attempts_left_out;
  if (complained_) return;
  complained_ = true;
  log::warn(rank_,
            "NET/IB : registering {} bytes failed: {}; such messages are copied through bounce buffers, which is "
            "slower. {}",
            bytes, std::strerror(error),
            error == ENOMEM ? fmt::format("The limit of locked memory is {}: raise it (ulimit -l unlimited, or "
                                          "LimitMEMLOCK, or /etc/security/limits.conf).",
                                          locked_limit())
                            : "");
}

}  // namespace softib::coll::verbs

#include "pytorch/meeting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "pytorch/task.h"

namespace softib::pytorch {

namespace {

using std::chrono::milliseconds;

std::vector<uint8_t> blob_of(std::string_view text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<uint8_t>& blob) { return {blob.begin(), blob.end()}; }

std::string here(int rank) { return fmt::format("softib/here/{}", rank); }

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

// Stores differ in how they wait and in what they throw: asking again and again works with each.
bool appears(::c10d::Store& store, const std::string& key, Clock::time_point until) {
  for (milliseconds apart{1};; apart = std::min(apart * 2, milliseconds(50))) {
    if (store.check({key})) return true;
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(apart);
  }
}

std::string list_of(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

void await_all(::c10d::Store& store, Place place, Clock::time_point until, milliseconds timeout) {
  store.set(here(place.rank), blob_of(host_name()));
  std::vector<std::string> missing;
  for (int rank = 0; rank < place.size; ++rank)
    if (!appears(store, here(rank), until)) missing.push_back(fmt::format("rank {}", rank));
  if (missing.empty()) return;
  throw std::runtime_error(fmt::format("softib: {} of {} had not come when rank {} on {} gave up after {:.1f} s",
                                       list_of(missing), place.size, place.rank, host_name(),
                                       std::chrono::duration<double>(timeout).count()));
}

coll::UniqueId shared_id(::c10d::Store& store, Place place) {
  const std::string key = "softib/id";
  if (place.rank == 0) {
    const auto made = coll::UniqueId::make_apart();
    // The others would wait for it in vain.
    store.set(key, made ? blob_of({reinterpret_cast<const char*>(made->bytes.data()), made->bytes.size()})
                        : blob_of(made.error().text));
    if (!made) throw std::runtime_error("softib: " + made.error().text);
    return *made;
  }
  const std::vector<uint8_t> blob = store.get(key);
  coll::UniqueId id;
  if (blob.size() != id.bytes.size()) throw std::runtime_error("softib: rank 0 can't be met: " + text_of(blob));
  std::memcpy(id.bytes.data(), blob.data(), blob.size());
  return id;
}

}  // namespace

std::unique_ptr<coll::Communicator> meet(::c10d::Store& store, Place place, milliseconds timeout) {
  await_all(store, place, Clock::now() + timeout, timeout);
  const coll::UniqueId id = shared_id(store, place);
  coll::Config config;
  config.timeout = timeout;
  config.name = "torch";
  auto communicator =
      coll::Communicator::create(id, static_cast<u32>(place.size), static_cast<u32>(place.rank), config);
  if (!communicator) throw std::runtime_error("softib: " + communicator.error().text);
  return std::move(*communicator);
}

// Each rank says that it has come; rank 0 waits for all, and says how that ended. If it doesn't, the others see
// themselves who is missing: rank 0, or those for whom it still waits.
void monitored_barrier(::c10d::Store& store, Place place, const Watch& watch, const std::vector<std::string>& names) {
  const auto key = [&](std::string_view what) { return fmt::format("softib/monitored/{}/{}", watch.number, what); };
  const double seconds = std::chrono::duration<double>(watch.timeout).count();
  const auto missing_at = [&](Clock::time_point until) {
    std::vector<std::string> missing;
    for (int rank = 0; rank < place.size && (missing.empty() || watch.name_all); ++rank)
      if (!appears(store, key(std::to_string(rank)), until)) missing.push_back(names[static_cast<std::size_t>(rank)]);
    return missing;
  };
  const auto result_of = [&](const std::vector<std::string>& missing) {
    return missing.empty()
               ? "ok"
               : fmt::format("{} did not reach the monitored barrier within {:.1f} s", list_of(missing), seconds);
  };
  const Clock::time_point until = Clock::now() + watch.timeout;
  store.set(key(std::to_string(place.rank)), blob_of("here"));
  std::string result;
  if (place.rank == 0) {
    result = result_of(missing_at(until));
    store.set(key("over"), blob_of(result));
  } else if (appears(store, key("over"), until + std::min(watch.timeout, milliseconds(1000)))) {
    // Asked a little longer than rank 0 waits: it says who is missing.
    result = text_of(store.get(key("over")));
  } else {
    result = result_of(missing_at(Clock::now()));
    if (result == "ok")
      result = fmt::format("{} said nothing of the monitored barrier within {:.1f} s", names[0], seconds);
  }
  if (result != "ok") throw std::runtime_error("softib: " + result);
}

}  // namespace softib::pytorch

// Which message belongs to which receive. Within a stream the first goes to the first; streams are independent.
#pragma once

#include <array>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "coll/transport/lists.h"
#include "coll/transport/shm/layout.h"

namespace softib::coll::shm {

// What is wrong with a peer, if anything.
struct Health {
  Error error{Code::success, {}};
  bool good = true;

  // The first finding counts. Always false.
  bool spoil(Code code, std::string text) {
    if (good) error = {code, std::move(text)};
    return good = false;
  }
};

// A message that came before its receive, or its announcement.
struct Early {
  Early* next = nullptr;
  Stream stream = 0;
  bool announced = false;
  Announcement announcement{};
  u64 bytes = 0;  // that follow this object

  [[nodiscard]] std::byte* data() { return reinterpret_cast<std::byte*>(this + 1); }

  [[nodiscard]] static Early* make(Stream stream, u64 bytes) {
    auto* early = new (::operator new(sizeof(Early) + bytes)) Early;
    early->stream = stream;
    early->bytes = bytes;
    return early;
  }
  struct Delete {
    void operator()(Early* early) const { ::operator delete(early); }
  };
  using Owner = std::unique_ptr<Early, Delete>;
};

// Of one peer. Streams share buckets; a chain is looked through from its begin, which for a message of a stream that is
// waited for is nearly always the first node.
class Matches {
 public:
  Matches() = default;
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  ~Matches() { forget_early(); }

  // False: a message of its bucket, perhaps its own, is there already. Then it isn't posted.
  [[nodiscard]] bool post(Receive& receive) {
    Bucket& its = bucket(receive.stream);
    if (!its.early.empty()) return false;
    its.posted.push(receive);
    return true;
  }
  void post_later(Receive& receive) { bucket(receive.stream).posted.push(receive); }
  [[nodiscard]] Receive* take_posted(Stream stream) {
    return static_cast<Receive*>(take_of(bucket(stream).posted, stream));
  }
  void keep(Early& early) { bucket(early.stream).early.push(early); }
  [[nodiscard]] Early::Owner take_early(Stream stream) { return Early::Owner(take_of(bucket(stream).early, stream)); }

  // All that is posted, one after another; nullptr at the end.
  [[nodiscard]] Receive* take_any_posted() {
    for (Bucket& bucket : buckets_)
      if (Operation* found = bucket.posted.pop()) return static_cast<Receive*>(found);
    return nullptr;
  }
  void forget_early() {
    for (Bucket& bucket : buckets_)
      while (Early* early = bucket.early.pop()) Early::Delete()(early);
  }

 private:
  struct Bucket {
    Fifo<Operation> posted;
    Fifo<Early> early;
  };
  static constexpr unsigned bits = 6;

  [[nodiscard]] Bucket& bucket(Stream stream) { return buckets_[row_of(stream, bits)]; }

  std::array<Bucket, std::size_t{1} << bits> buckets_{};
};

}  // namespace softib::coll::shm

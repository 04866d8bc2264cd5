// Which message belongs to which receive. Within a stream the first goes to the first; streams are independent.
#pragma once

#include <array>
#include <memory>
#include <new>
#include <string>
#include <vector>

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

// A list through `next` of its nodes, which it doesn't own.
template <typename Node>
class Chain {
 public:
  [[nodiscard]] bool empty() const { return first_ == nullptr; }
  [[nodiscard]] Node* front() const { return first_; }

  void push(Node& node) {
    node.next = nullptr;
    (last_ ? last_->next : first_) = &node;
    last_ = &node;
  }

  Node* pop() {
    Node* node = first_;
    if (node) remove(nullptr, node);
    return node;
  }

  // The first of a stream, taken out.
  Node* take(Stream stream) {
    Node* before = nullptr;
    for (Node* node = first_; node; before = node, node = node->next) {
      if (node->stream != stream) continue;
      remove(before, node);
      return node;
    }
    return nullptr;
  }

 private:
  void remove(Node* before, Node* node) {
    (before ? before->next : first_) = node->next;
    if (last_ == node) last_ = before;
  }

  Node* first_ = nullptr;
  Node* last_ = nullptr;
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
    return static_cast<Receive*>(bucket(stream).posted.take(stream));
  }
  void keep(Early& early) { bucket(early.stream).early.push(early); }
  [[nodiscard]] Early::Owner take_early(Stream stream) { return Early::Owner(bucket(stream).early.take(stream)); }

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
    Chain<Operation> posted;
    Chain<Early> early;
  };
  static constexpr unsigned bits = 6;

  [[nodiscard]] Bucket& bucket(Stream stream) { return buckets_[stream * 0x9e3779b97f4a7c15 >> (64 - bits)]; }

  std::array<Bucket, std::size_t{1} << bits> buckets_{};
};

}  // namespace softib::coll::shm

// What is to be sent to one peer.
#pragma once

#include <sys/uio.h>

#include <deque>
#include <unordered_map>
#include <vector>

#include "coll/transport/tcp/wire.h"
#include "coll/transport/transport.h"

namespace softib::coll::tcp {

class Outgoing {
 public:
  // Queues it, at once or as an announcement.
  void add(Send& send);
  void add(const Header& header) { queue_.push_back({emit(header), nullptr, 0, nullptr}); }

  // false: nobody was told of such a message.
  [[nodiscard]] bool pull(u64 token, u64 receivers_token);
  // false: more than was taken.
  [[nodiscard]] bool give_credit(u64 bytes);

  [[nodiscard]] bool empty() const { return queue_.empty() && pulled_.empty(); }
  // Nothing is to be sent, and nothing waits to be pulled.
  [[nodiscard]] bool idle() const { return empty() && announced_.empty(); }
  // Writes what goes without waiting; false: the connection is broken, errno says how. `moved`: anything went.
  [[nodiscard]] bool write(int fd, bool& moved);
  // All that isn't done has failed.
  void fail_all();

 private:
  struct Item {
    std::array<std::byte, header_bytes> header{};
    const std::byte* data = nullptr;
    u64 bytes = 0;
    Send* done = nullptr;  // with this item
  };
  struct Pulled {
    Send* send = nullptr;
    u64 token = 0;  // the receiver's
  };

  void add_piece();
  [[nodiscard]] std::size_t gather(std::span<iovec> parts) const;
  void advance(u64 bytes);

  std::deque<Item> queue_;
  u64 sent_ = 0;               // bytes of the first item
  std::deque<Pulled> pulled_;  // in turn
  std::unordered_map<u64, Send*> announced_;
  u64 tokens_ = 0;
  u64 credit_ = most_kept;
};

}  // namespace softib::coll::tcp

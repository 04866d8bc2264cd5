// The transport itself: connections, and who of them has something to do.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "coll/bootstrap/bootstrap.h"
#include "coll/net/fork_guard.h"
#include "coll/transport/tcp/incoming.h"

namespace softib::coll::tcp {

// A connection with one peer.
class Connection {
 public:
  Connection(Fd fd, Member member) : fd_(std::move(fd)), member_(std::move(member)) {}

  void send(Send& send);
  void receive(Receive& receive);
  // Moves on what can be; true if anything did.
  bool read();
  bool write();
  void give_up();
  // Says that no more will come, in order, and waits until all is at the other side's kernel.
  void begin_farewell();
  [[nodiscard]] bool farewell_said() const;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return static_cast<bool>(fd_); }
  [[nodiscard]] bool wants_room() const { return open() && !outgoing_.empty(); }
  [[nodiscard]] std::optional<Error> take_failure();

  bool watched_for_room = false;

 private:
  void end(std::string why, Code code);
  void refuse(Operation& operation);

  Fd fd_;
  Member member_;
  Outgoing outgoing_;
  Incoming incoming_{outgoing_};
  std::optional<Error> ended_;  // why
  bool told_ = false;           // of that, or nobody wants to know
  bool left_in_order_ = false;
  bool lost_sends_ = false;
};

class TcpTransport final : public Transport {
 public:
  // `connections`: by rank; nothing where there is no peer.
  explicit TcpTransport(std::vector<std::unique_ptr<Connection>> connections);
  ~TcpTransport() override;
  [[nodiscard]] Outcome<void> open_descriptors();

  [[nodiscard]] const char* name() const override { return "tcp"; }
  void send(Send& send) override;
  void receive(Receive& receive) override;
  void release(Receive& receive) override { receive.data = nullptr; }
  bool progress() override;
  void give_up(u32 peer) override;
  [[nodiscard]] std::optional<PeerFailure> broken() override;
  [[nodiscard]] std::span<const int> descriptors() const override { return {&ready_descriptor_, 1}; }

 private:
  [[nodiscard]] Connection* find(u32 peer) const;
  void watch(u32 peer);

  std::vector<std::unique_ptr<Connection>> connections_;
  Fd ready_;  // epoll
  int ready_descriptor_ = -1;

  ForkGuard guard_{[this](ForkGuard::Visit visit) {
    for (const auto& connection : connections_)
      if (connection) visit(connection->fd());
    visit(ready_.get());
  }};
};

}  // namespace softib::coll::tcp

// A Bootstrap of ranks that are all connected with each other.
#pragma once

#include <mutex>

#include "coll/bootstrap/joining.h"
#include "coll/net/fork_guard.h"

namespace softib::coll {

// One lock: abort(), blame() and news() may be called while another thread waits in all_gather().
class Mesh final : public Bootstrap {
 public:
  // `timeout`: how long all_gather() waits.
  [[nodiscard]] static Outcome<std::unique_ptr<Bootstrap>> of(Joining::Joined joined, u32 rank,
                                                              std::chrono::nanoseconds timeout);
  // Who ends because of another's end or abort says so, so that nobody takes it for the one to blame.
  ~Mesh() override;

  [[nodiscard]] u32 rank() const override { return rank_; }
  [[nodiscard]] std::span<const Member> members() const override { return members_; }
  [[nodiscard]] Outcome<std::vector<Bytes>> all_gather(std::span<const std::byte> mine) override;
  [[nodiscard]] std::optional<News> news() override;
  void abort(const std::string& why) override;
  void blame(u32 rank, u64 collective) override;
  void leave() override;
  void say(const std::string& words) override;
  [[nodiscard]] int descriptor() const override { return all_.get(); }

 private:
  enum class Life : u8 { here, aborted, left, ended };
  struct Peer {
    FrameSocket socket;
    Life life = Life::here;
    std::deque<Bytes> gathered;  // at most two: none can be further ahead
    u64 gatherings = 0;          // that came in all
    std::string why;             // it aborted, left, or can't be reached
    bool watched_for_room = false;
  };

  Mesh(Joining::Joined joined, u32 rank, std::chrono::nanoseconds timeout);
  [[nodiscard]] Outcome<void> open_descriptors();
  [[nodiscard]] bool watch(int set, int operation, int fd, u32 events, u32 number) const;

  void say_farewell();
  void post_to_all(MeetingMessage message, std::span<const std::byte> body);
  void send_to(u32 rank);
  void look(int timeout_ms);
  void look_at(u32 rank, u32 events);
  void hear(u32 rank, Frame frame);
  void lose(u32 rank);
  void tell(News news);

  [[nodiscard]] bool all_gathered() const;
  [[nodiscard]] std::optional<Error> obstacle() const;
  [[nodiscard]] Error late() const;
  [[nodiscard]] std::vector<Bytes> take_gathered(std::span<const std::byte> mine);

  const u32 rank_;
  const std::chrono::nanoseconds timeout_;
  std::vector<Member> members_;

  mutable std::mutex lock_;
  std::vector<Peer> peers_;  // by rank; nobody at my own
  std::deque<News> news_;
  std::optional<std::string> aborted_;  // by myself
  bool left_ = false;
  u64 gatherings_ = 0;  // that I have begun

  Fd sockets_;    // epoll: what comes from peers
  Fd has_news_;   // eventfd: news_ isn't empty
  Fd all_;        // epoll of both
  Fd interrupt_;  // eventfd: all_gather() has to look

  ForkGuard guard_{[this](ForkGuard::Visit visit) {
    for (const Peer& peer : peers_) visit(peer.socket.fd());
    for (const Fd* fd : {&sockets_, &has_news_, &all_, &interrupt_}) visit(fd->get());
  }};
};

}  // namespace softib::coll

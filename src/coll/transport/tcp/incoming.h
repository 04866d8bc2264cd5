// What comes from one peer: cuts the stream of bytes into headers and messages, and finds the receives they are for.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "coll/transport/lists.h"
#include "coll/transport/tcp/outgoing.h"

namespace softib::coll::tcp {

class Incoming {
 public:
  // Answers (pulls and credit) are queued there.
  explicit Incoming(Outgoing& answers) : answers_(answers) {}
  ~Incoming();
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;

  // Done at once if the message has come already.
  void add(Receive& receive);

  enum class Stream : u8 { open, ended, broken };
  // Reads a part of what is there. `ended`: no more will come; errno is 0, or says why. `broken`: what came makes no
  // sense; complaint() says what.
  [[nodiscard]] Stream read(int fd, bool& moved);
  [[nodiscard]] const std::string& complaint() const { return complaint_; }
  [[nodiscard]] bool said_bye() const { return said_bye_; }
  // Any receive that is neither done nor failed?
  [[nodiscard]] bool expects() const { return waiting_ > 0; }

  // No more will come: what waits has failed. Whole messages that nobody has asked for yet stay, unless `forget`.
  void fail_all(bool forget);

 private:
  // A message that came before its receive.
  struct Kept {
    u64 bytes = 0;
    std::unique_ptr<std::byte[]> data;
    u64 arrived = 0;
    bool announced = false;
    u64 token = 0;             // the sender's, if announced
    Receive* taker = nullptr;  // asked for while it was arriving
    Kept* next = nullptr;
  };
  // Of one stream; one of the two is empty.
  struct Queue {
    Fifo<Operation> posted;
    Fifo<Kept> kept;
  };

  [[nodiscard]] bool consume();
  [[nodiscard]] bool take_payload();
  [[nodiscard]] bool begin(const Header& header);
  [[nodiscard]] bool begin_eager(const Header& header);
  [[nodiscard]] bool begin_announced(const Header& header);
  [[nodiscard]] bool begin_piece(const Header& header);
  void end_payload();
  [[nodiscard]] bool complain(std::string text);
  [[nodiscard]] bool fits(const Receive& receive, u64 bytes);

  [[nodiscard]] Receive* take_posted(u64 stream);
  void keep(u64 stream, std::unique_ptr<Kept> kept);
  void hand_over(std::unique_ptr<Kept> kept, Receive& receive);
  void start_pull(Receive& receive, u64 token);
  void finish(Receive& receive);
  void fail(Receive* receive);
  void give_back(u64 bytes);

  [[nodiscard]] ssize_t fill(int fd);
  [[nodiscard]] std::byte* direct_target() const;
  void arrived(u64 bytes);

  Outgoing& answers_;
  std::unordered_map<u64, Queue> queues_;      // by stream; none is empty
  std::unordered_map<u64, Receive*> pulling_;  // by token
  u64 tokens_ = 0;
  u64 waiting_ = 0;    // receives
  u64 kept_cost_ = 0;  // of eager messages that wait for a receive or were not paid back
  u64 owed_ = 0;       // credit that goes back with others
  u64 announced_ = 0;  // that wait for a receive

  // What is being read: the rest of a message, or a header.
  u64 left_ = 0;
  Receive* into_ = nullptr;  // this receive...
  Kept* kept_ = nullptr;     // ... or this message
  bool piece_ = false;       // of a pulled message

  struct alignas(64) Staging {
    std::array<std::byte, 64 << 10> bytes;
  };
  std::unique_ptr<Staging> staging_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  bool said_bye_ = false;
  std::string complaint_;
};

}  // namespace softib::coll::tcp

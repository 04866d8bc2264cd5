// Questions to subnet administration, as MADs through the fabric: asked again when no answer comes.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "sm/sa/records.h"
#include "wire/packet.h"

namespace softib::daemon {

class SaClient {
 public:
  class Outside {
   public:
    virtual ~Outside() = default;
    virtual void send(u32 port, const wire::Packet& packet) = 0;
    [[nodiscard]] virtual u16 lid(u32 port) const = 0;
    [[nodiscard]] virtual u16 manager_lid(u32 port) const = 0;
    [[nodiscard]] virtual u8 manager_sl(u32 port) const = 0;
  };
  // 0 or an errno, as ib_sa gives it; the record.
  using Done = std::function<void(int status, std::span<const u8> record)>;

  struct Question {
    u32 port = 0;
    wire::Method method = wire::Method::get;
    sm::sa::RecordType type{};
    u64 mask = 0;
    std::vector<u8> record;
    u32 timeout_ms = 0;
  };

  explicit SaClient(Outside& outside) : outside_(outside) {}

  // Gives a number for cancel(). EAGAIN: the port knows no subnet manager.
  Result<u64> ask(const Question& question, u64 now, Done done);
  void cancel(u64 number);

  // True: it was an answer to a question from here.
  bool received(const wire::Packet& packet);
  u64 on_time(u64 now);

 private:
  struct Waiting {
    u32 port;
    wire::Packet packet;
    u64 interval;
    u32 tries_left;
    u64 deadline;
    Done done;
  };
  void finish(u64 number, int status, std::span<const u8> record);

  Outside& outside_;
  std::map<u64, Waiting> waiting_;  // by transaction
  std::set<std::pair<u64, u64>> deadlines_;
  u64 last_ = 1ULL << 63;  // programs' agents have the transactions below
};

}  // namespace softib::daemon

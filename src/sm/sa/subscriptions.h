// Who wants to hear of events, and the reports to them, which are repeated until they are answered.
#pragma once

#include <list>

#include "sm/sa/query.h"
#include "wire/notice.h"

namespace softib::sm::sa {

class Subscriptions {
 public:
  explicit Subscriptions(const View& view) : view_(view) {}

  // Set(InformInfo): to subscribe, or no longer.
  [[nodiscard]] SaStatus set(const Query& query);
  void add_records(const Query& query, Answer& answer) const;
  void event(std::span<const u8> notice, u64 now);
  void report_answered(const wire::Mad& mad);
  u64 on_time(u64 now);
  void forget(const std::vector<u64>& ports);

 private:
  static constexpr std::size_t most = 65536;
  struct Subscription {
    Record<36> info;
    u16 lid = 0;  // where reports go
    u32 qp = 1;
    u64 port = 0;  // GUID
    u16 number = 0;
  };
  struct Report {
    wire::Packet packet;
    u64 deadline = 0;
    u32 tries = 0;
  };
  [[nodiscard]] bool wants(const Subscription& subscription, std::span<const u8> notice) const;
  void transmit(Report& report, u64 now);

  const View& view_;
  std::list<Subscription> subscriptions_;
  std::list<Report> reports_;
  u16 next_number_ = 0;
  u32 next_transaction_ = 0;
};

}  // namespace softib::sm::sa

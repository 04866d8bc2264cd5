// Services that ports have registered, with leases. A port that goes away takes its services out of sight, and brings
// them back: a lease alone ends them, as with opensm.
#pragma once

#include <list>

#include "sm/sa/query.h"

namespace softib::sm::sa {

class Services {
 public:
  explicit Services(const View& view) : view_(view) {}

  [[nodiscard]] SaStatus set(const Query& query, u64 now, Record<176>& record);
  [[nodiscard]] SaStatus remove(const Query& query, Record<176>& record);
  void add_records(const Query& query, Answer& answer, u64 now) const;
  u64 on_time(u64 now);

 private:
  static constexpr std::size_t most = 65536;
  struct Service {
    Record<176> record;
    u64 ends = ~u64{0};
    u64 owner = 0;  // port GUID
  };
  [[nodiscard]] static Record<176> named(const Query& query);
  [[nodiscard]] std::list<Service>::iterator find(const Record<176>& named);

  const View& view_;
  std::list<Service> services_;
};

}  // namespace softib::sm::sa

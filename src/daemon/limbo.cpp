#include "daemon/limbo.h"

namespace softib::daemon {

void Limbo::poll() {
  if (!waiting_.empty()) {
    if (!snapshot_.passed(segment_)) return;
    run_waiting();
  }
  if (fresh_.empty()) return;
  waiting_.swap(fresh_);
  snapshot_ = ipc::LaneSnapshot::take(segment_);
  if (snapshot_.passed(segment_)) run_waiting();
}

void Limbo::run_waiting() {
  // A release may add: take the batch out first.
  std::vector<Release> due;
  due.swap(waiting_);
  for (Release& release : due) release();
}

}  // namespace softib::daemon

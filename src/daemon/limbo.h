// What was taken away and may still be in somebody's hands.
#pragma once

#include <functional>
#include <vector>

#include "ipc/quiesce.h"
#include "ipc/segment.h"

namespace softib::daemon {

// Holds back the last step of taking something away (reuse of an index, return of pages) until every lane that could
// have seen it has moved on. Whoever adds to it has made the thing invisible before.
class Limbo {
 public:
  using Release = std::function<void()>;

  explicit Limbo(const ipc::Segment& segment) : segment_(segment) {}

  void add(Release release) { fresh_.push_back(std::move(release)); }

  // Releases what is due. Costs a walk over all lanes when something was added since.
  void poll();

  [[nodiscard]] bool empty() const { return fresh_.empty() && waiting_.empty(); }
  [[nodiscard]] size_t size() const { return fresh_.size() + waiting_.size(); }

 private:
  void run_waiting();

  const ipc::Segment& segment_;
  std::vector<Release> fresh_;    // added after the snapshot was taken
  std::vector<Release> waiting_;  // released when the snapshot has passed
  ipc::LaneSnapshot snapshot_;
};

}  // namespace softib::daemon

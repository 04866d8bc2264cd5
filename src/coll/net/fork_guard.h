// Connections are their process's own. A child that it forks, a data loader for example, would keep them open when the
// process itself has died, and others would not hear of its end; and it might say good-bye for its parent.
#pragma once

#include <functional>

#include "base/types.h"

namespace softib::coll {

// In forked children, all descriptors that `each` names stand for /dev/null; their numbers stay taken, so that closing
// them there harms nobody. `each` is called in the child, when other threads may have been in the middle of anything:
// it may only read.
class ForkGuard {
 public:
  using Visit = void (*)(int fd);
  explicit ForkGuard(std::function<void(Visit visit)> each);
  ~ForkGuard();
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  // Is this the process that made it?
  [[nodiscard]] bool at_home() const;

 private:
  friend struct ForkGuards;
  std::function<void(Visit visit)> each_;
  i32 process_;
};

}  // namespace softib::coll

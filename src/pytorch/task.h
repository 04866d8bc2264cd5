// What a process group was asked for, as the runner sees it: communication in stages, and what is done at its end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "coll/communicator.h"

namespace softib::pytorch {

using Clock = std::chrono::steady_clock;

struct Task {
  // Begins communication and adds the requests that it consists of. An error ends the task once those are done.
  using Stage = std::function<coll::Done(coll::Communicator&, std::vector<coll::Request>&)>;

  std::string name;           // "all_reduce", for messages
  std::vector<Stage> stages;  // one after another
  std::optional<Clock::time_point> deadline;
  // Called once, with the error if there was one, by whatever thread and without any lock.
  std::function<void(const coll::Error*)> end;
  const void* owner = nullptr;  // by which it is found again
};

}  // namespace softib::pytorch

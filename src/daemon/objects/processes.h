// Processes that have attached: their slots, memory files and bounce buffers.
#pragma once

#include <map>
#include <string>

#include "base/fd.h"
#include "daemon/objects/index_pool.h"
#include "daemon/objects/world.h"
#include "ipc/protocol.h"

namespace softib::daemon {

struct ProcessObject {
  u32 slot;
  u32 generation;
  u32 host;
  i32 pid;  // in softibd's pid namespace; 0 when it has none there
  std::string program;
  Fd memory;
  u64 bounce;
};

class Processes {
 public:
  explicit Processes(World& world);

  struct Newcomer {
    i32 pid;
    u32 host;
    Fd memory;
  };
  // EUSERS: all slots are taken. EINVAL: the descriptor is no memory file.
  Result<ProcessObject*> attach(Newcomer newcomer, const ipc::Attach::Request& request);

  [[nodiscard]] ProcessObject* find(u32 slot);
  [[nodiscard]] const std::map<u32, ProcessObject>& all() const { return processes_; }

  // The process has died: its memory goes back to the system at once, its slot stays until retire().
  void bury(u32 slot);
  // Nothing of the dead is held any more: the slot may be given to another, once nobody looks at it.
  void retire(u32 slot);

 private:
  World& world_;
  IndexPool slots_;
  std::map<u32, ProcessObject> processes_;
  std::map<u32, u64> bounce_of_dead_;
};

}  // namespace softib::daemon

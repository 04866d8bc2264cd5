// This process's place in a fabric: connection, segment, memory, engine. Made on the first RDMA call, never destroyed
// (other threads may be inside at exit), thrown away and made anew in the child of a fork.
#pragma once

#include <string>

#include "hca/engine.h"
#include "hca/memory.h"
#include "ipc/client.h"
#include "ipc/segment.h"

namespace softib::hca {

class Session {
 public:
  // The session of this process; made on first use from SOFTIB_FABRIC_DIR and SOFTIB_HOST.
  // ENODEV: no fabric named, or no daemon there; EPROTO: versions differ. The cause is told once on stderr.
  static Result<Session*> get();

  // The same, without making one: nullptr when there is none. Safe in any hook.
  static Session* current();

  // In the child of a fork: closes the parent's connection, stops nothing of the parent's; the next get() attaches.
  static void after_fork_in_child();

  [[nodiscard]] ipc::Segment& segment() const { return *segment_; }
  [[nodiscard]] int segment_fd() const { return segment_fd_.get(); }
  [[nodiscard]] ipc::Client& client() const { return *client_; }
  [[nodiscard]] Engine& engine() const { return *engine_; }
  [[nodiscard]] ProcessMemory& memory() const { return *memory_; }
  [[nodiscard]] u32 slot() const { return slot_; }
  [[nodiscard]] u32 host() const { return host_; }

 private:
  static Result<Session*> attach();

  ipc::Segment* segment_ = nullptr;
  Fd segment_fd_;
  std::unique_ptr<ipc::Client> client_;
  std::unique_ptr<ProcessMemory> memory_;
  std::unique_ptr<Engine> engine_;
  u32 slot_ = 0;
  u32 host_ = 0;
};

}  // namespace softib::hca

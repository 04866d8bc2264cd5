// What the handlers of one command file share: its context, the way to softibd, the tables in the segment.
#pragma once

#include <atomic>

#include "abi/rxe.h"
#include "kernel/control.h"
#include "kernel/fd_registry.h"
#include "kernel/regions.h"
#include "kernel/user_memory.h"

namespace softib::kernel {

class Interpreter {
 public:
  Interpreter(Control& control, FdRegistry& fds, UserMemory& memory, u32 context, u32 device, bool ready)
      : control_(control),
        fds_(fds),
        memory_(memory),
        context_(context),
        device_(device),
        ready_(ready),
        removals_(device_removals()) {}
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  int ioctl(u64 argument);
  ssize_t write(u64 buffer, size_t length);

  // True for the one call that turns a fresh command file into one with a context.
  bool claim_context() { return !ready_.exchange(true); }
  void unclaim_context() { ready_ = false; }
  [[nodiscard]] bool ready() const { return ready_; }

  template <typename Call>
  Result<typename Call::Reply> call(const typename Call::Request& request, Fd* received = nullptr) {
    return control_.call<Call>(context_, request, received);
  }
  // Takes back what a command made before it failed; there is nobody left to tell of a second failure.
  template <typename Call>
  void undo(const typename Call::Request& request) {
    (void)control_.call<Call>(context_, request);
  }

  // Records in the segment, when they exist and belong to this file's context; nullptr otherwise.
  [[nodiscard]] const ipc::Cq* find_cq(u32 id) const;
  [[nodiscard]] const ipc::Srq* find_srq(u32 id) const;
  [[nodiscard]] const ipc::Qp* find_qp(u32 id) const;
  [[nodiscard]] const ipc::Ah* find_ah(u32 id) const;
  [[nodiscard]] const ipc::Key* find_region(u32 id) const;
  [[nodiscard]] const ipc::Key* find_window(u32 id) const;
  // Whether an object of any kind exists. PDs have no record: softibd knows.
  [[nodiscard]] bool exists(ipc::ObjectKind kind, u32 id) const;
  // A port of this file's device; nullptr: no such port.
  [[nodiscard]] const ipc::Port* find_port(u64 number) const;
  [[nodiscard]] const ipc::Device& device() const;
  // The device was taken out since the file was opened: every command is EIO, though another of its kind may be there.
  [[nodiscard]] bool is_removed() const { return device_removals() != removals_; }

  // The index mask in the head of a new ring of `size` bytes. EIO: the head is not that of such a ring.
  [[nodiscard]] Result<u32> ring_mask(u64 ring, u32 size) const;

  [[nodiscard]] Control& control() { return control_; }
  [[nodiscard]] FdRegistry& fds() { return fds_; }
  [[nodiscard]] UserMemory& memory() { return memory_; }
  [[nodiscard]] u32 context() const { return context_; }
  [[nodiscard]] RegionRegistry& regions() { return regions_; }
  [[nodiscard]] PendingRings& rings() { return rings_; }
  void abandon() { (void)regions_.take_all(); }

 private:
  [[nodiscard]] ipc::Segment& segment() const { return control_.segment(); }
  [[nodiscard]] u32 device_removals() const { return device().removals.load(std::memory_order_acquire); }

  Control& control_;
  FdRegistry& fds_;
  UserMemory& memory_;
  u32 context_;
  u32 device_;
  std::atomic<bool> ready_;
  u32 removals_;
  RegionRegistry regions_;
  PendingRings rings_;
};

}  // namespace softib::kernel

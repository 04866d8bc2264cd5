// Contexts: what a program gets by opening a device, and what goes when the last copy of its command fd is closed.
#pragma once

#include <array>
#include <map>
#include <set>
#include <vector>

#include "base/fd.h"
#include "daemon/objects/world.h"
#include "ipc/protocol.h"

namespace softib::daemon {

inline constexpr size_t object_kinds = static_cast<size_t>(ipc::ObjectKind::channel) + 1;

struct ContextObject {
  u32 id = 0;
  u32 device = 0;
  u32 creator = 0;              // process slot
  u64 inode = 0;                // of the program's end of the command fd
  Fd command;                   // softibd's end: hangs up with the last copy of the program's
  std::vector<Fd> async_pipes;  // write ends; objects report to the first that is still read, ports to all
  std::array<std::set<u32>, object_kinds> objects;
  bool removed = false;  // its device has gone: it can but be closed

  [[nodiscard]] std::set<u32>& of(ipc::ObjectKind kind) { return objects[static_cast<size_t>(kind)]; }
  [[nodiscard]] const std::set<u32>& of(ipc::ObjectKind kind) const { return objects[static_cast<size_t>(kind)]; }
  [[nodiscard]] bool has(ipc::ObjectKind kind, u32 id_of_object) const { return of(kind).contains(id_of_object); }
};

class Contexts {
 public:
  explicit Contexts(World& world) : world_(world) {}

  struct Opened {
    ContextObject* context;
    Fd command;  // the program's end
  };
  Result<Opened> open(u32 device, u32 creator);

  [[nodiscard]] ContextObject* find(u32 id);
  [[nodiscard]] ContextObject* find_by_inode(u64 inode);
  [[nodiscard]] const std::map<u32, ContextObject>& all() const { return contexts_; }

  // The read end of a new async pipe.
  Result<Fd> add_async_pipe(ContextObject& context);

  // To the pipe that is still read; false: none, or full.
  bool report(ContextObject& context, const ipc::AsyncRecord& record);
  // To all pipes.
  void report_everywhere(ContextObject& context, const ipc::AsyncRecord& record);
  // The device has gone: a last event, and then the end of all pipes.
  void remove(ContextObject& context);
  // Takes back the unread events of an object that goes.
  void forget_events(ContextObject& context, ipc::ObjectKind kind, u32 object);

  void close(u32 id);

 private:
  World& world_;
  std::map<u32, ContextObject> contexts_;
  u32 last_id_ = 0;
};

}  // namespace softib::daemon

// Telling programs: completion events on their channels' pipes, async events through softibd.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "hca/engine/verbs.h"
#include "ipc/client.h"
#include "ipc/segment.h"

namespace softib::hca {

// Events that arise under a lock wait here until no lock is held: raising one is a call to softibd.
class EventQueue {
 public:
  explicit EventQueue(ipc::Client& client) : client_(client) {}

  void add(ipc::ObjectKind kind, u32 object, u32 generation, AsyncEvent event);
  [[nodiscard]] bool empty() const { return pending_count_.load(std::memory_order_relaxed) == 0; }
  void raise_all();

 private:
  ipc::Client& client_;
  std::mutex mutex_;
  std::vector<ipc::RaiseEvent::Request> pending_;
  std::atomic<u32> pending_count_{0};
};

// Messages that were refused for their keys: counted at the port that refused, and told to softibd.
class Violations {
 public:
  explicit Violations(ipc::Client& client) : client_(client) {}

  void note(ipc::KeyViolation kind, ipc::Port& at, const ipc::Qp& from, const ipc::Qp& to, u32 key);
  [[nodiscard]] bool empty() const { return !pending_.load(std::memory_order_relaxed); }
  void report();

 private:
  ipc::Client& client_;
  std::mutex mutex_;
  ipc::ReportViolation::Request latest_{};
  std::atomic<bool> pending_{false};
  std::atomic<u64> silent_until_{0};  // CLOCK_MONOTONIC ns
};

// Asks softibd where an address leads.
class Routes {
 public:
  explicit Routes(ipc::Client& client) : client_(client) {}
  [[nodiscard]] u32 find(ipc::ObjectKind kind, u32 object) {
    auto found = client_.call<ipc::FindRoute>(0, {kind, object});
    return found ? found->port : 0;
  }

 private:
  ipc::Client& client_;
};

// The write ends of completion channels, of this and of other processes, fetched from softibd at first use.
class Channels {
 public:
  explicit Channels(ipc::Client& client) : client_(client) {}

  // Writes the record of one completion event. A channel that has gone is nobody's loss.
  void notify(u32 channel, u32 channel_generation, const ipc::CompletionRecord& record);

 private:
  int find(u32 channel, u32 generation);

  ipc::Client& client_;
  std::mutex mutex_;
  struct Entry {
    u32 generation;
    Fd fd;
  };
  std::unordered_map<u32, Entry> open_;
};

}  // namespace softib::hca

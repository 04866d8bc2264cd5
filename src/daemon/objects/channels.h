// Completion channels: a pipe each. Data paths write completion records to it, the program reads them.
#pragma once

#include <unordered_map>

#include "base/fd.h"
#include "daemon/objects/world.h"
#include "ipc/protocol.h"

namespace softib::daemon {

struct ChannelObject {
  u32 context;
  u32 creator;
  u32 generation;
  u32 cqs = 0;
  bool unread = false;  // the program has closed its end: goes with its last CQ
  Fd write;
  // Held while CQs use the channel: a peer that fires an event at a program which has just closed its end, or died,
  // must not be killed by SIGPIPE.
  Fd read;
};

class Channels {
 public:
  explicit Channels(World& world) : world_(world) {}

  struct Created {
    u32 id;
    u32 generation;
    Fd read;
  };
  Result<Created> create(u32 context, u32 creator);

  [[nodiscard]] ChannelObject* find(u32 id);
  [[nodiscard]] const std::unordered_map<u32, ChannelObject>& all() const { return channels_; }

  void attach(u32 id);
  // The CQ's unread events are taken back. True: the channel went with it.
  bool detach(u32 id, u32 cq);
  // The last reader has gone. True: the channel went, too.
  bool reader_gone(u32 id);

  // On behalf of a data path that can't any more.
  void notify(u32 id, const ipc::CompletionRecord& record);

  void drop(u32 id);

 private:
  void close_reader_later(ChannelObject& channel);

  World& world_;
  std::unordered_map<u32, ChannelObject> channels_;
  u32 last_id_ = 0;
};

}  // namespace softib::daemon

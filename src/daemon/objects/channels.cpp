#include "daemon/objects/channels.h"

#include <memory>

#include "daemon/event_pipe.h"

namespace softib::daemon {

Result<Channels::Created> Channels::create(u32 context, u32 creator) {
  auto pipe = make_pipe();
  if (!pipe) return fail(pipe.error());
  do ++last_id_;
  while (last_id_ == 0 || channels_.contains(last_id_));
  u32 generation = world_.new_generation();
  ChannelObject channel{context, creator, generation, 0, false, std::move(pipe->write), {}};
  world_.watcher.watch_channel(last_id_, channel.write.get());
  channels_.emplace(last_id_, std::move(channel));
  return Created{last_id_, generation, std::move(pipe->read)};
}

ChannelObject* Channels::find(u32 id) {
  auto found = channels_.find(id);
  return found == channels_.end() ? nullptr : &found->second;
}

void Channels::attach(u32 id) {
  // A CQ has an event waiting for each time it was armed and fired; a program that reads none of them arms it
  // a few times at most.
  constexpr u64 events_per_cq = 8;
  ChannelObject& channel = channels_.at(id);
  if (channel.cqs++ == 0) channel.read = open_reader(channel.write);
  grow_pipe(channel.write, channel.cqs * events_per_cq * sizeof(ipc::CompletionRecord));
}

bool Channels::detach(u32 id, u32 cq) {
  ChannelObject* channel = find(id);
  if (!channel) return false;
  --channel->cqs;
  if (!channel->unread)
    drop_records<ipc::CompletionRecord>(channel->write,
                                        [cq](const ipc::CompletionRecord& record) { return record.cq == cq; });
  if (channel->cqs) return false;
  close_reader_later(*channel);
  if (!channel->unread) return false;
  drop(id);
  return true;
}

void Channels::close_reader_later(ChannelObject& channel) {
  if (channel.read) world_.limbo.add([read = std::make_shared<Fd>(std::move(channel.read))] { read->reset(); });
}

bool Channels::reader_gone(u32 id) {
  ChannelObject* channel = find(id);
  if (!channel) return false;
  channel->unread = true;
  if (channel->cqs) return false;
  drop(id);
  return true;
}

void Channels::notify(u32 id, const ipc::CompletionRecord& record) {
  if (ChannelObject* channel = find(id)) (void)write_record(channel->write, &record, sizeof record);
}

void Channels::drop(u32 id) {
  auto found = channels_.find(id);
  if (found == channels_.end()) return;
  // Data paths hold copies of the write end: closing ours alone does not end the watch.
  world_.watcher.forget(found->second.write.get());
  close_reader_later(found->second);
  channels_.erase(found);
}

}  // namespace softib::daemon

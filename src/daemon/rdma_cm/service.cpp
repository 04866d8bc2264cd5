// Files, ids and their events.
#include "daemon/rdma_cm/service.h"

#include <algorithm>
#include <cstring>

#include "daemon/populate.h"
#include "daemon/rdma_cm/host.h"

namespace softib::daemon {

namespace {

// Where a host begins to count its connections: each time elsewhere, since others remember those from before it died.
constexpr u32 first_connection(u32 host, u32 boot) { return ((host + 1) * 0x9e3779b1U + boot * 0x01000193U) | 1U; }

u32 take(std::set<u32>& free, u32& last) {
  if (free.empty()) return last++;
  const u32 handle = *free.begin();
  free.erase(free.begin());
  return handle;
}

}  // namespace

RdmaCm::RdmaCm(const fabric::Fabric& fabric, const ipc::Segment& segment, Outside& outside)
    : segment_(segment),
      outside_(outside),
      book_(fabric, segment),
      administration_(*this),
      subnets_(subnets_of_ports(fabric)) {}

RdmaCm::~RdmaCm() = default;

// -- what is where

RdmaCm::Host& RdmaCm::host(u32 index) {
  auto& found = hosts_[index];
  if (!found) found = std::make_unique<Host>(*this, index, first_connection(index, ++boots_));
  return *found;
}

const ipc::Port& RdmaCm::port(u32 index) const { return segment_.ports[index % ipc::max_ports]; }

u32 RdmaCm::host_of(u32 index) const { return segment_.devices[port(index).device % ipc::max_devices].host; }

bool RdmaCm::on_ethernet(u32 index) const { return port(index).link_layer == ipc::LinkLayer::ethernet; }

cm::Manager& RdmaCm::manager(const Id& id) { return host(id.host).manager; }

u16 RdmaCm::lid(u32 index) const { return port(index).lid; }
u16 RdmaCm::manager_lid(u32 index) const { return port(index).sm_lid; }
u8 RdmaCm::manager_sl(u32 index) const { return port(index).sm_sl; }

// -- files

u32 RdmaCm::open(u32 host_index) {
  files_.emplace(++last_file_, File{host_index, {}, {}});
  return last_file_;
}

void RdmaCm::close(u32 file, u64 now) {
  now_ = now;
  auto found = files_.find(file);
  if (found == files_.end()) return;
  while (!found->second.ids.empty()) destroy(*found->second.ids.begin(), now);
  files_.erase(found);
}

RdmaCm::Counts RdmaCm::counts() const {
  Counts counts{files_.size(), ids_.size(), 0, 0, 0, 0, multicasts_.size()};
  for (const auto& [handle, id] : ids_) counts.listening += id.state == IdState::listen;
  for (const auto& [number, file] : files_) counts.events += file.events.size();
  for (const auto& [index, host] : hosts_) {
    counts.connections += host->id_of_connection.size();
    counts.timewaits += host->manager.waiting();
  }
  return counts;
}

// -- ids

Id* RdmaCm::find(u32 handle) {
  auto found = ids_.find(handle);
  return found == ids_.end() ? nullptr : &found->second;
}

Result<Id*> RdmaCm::find(const Command& command, u32 handle) {
  Id* id = find(handle);
  if (!id) return fail(ENOENT);
  if (id->file != command.file) return fail(EINVAL);
  if (id->state == IdState::removed) return fail(EIO);
  return id;
}

Result<Id*> RdmaCm::find_with_device(const Command& command, u32 handle) {
  auto id = find(command, handle);
  if (id && (*id)->port == 0) return fail(EINVAL);
  return id;
}

Id* RdmaCm::add_id(u32 file) {
  const u32 handle = take(free_handles_, last_handle_);
  Id& id = ids_[handle];
  id.handle = handle;
  id.file = file;
  id.host = files_.at(file).host;
  psn_ = psn_ * 1664525U + 1013904223U;
  id.starting_psn = psn_ >> 8;
  files_.at(file).ids.insert(handle);
  return &id;
}

void RdmaCm::watch_connection(Id& id, u32 connection) {
  id.connection = connection;
  host(id.host).id_of_connection[connection] = id.handle;
}

void RdmaCm::destroy(u32 handle, u64 now) {
  Id* id = find(handle);
  if (!id) return;
  Host& at = host(id->host);
  set_timer(*id, 0);
  administration_.cancel(id->question);
  if (id->state == IdState::listen) stop_listening(*id, now);
  while (!id->multicasts.empty()) end_multicast(id->multicasts.back(), now);
  if (id->connection) {
    at.id_of_connection.erase(id->connection);
    at.manager.destroy(id->connection, now);
  }
  if (id->bound_port) at.spaces.release(id->bound_space, id->bound_port, handle);
  File& file = files_.at(id->file);
  drop_events(file, handle, now);
  if (id->uid == 0) drop_request(handle);
  file.ids.erase(handle);
  outside_.set_readable(id->file, !file.events.empty());
  ids_.erase(handle);
  free_handles_.insert(handle);
}

// Connections that were asked for and not yet seen go with their listener.
void RdmaCm::drop_events(File& file, u32 handle, u64 now) {
  std::vector<u32> unseen;
  std::erase_if(file.events, [&](const QueuedEvent& event) {
    if (event.id != handle) return false;
    if (event.response.event == static_cast<u32>(Event::connect_request)) unseen.push_back(event.fresh);
    return true;
  });
  for (u32 fresh : unseen) destroy(fresh, now);
}

// A listener that has moved took it along: its file may be another.
void RdmaCm::drop_request(u32 fresh) {
  for (auto& [number, file] : files_) {
    const size_t dropped = std::erase_if(file.events, [&](const QueuedEvent& event) {
      if (event.fresh != fresh || event.response.event != static_cast<u32>(Event::connect_request)) return false;
      ++ids_.at(event.id).backlog;
      return true;
    });
    if (dropped) outside_.set_readable(number, !file.events.empty());
  }
}

void RdmaCm::set_timer(Id& id, u64 at) {
  if (id.timer) timers_.erase({id.timer, id.handle});
  id.timer = at;
  if (at) timers_.emplace(at, id.handle);
}

// -- events

void RdmaCm::queue(Id& id, rdma_ucm_event_resp response, u32 multicast, u32 fresh) {
  File& file = files_.at(id.file);
  if (!multicast) {
    response.uid = id.uid;
    response.id = id.handle;
  }
  file.events.push_back({id.handle, multicast, fresh, response});
  outside_.set_readable(id.file, true);
}

void RdmaCm::tell(Id& id, Event event, int status) {
  if (id.uid == 0) return;  // the program doesn't know it yet; what it does next will fail
  rdma_ucm_event_resp response{};
  response.event = static_cast<u32>(event);
  response.status = static_cast<u32>(status);
  queue(id, response);
}

// -- time

bool RdmaCm::received(u32 index, const wire::Packet& packet, u64 now) {
  now_ = now;
  if (wire::class_of(packet.mad) == wire::MgmtClass::subn_adm) return administration_.received(packet);
  if (wire::class_of(packet.mad) != wire::MgmtClass::communication) return false;
  host(host_of(index)).manager.received(index, packet, on_ethernet(index), now);
  return true;
}

u64 RdmaCm::on_time(u64 now) {
  now_ = now;
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Id& id = ids_.at(timers_.begin()->second);
    set_timer(id, 0);
    if (id.state == IdState::address_query) {
      id.state = IdState::address_bound;
      tell(id, Event::address_error, -ETIMEDOUT);
    }
  }
  u64 next = administration_.on_time(now);
  for (auto& [index, host] : hosts_) next = std::min(next, host->manager.on_time(now));
  return timers_.empty() ? next : std::min(next, timers_.begin()->first);
}

// New connections that the program hasn't named yet have nobody to be told.
void RdmaCm::tell_removal(Id& id) {
  if (id.uid) tell(id, Event::device_removal);
  id.state = IdState::removed;
}

// Its timers and questions; nobody answers them any more.
void RdmaCm::forget_doings(Id& id) {
  set_timer(id, 0);
  administration_.cancel(id.question);
  id.question = 0;
  for (u32 multicast : id.multicasts) {
    administration_.cancel(multicasts_.at(multicast).question);
    multicasts_.at(multicast).joined = false;
  }
}

void RdmaCm::host_down(u32 index) {
  hosts_.erase(index);
  std::vector<u32> gone;
  for (auto& [handle, id] : ids_) {
    if (id.host != index) continue;
    id.connection = 0;
    id.bound_port = 0;
    forget_doings(id);
    if (id.port && id.state != IdState::removed) gone.push_back(handle);
  }
  std::erase_if(groups_, [&](const auto& group) { return host_of(group.first.first) == index; });
  for (u32 handle : gone) tell_removal(ids_.at(handle));
}

// Those that listen at all addresses stay.
void RdmaCm::device_down(u32 first_port, u32 port_count, u64 now) {
  now_ = now;
  const auto is_gone = [&](u32 port) { return port >= first_port && port - first_port < port_count; };
  std::vector<u32> gone;
  for (const auto& [handle, id] : ids_)
    if (is_gone(id.port) && id.state != IdState::removed) gone.push_back(handle);
  std::erase_if(groups_, [&](const auto& group) { return is_gone(group.first.first); });
  for (u32 handle : gone) {
    Id* id = find(handle);
    if (!id) continue;
    forget_doings(*id);
    if (id->state == IdState::listen) stop_listening(*id, now);
    if (id->connection) {
      Host& at = host(id->host);
      at.id_of_connection.erase(id->connection);
      at.manager.destroy(id->connection, now);
      id->connection = 0;
    }
    if (id->bound_port) host(id->host).spaces.release(id->bound_space, id->bound_port, handle);
    id->bound_port = 0;
    tell_removal(*id);
  }
}

}  // namespace softib::daemon

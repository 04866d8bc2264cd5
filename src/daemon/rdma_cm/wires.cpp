#include "daemon/rdma_cm/wires.h"

#include <cstring>

#include "daemon/event_pipe.h"

namespace softib::daemon {

namespace {

// The port of an Ethernet that has a GID; 0: none.
u32 port_with_gid(const ipc::Segment& segment, const wire::GidBytes& gid) {
  for (u32 index = 1; index <= segment.header.port_count && index < ipc::max_ports; ++index) {
    const ipc::Port& port = segment.ports[index];
    for (u32 i = 0; i < std::min<u32>(port.gid_count, ipc::max_gids_per_port); ++i)
      if (std::memcmp(port.gids[i].raw, gid.data(), gid.size()) == 0) return index;
  }
  return 0;
}

bool is_active(const ipc::Port& port) { return port.state == ipc::PortState::active; }

}  // namespace

RdmaCmWires::RdmaCmWires(const fabric::Fabric& fabric, const ipc::Segment& segment, Watcher& watcher, Plane* plane)
    : segment_(segment), watcher_(watcher), plane_(plane), service_(fabric, segment, *this) {
  if (plane_) plane_->serve(this);
}

// -- files

Result<RdmaCmWires::Opened> RdmaCmWires::open(u32 host) {
  auto pipe = make_pipe();
  if (!pipe) return fail(pipe.error());
  const u32 file = service_.open(host);
  watcher_.watch_rdma_cm(file, pipe->write.get());
  pipes_[file].write = std::move(pipe->write);
  return Opened{file, std::move(pipe->read)};
}

void RdmaCmWires::unread(u32 file, u64 now) {
  auto found = pipes_.find(file);
  if (found == pipes_.end()) return;
  touched_ = true;
  service_.close(file, now);
  watcher_.forget(found->second.write.get());
  pipes_.erase(found);
  send_what_waits(now);
}

// One byte lies in the pipe as long as there is something to read. It is taken out again by a reader of our own.
void RdmaCmWires::set_readable(u32 file, bool readable) {
  auto found = pipes_.find(file);
  if (found == pipes_.end() || found->second.readable == readable) return;
  found->second.readable = readable;
  if (readable)
    static_cast<void>(write_record(found->second.write, "", 1));
  else
    static_cast<void>(detail::take_all(found->second.write));
}

Result<u32> RdmaCmWires::carry_out(const RdmaCm::Command& command) {
  touched_ = true;  // it may set a timer
  auto done = service_.carry_out(command);
  send_what_waits(command.now);
  return done;
}

void RdmaCmWires::device_down(u32 first_port, u32 port_count, u64 now) {
  service_.device_down(first_port, port_count, now);
  send_what_waits(now);
}

u64 RdmaCmWires::advance(u64 now) {
  u64 next = service_.on_time(now);
  while (!waiting_.empty()) {
    send_what_waits(now);
    next = service_.on_time(now);
  }
  touched_ = false;
  return next;
}

// -- packets

void RdmaCmWires::send(u32 port, const wire::Packet& packet) {
  waiting_.push_back({port, packet});
  touched_ = true;
}

bool RdmaCmWires::received(u32 port, const wire::Packet& packet, u64 now) {
  touched_ = true;  // it may have set a timer
  return service_.received(port, packet, now);
}

void RdmaCmWires::send_what_waits(u64 now) {
  if (sending_) return;
  sending_ = true;
  while (!waiting_.empty()) {
    const Sent sent = waiting_.front();
    waiting_.pop_front();
    if (plane_)
      plane_->send_general(sent.port, sent.packet, now);
    else
      carry_over_ethernet(sent, now);
  }
  sending_ = false;
}

void RdmaCmWires::carry_over_ethernet(const Sent& sent, u64 now) {
  if (!sent.packet.global) return;
  const u32 end = port_with_gid(segment_, sent.packet.global->destination);
  if (!end || !is_active(segment_.ports[sent.port]) || !is_active(segment_.ports[end])) return;
  service_.received(end, sent.packet, now);
}

}  // namespace softib::daemon

#include "daemon/control.h"

#include <spdlog/spdlog.h>

#include <cstring>

#include "daemon/populate.h"
#include "hca/engine/verbs.h"
#include "ipc/client.h"

namespace softib::daemon {

namespace {

// Releases that have piled up are worth a look at the lanes.
constexpr size_t limbo_batch = 64;

}  // namespace

Result<std::unique_ptr<Control>> Control::create(fabric::Fabric fabric, Watcher& watcher) {
  auto file = SegmentFile::create();
  if (!file) return fail(file.error());
  ipc::Segment& segment = (*file)->segment();
  if (auto filled = populate(segment, fabric); !filled) return fail(filled.error());
  segment.header.daemon_alive.store(1, std::memory_order_release);
  return std::unique_ptr<Control>(new Control(std::move(fabric), std::move(*file), watcher));
}

Control::Control(fabric::Fabric fabric, std::unique_ptr<SegmentFile> file, Watcher& watcher)
    : fabric_(std::move(fabric)),
      file_(std::move(file)),
      arena_(ipc::arena_size, [this](u64 offset, u64 bytes) { file_->punch_arena(offset, bytes); }),
      limbo_(file_->segment()),
      routes_(file_->segment(), subnets_of_ports(fabric_)),
      world_{file_->segment(), arena_, limbo_, routes_, watcher},
      contexts_(world_),
      processes_(world_),
      channels_(world_),
      keys_(world_, pds_),
      cqs_(world_, channels_),
      srqs_(world_, pds_),
      groups_(world_),
      resolver_(world_, groups_),
      ahs_(world_, pds_, groups_, resolver_),
      qps_({world_, pds_, keys_, cqs_, srqs_, groups_, resolver_}),
      trees_(fabric_, file_->segment()) {
  if (fabric_.link_layer == ipc::LinkLayer::infiniband)
    plane_ = std::make_unique<Plane>(fabric_, file_->segment(), watcher);
  if (plane_) faults_ = std::make_unique<Faults>(fabric_, *plane_);
  wires_ = std::make_unique<RdmaCmWires>(fabric_, file_->segment(), watcher, plane_.get());
  routes_.follow(plane_.get());
}

Control::~Control() { segment().header.daemon_alive.store(0, std::memory_order_release); }

u32 Control::connect(i32 pid) {
  u32 id = ++last_peer_;
  peers_[id].pid = pid;
  return id;
}

void Control::disconnect(u32 peer) {
  auto found = peers_.find(peer);
  if (found == peers_.end()) return;
  u32 slot = found->second.slot;
  peers_.erase(found);
  if (!slot) return;
  if (const ProcessObject* process = processes_.find(slot))
    spdlog::info("process {} ({}) in slot {} is gone", process->pid, process->program, slot);
  processes_.bury(slot);
  qps_.abandon_all_of(slot);
  keys_.disable_all_of(slot);
  dying_.push_back(slot);
  repair_the_dead();
}

void Control::repair_the_dead() {
  std::erase_if(dying_, [this](u32 slot) {
    if (!hca::repair_after_death(segment(), slot, *this)) return false;
    processes_.retire(slot);
    return true;
  });
}

bool Control::tick() {
  if (!dying_.empty()) repair_the_dead();
  limbo_.poll();
  if (plane_) plane_->flush();
  return has_deferred();
}

void Control::context_closed(u32 id) {
  ContextObject* context = contexts_.find(id);
  if (!context) return;
  destroy_objects(*context);
  contexts_.close(id);
}

void Control::channel_unread(u32 id) {
  const ChannelObject* channel = channels_.find(id);
  if (!channel) return;
  u32 context = channel->context;
  if (!channels_.reader_gone(id)) return;
  if (ContextObject* owner = contexts_.find(context)) owner->of(ipc::ObjectKind::channel).erase(id);
}

// Users before what they use.
void Control::destroy_objects(ContextObject& context) {
  using Kind = ipc::ObjectKind;
  for (u32 qpn : context.of(Kind::qp)) qps_.drop(context, qpn);
  for (u32 ah : context.of(Kind::ah)) ahs_.drop(ah);
  for (u32 mw : context.of(Kind::mw)) keys_.drop(mw);
  for (u32 mr : context.of(Kind::mr)) keys_.drop(mr);
  for (u32 srq : context.of(Kind::srq)) srqs_.drop(srq);
  for (u32 cq : context.of(Kind::cq)) cqs_.drop(cq);
  for (u32 channel : context.of(Kind::channel)) channels_.drop(channel);
  for (u32 pd : context.of(Kind::pd)) pds_.drop(pd);
}

void Control::completion_event(u32 index) {
  const ipc::Cq& cq = segment().cqs[index];
  if (const CqObject* object = cqs_.find(index); object && object->channel)
    channels_.notify(object->channel, {cq.user_handle, index, cq.generation.load()});
}

void Control::cq_overrun(u32 index) {
  auto target = find_event_target(ipc::ObjectKind::cq, index);
  if (!target) return;
  if (ContextObject* context = contexts_.find(target->context))
    contexts_.report(*context, {target->user_handle, static_cast<u32>(hca::AsyncEvent::cq_err), ipc::ObjectKind::cq,
                                index, target->generation});
}

Reply Control::handle(u32 peer, std::span<const u8> message, Fd descriptor) {
  Reply reply;
  auto found = peers_.find(peer);
  Result<u32> size =
      found == peers_.end() ? fail(ENOTCONN) : dispatch(found->second, message, std::move(descriptor), reply.fd);
  if (limbo_.size() >= limbo_batch) limbo_.poll();
  if (!size) {
    reply.header.error = to_int(size.error());
    reply.fd.reset();
    return reply;
  }
  reply.body = {reply_.data(), *size};
  return reply;
}

// -- the table of operations

enum class Needs : u8 { nothing, attachment, process, context };

struct Control::Row {
  ipc::Op op;
  Needs needs;
  Result<u32> (*call)(Control&, Caller&, std::span<const u8> body);
};

struct Rows {
  template <typename Call, auto method>
  static Result<u32> call(Control& control, Control::Caller& caller, std::span<const u8> body) {
    typename Call::Request request{};
    constexpr u32 size = ipc::payload_size<typename Call::Request>;
    if (body.size() != size) return fail(EINVAL);
    if constexpr (size > 0) std::memcpy(&request, body.data(), size);
    auto result = (control.*method)(caller, request);
    if (!result) return fail(result.error());
    constexpr u32 reply_size = ipc::payload_size<typename Call::Reply>;
    static_assert(sizeof(ipc::ReplyHeader) + reply_size <= ipc::max_message);
    if constexpr (reply_size > 0) std::memcpy(control.reply_.data(), &*result, reply_size);
    return reply_size;
  }

  template <typename Call, auto method>
  static constexpr Control::Row row(Needs needs) {
    return {Call::op, needs, call<Call, method>};
  }

  static const Control::Row* find(ipc::Op op);
};

const Control::Row* Rows::find(ipc::Op op) {
  using enum Needs;
  static constexpr std::array table{
      row<ipc::Attach, &Control::attach>(nothing),
      row<ipc::OpenContext, &Control::open_context>(process),
      row<ipc::ImportContext, &Control::import_context>(process),
      row<ipc::AllocAsyncFd, &Control::alloc_async_fd>(context),
      row<ipc::AllocPd, &Control::alloc_pd>(context),
      row<ipc::DeallocPd, &Control::dealloc_pd>(context),
      row<ipc::RegMr, &Control::reg_mr>(context),
      row<ipc::ReregMr, &Control::rereg_mr>(context),
      row<ipc::DeregMr, &Control::dereg_mr>(context),
      row<ipc::AllocMw, &Control::alloc_mw>(context),
      row<ipc::DeallocMw, &Control::dealloc_mw>(context),
      row<ipc::CreateChannel, &Control::create_channel>(context),
      row<ipc::CreateCq, &Control::create_cq>(context),
      row<ipc::ResizeCq, &Control::resize_cq>(context),
      row<ipc::DestroyCq, &Control::destroy_cq>(context),
      row<ipc::CreateSrq, &Control::create_srq>(context),
      row<ipc::ModifySrq, &Control::modify_srq>(context),
      row<ipc::QuerySrq, &Control::query_srq>(context),
      row<ipc::DestroySrq, &Control::destroy_srq>(context),
      row<ipc::CreateQp, &Control::create_qp>(context),
      row<ipc::ModifyQp, &Control::modify_qp>(context),
      row<ipc::QueryQp, &Control::query_qp>(context),
      row<ipc::DestroyQp, &Control::destroy_qp>(context),
      row<ipc::CreateAh, &Control::create_ah>(context),
      row<ipc::DestroyAh, &Control::destroy_ah>(context),
      row<ipc::AttachMulticast, &Control::attach_multicast>(context),
      row<ipc::DetachMulticast, &Control::detach_multicast>(context),
      row<ipc::FreeRing, &Control::free_ring>(context),
      row<ipc::ChannelFd, &Control::channel_fd>(process),
      row<ipc::MemoryFd, &Control::memory_fd>(process),
      row<ipc::RaiseEvent, &Control::raise_event>(process),
      row<ipc::Status, &Control::status>(attachment),
      row<ipc::ListHandles, &Control::list_handles>(context),
      row<ipc::FindRoute, &Control::find_route>(process),
      row<ipc::ReportViolation, &Control::report_violation>(process),
      row<ipc::OpenUmad, &Control::open_umad>(process),
      row<ipc::UmadRegister, &Control::umad_register>(process),
      row<ipc::UmadUnregister, &Control::umad_unregister>(process),
      row<ipc::Fault, &Control::fault>(attachment),
      row<ipc::PrepareHost, &Control::prepare_host>(nothing),
      row<ipc::ReadCounter, &Control::read_counter>(nothing),
      row<ipc::OpenRdmaCm, &Control::open_rdma_cm>(process),
      row<ipc::RdmaCmCommand, &Control::rdma_cm_command>(process),
      row<ipc::SetAddresses, &Control::set_addresses>(attachment),
      row<ipc::MachineSocket, &Control::machine_socket>(nothing),
  };
  for (const Control::Row& candidate : table)
    if (candidate.op == op) return &candidate;
  return nullptr;
}

Result<u32> Control::dispatch(Peer& peer, std::span<const u8> message, Fd descriptor, Fd& given) {
  ipc::RequestHeader header;
  if (message.size() < sizeof header) return fail(EINVAL);
  std::memcpy(&header, message.data(), sizeof header);
  const Row* row = Rows::find(header.op);
  if (!row) return fail(ENOSYS);
  if (row->needs >= Needs::attachment && !peer.attached()) return fail(ENOTCONN);
  if (row->needs >= Needs::process && !peer.slot) return fail(EPERM);
  Caller caller{peer, nullptr, std::move(descriptor), {}};
  if (row->needs == Needs::context) {
    caller.context = contexts_.find(header.context);
    if (!caller.context) return fail(EBADF);
    if (caller.context->removed) return fail(EIO);
  }
  auto body = message.subspan(sizeof header);
  // A shim of another version sends another size: it must hear so, and not "invalid argument".
  if (header.op == ipc::Op::attach && body.size() != sizeof(ipc::Attach::Request)) return fail(EPROTO);
  auto size = row->call(*this, caller, body);
  given = std::move(caller.given);
  return size;
}

}  // namespace softib::daemon

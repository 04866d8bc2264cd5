// softibd as the command interpreter sees it: answers calls, keeps records in the segment. It checks as much as makes
// a difference to the interpreter (handles, use), not the device model.
#pragma once

#include <fcntl.h>

#include <functional>
#include <map>
#include <set>

#include "abi/rxe.h"
#include "fake_parts.h"
#include "fake_segment.h"

namespace softib::kernel::testing {

class FakeDaemon final : public Control {
 public:
  static constexpr u32 context_id = 7;
  static constexpr u32 device_index = 1;

  FakeDaemon() : fake_engine(*segment_) {
    describe_device();
    answer_contexts();
    answer_memory();
    answer_queues();
    answer_qps();
    answer_rest();
  }

  ipc::Segment& segment() override { return *segment_; }
  hca::Engine& engine() override { return fake_engine; }
  hca::ProcessMemory& memory() override { return fake_memory; }
  Result<void> exchange(ipc::Op op, u32 context, const void* request, u32, void* reply, u32, Fd* received) override {
    calls.push_back(op);
    if (context != context_id) return fail(EINVAL);
    if (auto failing = failures.find(op); failing != failures.end()) return fail(failing->second);
    auto answer = answers_.find(op);
    if (answer == answers_.end()) return fail(ENOSYS);
    if (received && hands_out_fds) *received = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return answer->second(request, reply);
  }

  [[nodiscard]] size_t count(ipc::Op op) const {
    return static_cast<size_t>(std::count(calls.begin(), calls.end(), op));
  }

  FakeSegment segment_;
  FakeEngine fake_engine;
  FakeProcessMemory fake_memory;
  std::vector<ipc::Op> calls;
  std::map<ipc::Op, int> failures;  // calls that fail, and how
  std::set<u32> pds;
  std::set<u64> live_rings;
  ipc::RegMr::Request last_region{};
  ipc::CreateQp::Request last_qp{};
  ipc::CreateCq::Request last_cq{};
  ipc::QpAttributes last_attributes{};
  ipc::AddressVector last_av{};
  ipc::ReregMr::Request last_rereg{};
  bool hands_out_fds = true;

 private:
  template <typename Call>
  using Reply = typename Call::Reply;

  // F: (const Request&, Reply&) -> Result<void>
  template <typename Call, typename F>
  void on(F answer) {
    answers_[Call::op] = [answer](const void* request, void* reply) -> Result<void> {
      typename Call::Request copy{};
      if constexpr (ipc::payload_size < typename Call::Request >> 0) std::memcpy(&copy, request, sizeof copy);
      typename Call::Reply result{};
      auto done = answer(copy, result);
      if constexpr (ipc::payload_size < typename Call::Reply >> 0) {
        if (done) std::memcpy(reply, &result, sizeof result);
      }
      return done;
    };
  }

  void describe_device() {
    ipc::Device& device = segment_->devices[device_index];
    device.first_port = 1;
    device.port_count = 1;
    device.node_guid = 0x5254'00ff'fe00'0001;
    device.system_guid = device.node_guid;
    device.vendor_id = 0x02c9;
    ipc::Port& port = segment_->ports[1];
    port.number = 1;
    port.state = ipc::PortState::active;
    port.link_layer = ipc::LinkLayer::infiniband;
    port.lid = 5;
    port.active_mtu = 5;
    port.max_mtu = 5;
    port.active_speed = 256;
    port.pkey_count = 1;
    port.pkeys[0] = 0xffff;
    port.gid_count = 3;  // the last one empty
    port.gids[0].raw[0] = 0xfe;
    port.gids[1].raw[0] = 0xfd;
    port.gid_types[1] = ipc::GidType::roce_v2;
  }

  u64 new_ring(u32 entries, u8 log2_size, u32* size) {
    u32 slots = std::bit_ceil(entries + 1);
    u64 bytes = abi::ring_head_size + (u64{slots} << log2_size);
    u64 offset = next_ring_;
    *size = static_cast<u32>((bytes + ipc::page_size - 1) & ~(ipc::page_size - 1));
    next_ring_ += *size;
    auto* head = reinterpret_cast<rxe_queue_buf*>(segment_->arena + offset);
    head->log2_elem_size = log2_size;
    head->index_mask = slots - 1;
    live_rings.insert(offset);
    return offset;
  }

  void answer_contexts() {
    on<ipc::AllocAsyncFd>([](auto&, auto&) -> Result<void> { return {}; });
    on<ipc::CreateChannel>([](auto&, auto& reply) -> Result<void> {
      reply = {31, 3};
      return {};
    });
    on<ipc::ListHandles>([this](const auto& request, auto& reply) -> Result<void> {
      if (request.kind != ipc::ObjectKind::pd) return {};
      for (u32 pd : pds) reply.handles[reply.count++] = pd;
      reply.total = reply.count;
      return {};
    });
    on<ipc::AllocPd>([this](auto&, auto& reply) -> Result<void> {
      reply.pd = next_pd_++;
      pds.insert(reply.pd);
      return {};
    });
    on<ipc::DeallocPd>([this](const auto& request, auto&) -> Result<void> {
      return pds.erase(request.pd) ? Result<void>{} : fail(EINVAL);
    });
  }

  ipc::Key* live_key(u32 id) {
    if (id == 0 || id >= ipc::max_keys) return nullptr;
    ipc::Key& key = segment_->keys[id];
    return key.kind != ipc::KeyKind::none && key.context == context_id ? &key : nullptr;
  }

  u32 new_key(ipc::KeyKind kind, u32 pd) {
    u32 id = next_key_++;
    ipc::Key& key = segment_->keys[id];
    key.kind = kind;
    key.pd = pd;
    key.context = context_id;
    key.key = id << 8 | 0x42;
    return id;
  }

  void fill_key(u32 id, const ipc::RegMr::Request& from) {
    ipc::Key& key = segment_->keys[id];
    key.access = from.access;
    key.iova = from.iova;
    key.address = from.address;
    key.length = from.length;
    key.shared_begin = from.shared_begin;
    key.shared_end = from.shared_end;
  }

  void answer_memory() {
    on<ipc::RegMr>([this](const auto& request, auto& reply) -> Result<void> {
      last_region = request;
      if (!pds.count(request.pd)) return fail(EINVAL);
      u32 id = new_key(ipc::KeyKind::region, request.pd);
      fill_key(id, request);
      reply = {id, segment_->keys[id].key, segment_->keys[id].key, 0};
      return {};
    });
    on<ipc::ReregMr>([this](const auto& request, auto& reply) -> Result<void> {
      last_rereg = request;
      ipc::Key* key = live_key(request.mr);
      if (!key) return fail(EINVAL);
      if (request.flags & 1U) fill_key(request.mr, request.to);
      if (request.flags & 4U) key->access = request.to.access;
      key->key = key->key + 1;
      reply = {key->key, key->key};
      return {};
    });
    auto end_key = [this](u32 id) -> Result<void> {
      ipc::Key* key = live_key(id);
      if (!key) return fail(EINVAL);
      key->kind = ipc::KeyKind::none;
      key->key = 0;
      return {};
    };
    on<ipc::DeregMr>([end_key](const auto& request, auto&) { return end_key(request.mr); });
    on<ipc::DeallocMw>([end_key](const auto& request, auto&) { return end_key(request.mw); });
    on<ipc::AllocMw>([this](const auto& request, auto& reply) -> Result<void> {
      if (!pds.count(request.pd)) return fail(EINVAL);
      u32 id = new_key(request.type == 1 ? ipc::KeyKind::window1 : ipc::KeyKind::window2, request.pd);
      reply = {id, segment_->keys[id].key};
      return {};
    });
  }

  void answer_queues() {
    on<ipc::CreateCq>([this](const auto& request, auto& reply) -> Result<void> {
      last_cq = request;
      if (request.entries == 0 || request.entries > 4096) return fail(EINVAL);
      u32 id = next_cq_++;
      ipc::Cq& cq = segment_->cqs[id];
      reply.ring = new_ring(request.entries, 6, &reply.ring_size);
      cq.context = context_id;
      cq.ring = reply.ring;
      cq.mask = std::bit_ceil(request.entries + 1) - 1;
      cq.generation = 1;
      reply.cq = id;
      reply.entries = cq.mask;
      return {};
    });
    on<ipc::ResizeCq>([this](const auto& request, auto& reply) -> Result<void> {
      if (request.entries == 0 || request.entries > 4096) return fail(EINVAL);
      reply.ring = new_ring(request.entries, 6, &reply.ring_size);
      reply.entries = std::bit_ceil(request.entries + 1) - 1;
      return {};
    });
    on<ipc::FreeRing>([this](const auto& request, auto&) -> Result<void> {
      return live_rings.erase(request.ring) ? Result<void>{} : fail(EINVAL);
    });
    on<ipc::DestroyCq>([this](const auto& request, auto& reply) -> Result<void> {
      ipc::Cq& cq = segment_->cqs[request.cq];
      live_rings.erase(cq.ring);
      cq.generation = 0;
      reply = {11, 12};
      return {};
    });
    on<ipc::CreateSrq>([this](const auto& request, auto& reply) -> Result<void> {
      if (!pds.count(request.pd) || request.max_wr == 0 || request.max_wr > 4096) return fail(EINVAL);
      u32 id = next_srq_++;
      ipc::Srq& srq = segment_->srqs[id];
      reply = {id, request.max_wr, request.max_sge, 0, 0};
      reply.ring = new_ring(request.max_wr, 7, &reply.ring_size);
      srq.context = context_id;
      srq.ring = reply.ring;
      srq.generation = 1;
      return {};
    });
    on<ipc::ModifySrq>([this](const auto& request, auto& reply) -> Result<void> {
      if (request.max_wr > 4096) return fail(EINVAL);
      if (request.mask & 1U) reply.ring = new_ring(request.max_wr, 7, &reply.ring_size);
      return {};
    });
    on<ipc::QuerySrq>([](auto&, auto& reply) -> Result<void> {
      reply = {100, 3, 9};
      return {};
    });
    on<ipc::DestroySrq>([this](const auto& request, auto& reply) -> Result<void> {
      live_rings.erase(segment_->srqs[request.srq].ring);
      segment_->srqs[request.srq].generation = 0;
      reply = {13};
      return {};
    });
  }

  void answer_qps() {
    on<ipc::CreateQp>([this](const auto& request, auto& reply) -> Result<void> {
      last_qp = request;
      if (!pds.count(request.pd) || request.caps.max_send_wr > 4096 || request.caps.max_recv_wr > 4096)
        return fail(EINVAL);
      u32 qpn = next_qp_++;
      ipc::Qp& qp = segment_->qps[qpn];
      reply.qpn = qpn;
      reply.caps = request.caps;
      reply.sq_ring = new_ring(request.caps.max_send_wr, 9, &reply.sq_ring_size);
      if (!request.srq) reply.rq_ring = new_ring(request.caps.max_recv_wr, 7, &reply.rq_ring_size);
      qp.context = context_id;
      qp.sq_ring = reply.sq_ring;
      qp.rq_ring = reply.rq_ring;
      qp.state = ipc::QpState::reset;
      qp.generation = 1;
      return {};
    });
    on<ipc::ModifyQp>([this](const auto& request, auto& reply) -> Result<void> {
      last_attributes = request.attributes;
      ipc::Qp& qp = segment_->qps[request.qpn];
      if (request.attributes.mask & 1U) qp.state = static_cast<ipc::QpState>(request.attributes.qp_state);
      if (request.attributes.mask & (1U << 5)) qp.port = request.attributes.port_num;
      reply.state = qp.state;
      return {};
    });
    on<ipc::QueryQp>([this](const auto& request, auto& reply) -> Result<void> {
      if (request.qpn >= ipc::max_qps || segment_->qps[request.qpn].generation == 0) return fail(EINVAL);
      reply.attributes = last_attributes;
      reply.attributes.qp_state = static_cast<u32>(segment_->qps[request.qpn].state.load());
      reply.sq_sig_all = 1;
      return {};
    });
    on<ipc::DestroyQp>([this](const auto& request, auto& reply) -> Result<void> {
      ipc::Qp& qp = segment_->qps[request.qpn];
      live_rings.erase(qp.sq_ring);
      live_rings.erase(qp.rq_ring);
      qp.generation = 0;
      reply = {14};
      return {};
    });
  }

  void answer_rest() {
    on<ipc::CreateAh>([this](const auto& request, auto& reply) -> Result<void> {
      last_av = request.av;
      if (!pds.count(request.pd)) return fail(EINVAL);
      u32 id = next_ah_++;
      segment_->ahs[id].context = context_id;
      segment_->ahs[id].generation = 1;
      reply.ah = id;
      return {};
    });
    on<ipc::DestroyAh>([this](const auto& request, auto&) -> Result<void> {
      if (request.ah >= ipc::max_ahs || segment_->ahs[request.ah].generation == 0) return fail(EINVAL);
      segment_->ahs[request.ah].generation = 0;
      return {};
    });
    on<ipc::AttachMulticast>([](auto&, auto&) -> Result<void> { return {}; });
    on<ipc::DetachMulticast>([](auto&, auto&) -> Result<void> { return fail(EINVAL); });
  }

  std::map<ipc::Op, std::function<Result<void>(const void*, void*)>> answers_;
  u64 next_ring_ = ipc::page_size;
  u32 next_pd_ = 1;
  u32 next_key_ = 1;
  u32 next_cq_ = 1;
  u32 next_srq_ = 1;
  u32 next_qp_ = 17;
  u32 next_ah_ = 1;
};

}  // namespace softib::kernel::testing

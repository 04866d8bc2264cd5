// Making and destroying objects.
#include "device.h"

#include "sa_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace conformance {
namespace {

void* pointer(u64 address) { return reinterpret_cast<void*>(address); }

ibv_context* open_named(const std::string& name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) throw std::runtime_error("ibv_get_device_list failed");
  ibv_context* context = nullptr;
  for (int i = 0; i < count && context == nullptr; ++i) {
    if (name.empty() || name == ibv_get_device_name(list[i])) context = ibv_open_device(list[i]);
  }
  ibv_free_device_list(list);
  if (context == nullptr) throw std::runtime_error("no RDMA device " + (name.empty() ? "at all" : name));
  return context;
}

bool empty(const ibv_gid& gid) { return gid.global.interface_id == 0 && gid.global.subnet_prefix == 0; }

// The first RoCE v2 entry on Ethernet; entry 0 elsewhere.
int choose_gid(ibv_context* context, u8 port, const ibv_port_attr& attr) {
  if (attr.link_layer != IBV_LINK_LAYER_ETHERNET) return 0;
  for (int i = 0; i < attr.gid_tbl_len; ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(context, port, static_cast<u32>(i), &entry, 0) != 0) continue;
    if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !empty(entry.gid)) return i;
  }
  throw std::runtime_error("the port has no RoCE v2 GID");
}

}  // namespace

Device::Device(const std::string& name, int port, int gid_index)
    : context_(open_named(name)), port_(static_cast<u8>(port)) {
  ibv_port_attr attr{};
  if (const int error = ibv_query_port(context_, port_, &attr)) {
    throw std::runtime_error("ibv_query_port: " + std::string(std::strerror(error)));
  }
  gid_index_ = static_cast<u8>(gid_index >= 0 ? gid_index : choose_gid(context_, port_, attr));
}

Device::~Device() {
  reset();
  ibv_close_device(context_);
}

template <typename T>
Id Device::add(Table<T>& table, T* object) {
  table[next_] = object;
  return next_++;
}

template <typename T, typename Destroy>
int Device::remove(Table<T>& table, Id id, Destroy destroy) {
  const auto found = table.find(id);
  if (found == table.end()) return ENOENT;
  const int error = destroy(found->second);
  if (error == 0) table.erase(found);
  return error;
}

template <typename T, typename Destroy>
void Device::clear(Table<T>& table, Destroy destroy, int* first_error) {
  for (auto& [id, object] : table) {
    const int error = destroy(object);
    if (error != 0 && *first_error == 0) *first_error = error;
  }
  table.clear();
}

Info Device::info() {
  Info info{};
  info.port_num = port_;
  info.gid_index = gid_index_;
  info.pid = getpid();
  ibv_query_port(context_, port_, &info.port);
  ibv_query_device(context_, &info.device);
  ibv_query_gid(context_, port_, gid_index_, &info.gid);
  info.ethernet = info.port.link_layer == IBV_LINK_LAYER_ETHERNET;
  const u16 room = sizeof info.pkeys / sizeof info.pkeys[0];
  info.pkey_count = info.port.pkey_tbl_len < room ? info.port.pkey_tbl_len : room;
  for (u16 i = 0; i < info.pkey_count; ++i) {
    __be16 pkey = 0;
    if (ibv_query_pkey(context_, port_, i, &pkey) == 0) info.pkeys[i] = be16toh(pkey);
  }
  return info;
}

int Device::reset() {
  int error = 0;
  for (auto& thread : hammers_) thread.join();
  hammers_.clear();
  drain_events();
  for (auto [cq, count] : unacked_) {
    if (count != 0 && cqs_.contains(cq)) ibv_ack_cq_events(cqs_[cq], count);
  }
  unacked_.clear();
  for (auto& [qp, gid, lid] : groups_) {
    if (qps_.contains(qp)) ibv_detach_mcast(qps_[qp], &gid, lid);  // those that were detached already just fail
  }
  groups_.clear();
  for (const ibv_gid& gid : joined_) leave_group(context_->device->name, port_, gid);
  joined_.clear();
  clear(qps_, ibv_destroy_qp, &error);
  clear(ahs_, ibv_destroy_ah, &error);
  clear(mws_, ibv_dealloc_mw, &error);
  clear(srqs_, ibv_destroy_srq, &error);
  clear(cqs_, ibv_destroy_cq, &error);
  clear(channels_, ibv_destroy_comp_channel, &error);
  clear(mrs_, ibv_dereg_mr, &error);
  clear(pds_, ibv_dealloc_pd, &error);
  for (auto [address, size] : memory_) munmap(pointer(address), size);
  memory_.clear();
  drain_events();
  return error;
}

void Device::drain_events() {
  while (wait_event(0).none == 0) {
  }
}

Made Device::alloc_pd() {
  errno = 0;
  ibv_pd* pd = ibv_alloc_pd(context_);
  return pd ? Made{add(pds_, pd), 0} : Made{0, errno};
}

int Device::dealloc_pd(Id pd) { return remove(pds_, pd, ibv_dealloc_pd); }

u64 Device::alloc_memory(u64 size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  memory_[reinterpret_cast<u64>(memory)] = size;
  return reinterpret_cast<u64>(memory);
}

int Device::free_memory(u64 address) {
  const auto found = memory_.find(address);
  if (found == memory_.end()) return ENOENT;
  munmap(pointer(address), found->second);
  memory_.erase(found);
  return 0;
}

int Device::write_bytes(u64 address, Bytes bytes) {
  std::memcpy(pointer(address), bytes.data(), bytes.size());
  return 0;
}

Bytes Device::read_bytes(u64 address, u64 length) {
  const u8* from = static_cast<const u8*>(pointer(address));
  return Bytes(from, from + length);
}

namespace {
// Differs from byte to byte and from page to page, so that a shift or a swapped page shows.
inline u8 pattern(u64 place, u32 seed) { return static_cast<u8>((place * 131) ^ (place >> 12) * 29 ^ seed); }
}  // namespace

int Device::fill(u64 address, u64 length, u32 seed) {
  u8* to = static_cast<u8*>(pointer(address));
  for (u64 i = 0; i < length; ++i) to[i] = pattern(i, seed);
  return 0;
}

i64 Device::mismatch(u64 address, u64 length, u32 seed) {
  const u8* at = static_cast<const u8*>(pointer(address));
  for (u64 i = 0; i < length; ++i) {
    if (at[i] != pattern(i, seed)) return static_cast<i64>(i);
  }
  return -1;
}

int Device::set(u64 address, u64 length, u8 value) {
  std::memset(pointer(address), value, length);
  return 0;
}

i64 Device::differs(u64 address, u64 length, u8 value) {
  const u8* at = static_cast<const u8*>(pointer(address));
  for (u64 i = 0; i < length; ++i) {
    if (at[i] != value) return static_cast<i64>(i);
  }
  return -1;
}

MadeMr Device::keep_mr(ibv_mr* mr) {
  if (mr == nullptr) return {0, errno, 0, 0};
  return {add(mrs_, mr), 0, mr->lkey, mr->rkey};
}

MadeMr Device::reg_mr(Id pd, u64 address, u64 length, u32 access) {
  errno = 0;
  return keep_mr((ibv_reg_mr)(at(pds_, pd), pointer(address), length, static_cast<int>(access)));
}

MadeMr Device::reg_mr_iova(Id pd, u64 address, u64 length, u64 iova, u32 access) {
  errno = 0;
  return keep_mr((ibv_reg_mr_iova)(at(pds_, pd), pointer(address), length, iova, static_cast<int>(access)));
}

int Device::dereg_mr(Id mr) { return remove(mrs_, mr, ibv_dereg_mr); }

Made Device::create_channel() {
  errno = 0;
  ibv_comp_channel* channel = ibv_create_comp_channel(context_);
  return channel ? Made{add(channels_, channel), 0} : Made{0, errno};
}

int Device::destroy_channel(Id channel) { return remove(channels_, channel, ibv_destroy_comp_channel); }

MadeCq Device::create_cq(i32 entries, Id channel) {
  errno = 0;
  ibv_cq* cq = ibv_create_cq(context_, entries, as_context(next_), at(channels_, channel), 0);
  if (cq == nullptr) return {0, errno, 0};
  return {add(cqs_, cq), 0, cq->cqe};
}

MadeCq Device::create_cq_ex(i32 entries, Id channel, u64 wc_flags) {
  ibv_cq_init_attr_ex attr{};
  attr.cqe = static_cast<u32>(entries);
  attr.cq_context = as_context(next_);
  attr.channel = at(channels_, channel);
  attr.wc_flags = wc_flags;
  errno = 0;
  ibv_cq_ex* cq = ibv_create_cq_ex(context_, &attr);
  if (cq == nullptr) return {0, errno, 0};
  return {add(cqs_, ibv_cq_ex_to_cq(cq)), 0, cq->cqe};
}

int Device::resize_cq(Id cq, i32 entries) { return ibv_resize_cq(at(cqs_, cq), entries); }

int Device::destroy_cq(Id cq) {
  if (unacked_[cq] != 0) ack_cq_events(cq, unacked_[cq]);
  return remove(cqs_, cq, ibv_destroy_cq);
}

MadeSrq Device::create_srq(SrqSpec spec) {
  ibv_srq_init_attr attr{};
  attr.srq_context = as_context(next_);
  attr.attr = {spec.max_wr, spec.max_sge, spec.limit};
  errno = 0;
  ibv_srq* srq = ibv_create_srq(at(pds_, spec.pd), &attr);
  if (srq == nullptr) return {0, errno, 0, 0};
  return {add(srqs_, srq), 0, attr.attr.max_wr, attr.attr.max_sge};
}

int Device::modify_srq(Id srq, ibv_srq_attr attr, i32 mask) { return ibv_modify_srq(at(srqs_, srq), &attr, mask); }

ibv_srq_attr Device::query_srq(Id srq) {
  ibv_srq_attr attr{};
  ibv_query_srq(at(srqs_, srq), &attr);
  return attr;
}

int Device::destroy_srq(Id srq) { return remove(srqs_, srq, ibv_destroy_srq); }

MadeQp Device::create_qp(QpSpec spec) {
  ibv_qp_init_attr_ex attr{};
  attr.qp_context = as_context(next_);
  attr.send_cq = at(cqs_, spec.send_cq);
  attr.recv_cq = at(cqs_, spec.recv_cq);
  attr.srq = at(srqs_, spec.srq);
  attr.cap = spec.cap;
  attr.qp_type = spec.type;
  attr.sq_sig_all = spec.sq_sig_all;
  attr.pd = at(pds_, spec.pd);
  attr.comp_mask = IBV_QP_INIT_ATTR_PD;
  if (spec.send_ops != 0) attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  attr.send_ops_flags = spec.send_ops;
  errno = 0;
  ibv_qp* qp = spec.send_ops != 0 ? ibv_create_qp_ex(context_, &attr)
                                  : ibv_create_qp(attr.pd, reinterpret_cast<ibv_qp_init_attr*>(&attr));
  if (qp == nullptr) return {0, errno, 0, {}};
  return {add(qps_, qp), 0, qp->qp_num, attr.cap};
}

int Device::modify_qp(Id qp, ibv_qp_attr attr, i32 mask) { return ibv_modify_qp(at(qps_, qp), &attr, mask); }

ibv_qp_attr Device::query_qp(Id qp) {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  // Everything, so that a provider that fills only what is asked fills it all.
  if (ibv_query_qp(at(qps_, qp), &attr, (IBV_QP_DEST_QPN << 1) - 1, &init) != 0) attr.qp_state = IBV_QPS_UNKNOWN;
  return attr;
}

int Device::destroy_qp(Id qp) { return remove(qps_, qp, ibv_destroy_qp); }

Made Device::create_ah(Id pd, ibv_ah_attr attr) {
  errno = 0;
  ibv_ah* ah = ibv_create_ah(at(pds_, pd), &attr);
  return ah ? Made{add(ahs_, ah), 0} : Made{0, errno};
}

int Device::destroy_ah(Id ah) { return remove(ahs_, ah, ibv_destroy_ah); }

MadeMw Device::alloc_mw(Id pd, u32 type) {
  errno = 0;
  ibv_mw* mw = ibv_alloc_mw(at(pds_, pd), static_cast<ibv_mw_type>(type));
  return mw ? MadeMw{add(mws_, mw), 0, mw->rkey} : MadeMw{0, errno, 0};
}

int Device::dealloc_mw(Id mw) { return remove(mws_, mw, ibv_dealloc_mw); }

int Device::set_mw_rkey(Id mw, u32 rkey) {
  at(mws_, mw)->rkey = rkey;
  return 0;
}

int Device::attach(Id qp, ibv_gid gid, u16 lid) {
  const int error = ibv_attach_mcast(at(qps_, qp), &gid, lid);
  if (error == 0) groups_.emplace_back(qp, gid, lid);
  return error;
}

int Device::detach(Id qp, ibv_gid gid, u16 lid) { return ibv_detach_mcast(at(qps_, qp), &gid, lid); }

Joined Device::join_group(ibv_gid gid, u32 qkey) {
  const Membership membership = conformance::join_group(context_->device->name, port_, gid, qkey);
  if (membership.error == 0) joined_.push_back(gid);
  return {membership.error, membership.lid};
}

namespace {

Event describe(const ibv_async_event& event) {
  Event seen{static_cast<u32>(event.event_type), 0, 0, 0};
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      seen.object = as_id(event.element.cq->cq_context);
      break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      seen.object = as_id(event.element.srq->srq_context);
      break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      seen.object = as_id(event.element.qp->qp_context);
      break;
    default:
      seen.port = event.element.port_num;
  }
  return seen;
}

}  // namespace

Event Device::wait_event(u32 timeout_ms) {
  pollfd waiter{context_->async_fd, POLLIN, 0};
  if (::poll(&waiter, 1, static_cast<int>(timeout_ms)) <= 0) return {};
  ibv_async_event event{};
  if (ibv_get_async_event(context_, &event) != 0) return {};
  const Event seen = describe(event);
  ibv_ack_async_event(&event);
  return seen;
}

}  // namespace conformance

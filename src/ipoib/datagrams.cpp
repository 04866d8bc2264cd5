#include "ipoib/datagrams.h"

namespace softib::ipoib {

Result<Datagrams> Datagrams::make(const Port& port, ibv_cq* sent, ibv_cq* received, Slots& slots) {
  Datagrams datagrams;
  datagrams.slots_ = &slots;
  ibv_qp_init_attr wanted{};
  wanted.send_cq = sent;
  wanted.recv_cq = received;
  wanted.cap = {sends, receives, 2, 1, 128};
  wanted.qp_type = IBV_QPT_UD;
  datagrams.pair_.reset(::ibv_create_qp(port.domain(), &wanted));
  if (!datagrams.pair_) return fail(errno);
  return datagrams;
}

Result<void> Datagrams::start(const Port& port, u16 pkey_index, u32 qkey, u32 link_mtu) {
  port_ = &port;
  pkey_index_ = pkey_index;
  qkey_ = qkey;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  static_cast<void>(::ibv_modify_qp(pair(), &attributes, IBV_QP_STATE));
  outstanding_ = requests_outstanding_ = 0;
  if (link_mtu != std::exchange(link_mtu_, link_mtu)) {
    auto buffers = Receives::make(port.domain(), receives, grh_size + link_mtu);
    if (!buffers) return fail(buffers.error());
    receives_ = std::move(*buffers);
  }
  receives_.give_back_all();
  attributes.qp_state = IBV_QPS_INIT;
  attributes.pkey_index = pkey_index;
  attributes.port_num = port.number();
  attributes.qkey = qkey;
  int failed = ::ibv_modify_qp(pair(), &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
  if (failed) return fail(failed);
  receives_.post(pair(), 0);
  attributes.qp_state = IBV_QPS_RTR;
  failed = ::ibv_modify_qp(pair(), &attributes, IBV_QP_STATE);
  if (failed) return fail(failed);
  attributes.qp_state = IBV_QPS_RTS;
  failed = ::ibv_modify_qp(pair(), &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
  if (failed) return fail(failed);
  ready_ = true;
  return {};
}

Result<void> Datagrams::change_qkey(u32 qkey) {
  qkey_ = qkey;
  ibv_qp_attr attributes{};
  attributes.qkey = qkey;
  const int failed = ::ibv_modify_qp(pair(), &attributes, IBV_QP_QKEY);
  if (failed) return fail(failed);
  return {};
}

// A send that failed leaves the send queue in error, worse things the whole queue pair.
bool Datagrams::recover() {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr unused{};
  if (::ibv_query_qp(pair(), &attributes, IBV_QP_STATE, &unused) != 0) return false;
  if (attributes.qp_state == IBV_QPS_SQE) {
    attributes.qp_state = IBV_QPS_RTS;
    return ::ibv_modify_qp(pair(), &attributes, IBV_QP_STATE) == 0;
  }
  return attributes.qp_state == IBV_QPS_RTS;
}

void Datagrams::stop() {
  ready_ = false;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  static_cast<void>(::ibv_modify_qp(pair(), &attributes, IBV_QP_STATE));
}

bool Datagrams::send(Slot& slot, EtherType type, const Target& target, u32 mtu) {
  if (!ready_ || !has_room()) return false;
  if (slot.vnet.gso_type != 0) {
    const auto cutter = Cutter::of(slot.vnet, slot.view());
    if (!cutter || cutter->count() > Slots::most_segments || cutter->segment_size() > mtu) return false;
    return send_cut(slot, *cutter, type, target);
  }
  if (slot.size > mtu) return false;
  const bool open = target.takes_open && may_stay_open(slot.vnet, slot.view());
  if (!open && !finish_checksum(slot.vnet, {slot.packet(), slot.size})) return false;
  return send_whole(slot, type, target, open ? open_checksum : u16{0});
}

bool Datagrams::send_whole(Slot& slot, EtherType type, const Target& target, u16 marks) {
  const auto bytes = slot.as_datagram(type, marks);
  parts_[0][0] = {reinterpret_cast<u64>(bytes.data()), static_cast<u32>(bytes.size()), slots_->key()};
  requests_[0] = {};
  requests_[0].num_sge = 1;
  return post(1, slot, target);
}

bool Datagrams::send_cut(Slot& slot, const Cutter& cutter, EtherType type, const Target& target) {
  const u32 count = cutter.count();
  const bool open = target.takes_open && may_stay_open(slot.vnet, slot.view());
  for (u32 i = 0; i < count; ++i) {
    u8* headers = slot.headers + i * Cutter::header_room;
    put_encapsulation(headers, type, open ? open_checksum : u16{0});
    const Segment segment = cutter.write(i, headers + encapsulation_size, open);
    parts_[i][0] = {reinterpret_cast<u64>(headers), encapsulation_size + segment.header_size, slots_->key()};
    parts_[i][1] = {reinterpret_cast<u64>(slot.packet() + segment.payload_at), segment.payload_size, slots_->key()};
    requests_[i] = {};
    requests_[i].num_sge = segment.payload_size ? 2 : 1;
  }
  return post(count, slot, target);
}

// Refused as a whole where there is no room: with a part of the chain on its way the slot could not be used again.
bool Datagrams::post(u32 count, Slot& slot, const Target& target) {
  for (u32 i = 0; i < count; ++i) {
    ibv_send_wr& request = requests_[i];
    const bool last = i + 1 == count;
    request.wr_id = last ? slot.number : no_slot;
    request.next = last ? nullptr : &requests_[i + 1];
    request.sg_list = parts_[i].data();
    request.opcode = IBV_WR_SEND;
    request.send_flags = last ? static_cast<u32>(IBV_SEND_SIGNALED) : 0U;
    request.wr.ud = {target.handle, target.qpn, qkey_};
  }
  ibv_send_wr* bad = nullptr;
  if (::ibv_post_send(pair(), requests_.data(), &bad) != 0) return false;
  ++outstanding_;
  slot.requests = count;
  requests_outstanding_ += count;
  return true;
}

}  // namespace softib::ipoib

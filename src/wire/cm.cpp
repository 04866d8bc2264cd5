#include "wire/cm.h"

#include <algorithm>

namespace softib::wire::cm {

namespace {

// A field `width` bits wide that starts `bit` bits into byte `byte` of the message.
constexpr Field at(u32 byte, u32 bit, u8 width) { return {static_cast<u16>((data_at + byte) * 8 + bit), width}; }
constexpr Field at(u32 byte, u8 width) { return at(byte, 0, width); }

// Takes each part out of a MAD.
struct Reader {
  const Mad& mad;
  template <typename Value>
  void operator()(Field field, Value& value) const {
    value = static_cast<Value>(get(mad, field));
  }
  template <size_t Size>
  void bytes(u32 byte, std::array<u8, Size>& value) const {
    static_assert(data_at + Size <= mad_size);
    std::copy_n(mad.begin() + data_at + byte, Size, value.begin());
  }
};

// Puts each part into one.
struct Writer {
  Mad& mad;
  template <typename Value>
  void operator()(Field field, const Value& value) const {
    set(mad, field, value);
  }
  template <size_t Size>
  void bytes(u32 byte, const std::array<u8, Size>& value) const {
    static_assert(data_at + Size <= mad_size);
    std::copy_n(value.begin(), Size, mad.begin() + data_at + byte);
  }
};

// `path` begins at byte `from`; REQ and LAP differ in how they order what follows the GIDs.
template <typename Path, typename Each>
void list_ends(Path& path, u32 from, Each each) {
  each(at(from, 16), path.local_lid);
  each(at(from + 2, 16), path.remote_lid);
  each.bytes(from + 4, path.local_gid);
  each.bytes(from + 20, path.remote_gid);
  each(at(from + 36, 20), path.flow_label);
  each(at(from + 42, 4), path.sl);
  each(at(from + 42, 4, 1), path.subnet_local);
  each(at(from + 43, 5), path.ack_timeout);
}

template <typename Path, typename Each>
void list_req_path(Path& path, u32 from, Each each) {
  list_ends(path, from, each);
  each(at(from + 39, 2, 6), path.rate);
  each(at(from + 40, 8), path.traffic_class);
  each(at(from + 41, 8), path.hop_limit);
}

template <typename Path, typename Each>
void list_lap_path(Path& path, u32 from, Each each) {
  list_ends(path, from, each);
  each(at(from + 39, 8), path.traffic_class);
  each(at(from + 40, 8), path.hop_limit);
  each(at(from + 41, 2, 6), path.rate);
}

template <typename Message, typename Each>
void list_ids(Message& message, Each each) {
  each(at(0, 32), message.local_id);
  each(at(4, 32), message.remote_id);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Req*) {
  each(at(0, 32), message.local_id);
  each(at(8, 64), message.service_id);
  each(at(16, 64), message.local_ca_guid);
  each(at(28, 32), message.local_qkey);
  each(at(32, 24), message.local_qpn);
  each(at(35, 8), message.responder_resources);
  each(at(36, 24), message.local_eecn);
  each(at(39, 8), message.initiator_depth);
  each(at(40, 24), message.remote_eecn);
  each(at(43, 5), message.remote_response_timeout);
  each(at(43, 5, 2), message.transport);
  each(at(43, 7, 1), message.flow_control);
  each(at(44, 24), message.starting_psn);
  each(at(47, 5), message.local_response_timeout);
  each(at(47, 5, 3), message.retry_count);
  each(at(48, 16), message.pkey);
  each(at(50, 4), message.mtu);
  each(at(50, 4, 1), message.rdc_exists);
  each(at(50, 5, 3), message.rnr_retry_count);
  each(at(51, 4), message.max_cm_retries);
  each(at(51, 4, 1), message.srq);
  each(at(51, 5, 3), message.extended_transport);
  list_req_path(message.primary, 52, each);
  list_req_path(message.alternate, 96, each);
  each.bytes(140, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Mra*) {
  list_ids(message, each);
  each(at(8, 2), message.about);
  each(at(9, 5), message.service_timeout);
  each.bytes(10, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Rej*) {
  list_ids(message, each);
  each(at(8, 2), message.about);
  each(at(9, 7), message.information_length);
  each(at(10, 16), message.reason);
  each.bytes(12, message.information);
  each.bytes(84, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Rep*) {
  list_ids(message, each);
  each(at(8, 32), message.local_qkey);
  each(at(12, 24), message.local_qpn);
  each(at(16, 24), message.local_eecn);
  each(at(20, 24), message.starting_psn);
  each(at(24, 8), message.responder_resources);
  each(at(25, 8), message.initiator_depth);
  each(at(26, 5), message.target_ack_delay);
  each(at(26, 5, 2), message.failover_accepted);
  each(at(26, 7, 1), message.flow_control);
  each(at(27, 3), message.rnr_retry_count);
  each(at(27, 3, 1), message.srq);
  each(at(28, 64), message.local_ca_guid);
  each.bytes(36, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Rtu*) {
  list_ids(message, each);
  each.bytes(8, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Dreq*) {
  list_ids(message, each);
  each(at(8, 24), message.remote_qpn);
  each.bytes(12, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Drep*) {
  list_ids(message, each);
  each.bytes(8, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Lap*) {
  list_ids(message, each);
  each(at(12, 24), message.remote_qpn);
  each(at(15, 5), message.remote_response_timeout);
  list_lap_path(message.alternate, 20, each);
  each.bytes(64, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const Apr*) {
  list_ids(message, each);
  each(at(8, 8), message.information_length);
  each(at(9, 8), message.status);
  each.bytes(12, message.information);
  each.bytes(84, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const SidrReq*) {
  each(at(0, 32), message.request_id);
  each(at(4, 16), message.pkey);
  each(at(8, 64), message.service_id);
  each.bytes(16, message.private_data);
}

template <typename Message, typename Each>
void list_fields(Message& message, Each each, const SidrRep*) {
  each(at(0, 32), message.request_id);
  each(at(4, 8), message.status);
  each(at(5, 8), message.information_length);
  each(at(8, 24), message.qpn);
  each(at(12, 64), message.service_id);
  each(at(20, 32), message.qkey);
  each.bytes(24, message.information);
  each.bytes(96, message.private_data);
}

}  // namespace

template <typename Message>
Message parse(const Mad& mad) {
  Message message;
  list_fields(message, Reader{mad}, static_cast<const Message*>(nullptr));
  return message;
}

template <typename Message>
Mad emit(const Message& message, u64 transaction) {
  Mad mad{};
  set(mad, header::base_version, 1);
  set(mad, header::mgmt_class, static_cast<u8>(MgmtClass::communication));
  set(mad, header::class_version, class_version);
  set(mad, header::method, static_cast<u8>(Method::send));
  set(mad, header::transaction, transaction);
  set(mad, header::attribute, static_cast<u16>(Message::attribute));
  list_fields(message, Writer{mad}, static_cast<const Message*>(nullptr));
  return mad;
}

#define SOFTIB_CM_MESSAGE(type)    \
  template type parse(const Mad&); \
  template Mad emit(const type&, u64)
SOFTIB_CM_MESSAGE(Req);
SOFTIB_CM_MESSAGE(Mra);
SOFTIB_CM_MESSAGE(Rej);
SOFTIB_CM_MESSAGE(Rep);
SOFTIB_CM_MESSAGE(Rtu);
SOFTIB_CM_MESSAGE(Dreq);
SOFTIB_CM_MESSAGE(Drep);
SOFTIB_CM_MESSAGE(Lap);
SOFTIB_CM_MESSAGE(Apr);
SOFTIB_CM_MESSAGE(SidrReq);
SOFTIB_CM_MESSAGE(SidrRep);
#undef SOFTIB_CM_MESSAGE

bool is_message(std::span<const u8> mad) {
  return class_of(mad) == MgmtClass::communication && get(mad, header::base_version) == 1 &&
         get(mad, header::class_version) == class_version && method_of(mad) == Method::send;
}

}  // namespace softib::wire::cm

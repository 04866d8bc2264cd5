#include "wire/rmpp.h"

#include <algorithm>

namespace softib::wire::rmpp {

namespace {

constexpr u8 version = 1;

Status status_of(const Mad& mad) { return static_cast<Status>(get(mad, header::status)); }

// What an ACK or ABORT of the receiving side starts from: the header of what it answers, on its way back.
Mad turned(const Mad& to) {
  Mad mad{};
  std::copy_n(to.begin(), sa::data_at, mad.begin());
  set(mad, wire::header::method, get(to, wire::header::method) ^ response_bit);
  set(mad, header::version, version);
  set(mad, header::response_time, 0);
  set(mad, header::flags, flag_active);
  set(mad, header::status, 0);
  return mad;
}

}  // namespace

u32 data_offset(MgmtClass mgmt_class) {
  const auto number = static_cast<u8>(mgmt_class);
  if (mgmt_class == MgmtClass::subn_adm) return sa::data_at;
  if (mgmt_class == MgmtClass::device || mgmt_class == MgmtClass::baseboard) return 64;
  if (number >= 0x10 && number <= 0x12) return 64;  // device administration, boot management, BIS
  if (number >= static_cast<u8>(MgmtClass::vendor_rmpp_first) && number <= 0x4f) return 40;
  return 0;
}

bool is_active(const Mad& mad) {
  return data_offset(class_of(mad)) != 0 && (get(mad, header::flags) & flag_active) != 0;
}

Type type_of(const Mad& mad) { return static_cast<Type>(get(mad, header::type)); }

// -- sending

Sender::Sender(Message message, const Timing& timing, u32 first_window)
    : message_(std::move(message)),
      timing_(timing),
      offset_(std::max(end_of_header, data_offset(class_of(message_.head)))),
      room_(mad_size - offset_),
      segments_(std::max<u32>(1, static_cast<u32>((message_.data.size() + room_ - 1) / room_))),
      window_(std::max<u32>(1, first_window)) {}

Mad Sender::segment(u32 number) const {
  Mad mad{};
  std::copy_n(message_.head.begin(), offset_, mad.begin());
  const std::size_t from = std::size_t{number - 1} * room_;
  const std::size_t bytes = std::min<std::size_t>(room_, message_.data.size() - std::min(from, message_.data.size()));
  if (bytes) std::copy_n(message_.data.begin() + static_cast<std::ptrdiff_t>(from), bytes, mad.begin() + offset_);

  const u32 class_header = offset_ - end_of_header;  // each segment repeats it, and counts it
  u64 length = 0;
  if (number == 1) length = message_.data.size() + u64{segments_} * class_header;
  if (number == segments_) length = bytes + class_header;
  set(mad, header::version, version);
  set(mad, header::type, static_cast<u8>(Type::data));
  set(mad, header::response_time, no_response_time);
  set(mad, header::flags, flag_active | (number == 1 ? flag_first : 0) | (number == segments_ ? flag_last : 0));
  set(mad, header::status, 0);
  set(mad, header::segment, number);
  set(mad, header::length, length);
  return mad;
}

std::optional<Mad> Sender::next(u64 now) {
  if (abort_due_) {
    abort_due_ = false;
    Mad mad = segment(std::max<u32>(1, acknowledged_));
    set(mad, header::type, static_cast<u8>(Type::abort));
    set(mad, header::flags, flag_active);
    set(mad, header::status, static_cast<u8>(status_));
    set(mad, header::length, 0);
    return mad;
  }
  if (outcome_ != Outcome::going || sent_ >= std::min(window_, segments_)) return std::nullopt;
  deadline_ = now + timing_.answer_ns;
  return segment(++sent_);
}

void Sender::received(const Mad& mad, u64 now) {
  if (outcome_ != Outcome::going) return;
  switch (type_of(mad)) {
    case Type::ack:
      return acknowledged(mad, now);
    case Type::stop:
    case Type::abort:
      return give_up(status_of(mad), false);
    default:
      return;
  }
}

void Sender::acknowledged(const Mad& mad, u64 now) {
  const auto number = static_cast<u32>(get(mad, header::segment));
  const auto window = static_cast<u32>(get(mad, header::window));
  if (status_of(mad) != Status::ok) return give_up(Status::bad_status, true);
  if (number > sent_) return give_up(Status::segment_too_big, true);
  if (window < number) return give_up(Status::window_too_small, true);
  if (number < acknowledged_ || window < window_) return;  // an old one, overtaken
  if (number > acknowledged_) tries_ = 0;
  acknowledged_ = number;
  window_ = window;
  deadline_ = now + timing_.answer_ns;
  if (acknowledged_ == segments_) outcome_ = Outcome::done;
}

void Sender::on_time(u64 now) {
  if (now < deadline()) return;
  if (tries_++ >= timing_.retries) return give_up(Status::too_many_retries, true);
  sent_ = acknowledged_;  // from the first that is not known to have come
  deadline_ = now + timing_.answer_ns;
}

void Sender::give_up(Status status, bool tell) {
  outcome_ = Outcome::failed;
  status_ = status;
  abort_due_ = tell;
}

// -- receiving

Receiver::Receiver(MgmtClass mgmt_class, const Timing& timing, u32 most)
    : timing_(timing), offset_(std::max(end_of_header, data_offset(mgmt_class))), most_(most) {
  timing_.window = std::max<u32>(1, timing.window);
}

Mad Receiver::reply(const Mad& to, Type type) const {
  Mad mad = turned(to);
  set(mad, header::type, static_cast<u8>(type));
  set(mad, header::segment, have_);
  set(mad, header::window, window_);
  return mad;
}

Mad Receiver::refuse(const Mad& to, Status status) {
  outcome_ = Outcome::failed;
  status_ = status;
  Mad mad = reply(to, Type::abort);
  set(mad, header::status, static_cast<u8>(status));
  set(mad, header::window, 0);
  return mad;
}

std::optional<Mad> Receiver::received(const Mad& mad, u64 now) {
  const Type type = type_of(mad);
  if (type == Type::stop || type == Type::abort) {
    if (outcome_ == Outcome::going) {
      outcome_ = Outcome::failed;
      status_ = status_of(mad);
    }
    return std::nullopt;
  }
  if (outcome_ == Outcome::failed || type == Type::ack) return std::nullopt;
  if (get(mad, header::version) != version) return refuse(mad, Status::bad_version);
  if (type != Type::data) return refuse(mad, Status::bad_type);
  if (status_of(mad) != Status::ok) return refuse(mad, Status::bad_status);
  return data(mad, now);
}

std::optional<Mad> Receiver::data(const Mad& mad, u64 now) {
  const auto number = static_cast<u32>(get(mad, header::segment));
  const bool first = (get(mad, header::flags) & flag_first) != 0;
  if (number == 0 || first != (number == 1)) {
    return outcome_ == Outcome::done ? std::nullopt : std::optional{refuse(mad, Status::bad_segment)};
  }
  if (number <= have_) return reply(mad, Type::ack);  // a repeated one: the ACK got lost
  if (outcome_ == Outcome::done || number > have_ + timing_.window) return std::nullopt;
  deadline_ = now + timing_.answer_ns * (timing_.retries + 1);
  early_.emplace(number, mad);
  while (outcome_ == Outcome::going && !early_.empty() && early_.begin()->first == have_ + 1) {
    const Mad next = early_.begin()->second;
    early_.erase(early_.begin());
    accept(next);
    if (message_.data.size() > most_) return refuse(mad, Status::no_resources);
  }
  if (outcome_ == Outcome::done) return reply(mad, Type::ack);
  if (have_ < window_) return std::nullopt;
  window_ = have_ + timing_.window;
  return reply(mad, Type::ack);
}

void Receiver::accept(const Mad& mad) {
  ++have_;
  if (have_ == 1) message_.head = mad;
  u32 bytes = mad_size - offset_;
  if (get(mad, header::flags) & flag_last) {
    const u64 length = get(mad, header::length);
    const u32 class_header = offset_ - end_of_header;
    // A length that can't be is taken as a full segment, as others do.
    if (length >= class_header && length - class_header <= bytes) bytes = static_cast<u32>(length - class_header);
    outcome_ = Outcome::done;
    early_.clear();
  }
  message_.data.insert(message_.data.end(), mad.begin() + offset_, mad.begin() + offset_ + bytes);
}

void Receiver::on_time(u64 now) {
  if (now < deadline_) return;
  deadline_ = ~u64{0};
  if (outcome_ != Outcome::going) return;
  outcome_ = Outcome::failed;
  status_ = Status::took_too_long;
}

}  // namespace softib::wire::rmpp

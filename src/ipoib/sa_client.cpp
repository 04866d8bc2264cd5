#include "ipoib/sa_client.h"

#include <fmt/format.h>
#include <infiniband/umad.h>

#include <cstring>

#include "wire/packet.h"
#include "wire/sa_records.h"

namespace softib::ipoib {

namespace {

constexpr int timeout_ms = 500;
constexpr int retries = 2;
constexpr int gsi_qp = 1;
constexpr u16 status_at = 4;  // bytes

}  // namespace

Told<std::unique_ptr<SaClient>> SaClient::open(Loop& loop, const Port& port) {
  auto client = std::make_unique<SaClient>();
  client->port_ = &port;
  client->loop_ = &loop;
  if (::umad_init() < 0) return complain("libibumad can't be used");
  client->umad_ = ::umad_open_port(port.device().c_str(), port.number());
  if (client->umad_ < 0)
    return complain(
        fmt::format("{}: can't ask subnet administration (umad): {}", port.name(), std::strerror(-client->umad_)));
  client->agent_ =
      ::umad_register(client->umad_, static_cast<int>(wire::MgmtClass::subn_adm), wire::sa::class_version, 0, nullptr);
  if (client->agent_ < 0) return complain(fmt::format("{}: no agent for subnet administration", port.name()));
  client->buffer_.resize(::umad_size() + wire::mad_size);
  loop.watch(::umad_get_fd(client->umad_), [raw = client.get()] { raw->take_answers(); });
  return client;
}

SaClient::~SaClient() {
  if (umad_ < 0) return;
  loop_->unwatch(::umad_get_fd(umad_));
  ::umad_close_port(umad_);
}

void SaClient::ask(const Request& request, Answer answer) {
  std::fill(buffer_.begin(), buffer_.end(), u8{0});
  const std::span<u8> mad(static_cast<u8*>(::umad_get_mad(buffer_.data())), wire::mad_size);
  const u32 number = ++transaction_;
  const auto type = static_cast<wire::RecordType>(request.attribute);
  wire::sa::write_question(mad, {request.method, type, number, request.mask, request.record});
  const auto& own = port_->attributes();
  ::umad_set_addr(buffer_.data(), own.sm_lid, gsi_qp, own.sm_sl, static_cast<int>(wire::gsi_qkey));
  waiting_[number] = std::move(answer);
  if (::umad_send(umad_, agent_, buffer_.data(), wire::mad_size, timeout_ms, retries) == 0) return;
  // No way to the manager now; not from inside ask(), whose callers expect the answer later.
  loop_->after(milliseconds(timeout_ms), [this, number] {
    const auto at = waiting_.extract(number);
    if (!at.empty()) at.mapped()(fail(ETIMEDOUT));
  });
}

void SaClient::take_answers() {
  for (;;) {
    int length = wire::mad_size;
    if (::umad_recv(umad_, buffer_.data(), &length, 0) < 0) return;
    const Bytes mad(static_cast<u8*>(::umad_get_mad(buffer_.data())),
                    static_cast<u8*>(::umad_get_mad(buffer_.data())) + wire::mad_size);
    take_answer(mad, ::umad_status(buffer_.data()));
  }
}

void SaClient::take_answer(std::span<const u8> mad, int status) {
  constexpr u64 ours = 0xffff'ffff;  // the upper half belongs to the agent
  const auto at = waiting_.extract(static_cast<u32>(wire::get(mad, wire::header::transaction) & ours));
  if (at.empty()) return;
  if (status != 0) return at.mapped()(fail(ETIMEDOUT));
  if (get16(&mad[status_at]) != 0) return at.mapped()(fail(EREMOTEIO));
  at.mapped()(mad.subspan(wire::sa::data_at, wire::sa::data_size));
}

}  // namespace softib::ipoib

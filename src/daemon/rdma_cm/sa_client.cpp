#include "daemon/rdma_cm/sa_client.h"

#include <algorithm>
#include <utility>

#include "base/durations.h"

namespace softib::daemon {

namespace {

namespace header = wire::header;

constexpr u32 retries = 10;

}  // namespace

Result<u64> SaClient::ask(const Question& question, u64 now, Done done) {
  const u16 manager = outside_.manager_lid(question.port);
  if (manager == 0) return fail(EAGAIN);
  const u64 number = ++last_;
  wire::Packet packet;
  packet.slid = outside_.lid(question.port);
  packet.dlid = manager;
  packet.sl = outside_.manager_sl(question.port);
  packet.source_qp = packet.destination_qp = 1;
  wire::sa::write_question(packet.mad, {question.method, question.type, number, question.mask, question.record});
  const u64 interval = std::max<u64>(question.timeout_ms / retries, 1) * ns::millisecond;
  const u32 tries = question.timeout_ms >= retries ? retries : question.timeout_ms;
  waiting_.emplace(number, Waiting{question.port, packet, interval, tries, now + interval, std::move(done)});
  deadlines_.emplace(now + interval, number);
  outside_.send(question.port, packet);
  return number;
}

void SaClient::cancel(u64 number) {
  auto found = waiting_.find(number);
  if (found == waiting_.end()) return;
  deadlines_.erase({found->second.deadline, number});
  waiting_.erase(found);
}

void SaClient::finish(u64 number, int status, std::span<const u8> record) {
  auto found = waiting_.find(number);
  const Done done = std::move(found->second.done);
  cancel(number);
  if (done) done(status, record);
}

bool SaClient::received(const wire::Packet& packet) {
  if (wire::class_of(packet.mad) != wire::MgmtClass::subn_adm || !wire::is_response(packet.mad)) return false;
  const u64 number = get(packet.mad, header::transaction);
  if (number >> 63 == 0) return false;
  if (!waiting_.contains(number)) return true;  // too late
  const int status = get(packet.mad, header::status) != 0 ? EINVAL : 0;
  const wire::Mad mad = packet.mad;
  finish(number, status, std::span(mad).subspan(wire::sa::data_at));
  return true;
}

u64 SaClient::on_time(u64 now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const u64 number = deadlines_.begin()->second;
    Waiting& waiting = waiting_.at(number);
    if (waiting.tries_left == 0) {
      finish(number, ETIMEDOUT, {});
      continue;
    }
    --waiting.tries_left;
    deadlines_.erase(deadlines_.begin());
    waiting.deadline = now + waiting.interval;
    deadlines_.emplace(waiting.deadline, number);
    const wire::Packet again = waiting.packet;
    outside_.send(waiting.port, again);
  }
  return deadlines_.empty() ? ~0ULL : deadlines_.begin()->first;
}

}  // namespace softib::daemon

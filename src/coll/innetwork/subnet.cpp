#include "coll/innetwork/subnet.h"

#include <fmt/format.h>
#include <infiniband/umad.h>

#include <algorithm>

#include "base/error_text.h"
#include "wire/packet.h"

namespace softib::coll::innetwork {

namespace {

constexpr int rmpp_version = 1;
constexpr int timeout_ms = 1000;
constexpr int retries = 3;
constexpr int gsi_qp = 1;
constexpr auto patience = std::chrono::seconds(6);  // longer than all retries
constexpr std::size_t most_answer = std::size_t{64} << 20;

namespace service {
using namespace wire::service_record;
using wire::Field;
constexpr Field lid{data16_at * 8, 16}, version{data16_at * 8 + 16, 16}, pair{data32_at * 8, 32},
    qkey{data32_at * 8 + 32, 32};
// Of those that a local system gives out itself (IBTA vol. 3, A3.2.3.3).
constexpr u64 aggregation_manager = 0x0200'0000'5341'4d31;
}  // namespace service

Octets service_record(const ManagerService& from) {
  Octets record(service::size);
  wire::set(record, service::id, service::aggregation_manager);
  std::copy(from.gid.begin(), from.gid.end(), record.begin() + service::gid_at);
  wire::set(record, service::pkey, 0xffff);
  wire::set(record, service::lease, from.lease);
  std::copy(service_name.begin(), service_name.end(), record.begin() + service::name_at);
  wire::set(record, service::lid, from.address.lid);
  wire::set(record, service::version, from.address.version);
  wire::set(record, service::pair, from.address.pair);
  wire::set(record, service::qkey, from.address.qkey);
  return record;
}

constexpr u64 named =
    wire::sa::bit(service::has_id) | wire::sa::bit(service::has_gid) | wire::sa::bit(service::has_pkey);

}  // namespace

Subnet::Question register_manager(const ManagerService& service) {
  u64 mask = named | wire::sa::bit(service::has_lease) | wire::sa::bit(service::has_name);
  for (const u32 first : {u32{service::has_data16}, u32{service::has_data32}})
    mask |= wire::sa::bit(first) | wire::sa::bit(first + 1);
  return {wire::Method::set, wire::RecordType::service, mask, service_record(service)};
}

Subnet::Question unregister_manager(const ManagerService& service) {
  return {wire::Method::remove, wire::RecordType::service, named, service_record(service)};
}

Subnet::Question find_manager() {
  return {wire::Method::get_table, wire::RecordType::service, wire::sa::bit(service::has_name), service_record({})};
}

std::optional<ManagerAddress> parse_manager(std::span<const u8> record) {
  if (record.size() < service::size) return std::nullopt;
  const std::span<const u8> name = record.subspan(service::name_at, service::name_size);
  if (!std::equal(service_name.begin(), service_name.end(), name.begin()) || name[service_name.size()] != 0)
    return std::nullopt;
  ManagerAddress address;
  address.lid = static_cast<u16>(wire::get(record, service::lid));
  address.version = static_cast<u16>(wire::get(record, service::version));
  address.pair = static_cast<u32>(wire::get(record, service::pair));
  address.qkey = static_cast<u32>(wire::get(record, service::qkey));
  if (address.lid == 0 || address.lid >= wire::first_multicast_lid || address.pair > 0xff'ffff) return std::nullopt;
  return address;
}

Outcome<std::unique_ptr<Subnet>> Subnet::open(const std::string& device, u8 port) {
  const auto no = [&](const std::string& why) {
    return refuse(Code::system_error,
                  fmt::format("subnet administration can't be asked from {}:{} (umad): {}", device, port, why));
  };
  std::unique_ptr<Subnet> subnet(new Subnet);
  if (::umad_init() < 0) return no("libibumad doesn't start");
  umad_port_t attributes{};
  if (const int error = ::umad_get_port(device.c_str(), port, &attributes); error != 0) return no(error_text(-error));
  subnet->manager_ = static_cast<u16>(attributes.sm_lid);
  subnet->sl_ = static_cast<u8>(attributes.sm_sl);
  ::umad_release_port(&attributes);
  subnet->umad_ = ::umad_open_port(device.c_str(), port);
  if (subnet->umad_ < 0) return no(error_text(-subnet->umad_));
  subnet->agent_ = ::umad_register(subnet->umad_, static_cast<int>(wire::MgmtClass::subn_adm), wire::sa::class_version,
                                   rmpp_version, nullptr);
  if (subnet->agent_ < 0) return no("no agent");
  subnet->buffer_.resize(::umad_size() + wire::mad_size);
  return subnet;
}

Subnet::~Subnet() {
  if (agent_ >= 0) ::umad_unregister(umad_, agent_);
  if (umad_ >= 0) ::umad_close_port(umad_);
}

int Subnet::descriptor() const { return ::umad_get_fd(umad_); }

std::optional<u32> Subnet::ask(const Question& question) {
  std::fill(buffer_.begin(), buffer_.end(), u8{0});
  const std::span<u8> mad(static_cast<u8*>(::umad_get_mad(buffer_.data())), wire::mad_size);
  const u32 number = ++last_;
  wire::sa::write_question(mad, {question.method, question.type, number, question.mask, question.record});
  ::umad_set_addr(buffer_.data(), manager_, gsi_qp, sl_, static_cast<int>(wire::gsi_qkey));
  if (::umad_send(umad_, agent_, buffer_.data(), wire::mad_size, timeout_ms, retries) != 0) return std::nullopt;
  return number;
}

std::optional<Subnet::Answer> Subnet::next_answer(std::chrono::milliseconds wait) {
  int length = static_cast<int>(buffer_.size() - ::umad_size());
  int got = ::umad_recv(umad_, buffer_.data(), &length, static_cast<int>(wait.count()));
  if (got == -ENOSPC && length > 0 && static_cast<std::size_t>(length) <= most_answer) {
    buffer_.resize(::umad_size() + static_cast<std::size_t>(length));
    got = ::umad_recv(umad_, buffer_.data(), &length, static_cast<int>(wait.count()));
  }
  if (got < 0) return std::nullopt;
  const std::span<const u8> mad(
      static_cast<const u8*>(::umad_get_mad(buffer_.data())),
      std::min<std::size_t>(static_cast<std::size_t>(std::max(length, 0)), buffer_.size() - ::umad_size()));
  Answer answer;
  // The upper half of a transaction belongs to the agent.
  answer.number = static_cast<u32>(wire::get(mad, wire::header::transaction));
  answer.answered = ::umad_status(buffer_.data()) == 0;
  answer.status = static_cast<u16>(wire::get(mad, wire::header::status));
  if (!answer.answered || answer.status != 0) return answer;
  const bool table = wire::method_of(mad) == wire::Method::get_table_resp;
  const std::size_t stride = table ? wire::get(mad, wire::sa::attribute_offset) * 8 : wire::sa::data_size;
  for (std::size_t at = wire::sa::data_at; stride != 0 && at + stride <= mad.size(); at += stride)
    answer.records.emplace_back(mad.begin() + static_cast<std::ptrdiff_t>(at),
                                mad.begin() + static_cast<std::ptrdiff_t>(at + stride));
  return answer;
}

Outcome<std::vector<Octets>> Subnet::get(const Question& question) {
  const std::optional<u32> number = ask(question);
  if (!number) return refuse(Code::system_error, fmt::format("subnet administration can't be asked: {}", error_text()));
  for (const auto end = std::chrono::steady_clock::now() + patience; std::chrono::steady_clock::now() < end;) {
    const auto answer = next_answer(std::chrono::milliseconds(100));
    if (!answer || answer->number != *number) continue;
    if (!answer->answered) return refuse(Code::system_error, "subnet administration doesn't answer");
    // "No records" is an answer.
    if (answer->status != 0) return std::vector<Octets>{};
    return answer->records;
  }
  return refuse(Code::system_error, "subnet administration doesn't answer");
}

}  // namespace softib::coll::innetwork

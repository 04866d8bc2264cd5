#include "coll/innetwork/subnet.h"

#include <fmt/format.h>
#include <infiniband/umad.h>

#include <algorithm>

#include "base/error_text.h"

namespace softib::coll::innetwork {

namespace {

constexpr int sa_version = 2;
constexpr int rmpp_version = 1;
constexpr int timeout_ms = 1000;
constexpr int retries = 3;
constexpr int gsi_qp = 1;
constexpr u32 gsi_qkey = 0x8001'0000;
constexpr auto patience = std::chrono::seconds(6);  // longer than all retries
constexpr std::size_t most_answer = std::size_t{64} << 20;

namespace service {
using wire::Field;
constexpr u32 size = 176, gid_at = 8, name_at = 48, name_size = 64;  // bytes
constexpr Field id{0, 64}, pkey{192, 16}, lease{224, 32};
constexpr u32 words16_at = (name_at + name_size + 16) * 8, words32_at = words16_at + 8 * 16;  // bits
constexpr Field lid{words16_at, 16}, version{words16_at + 16, 16}, pair{words32_at, 32}, qkey{words32_at + 32, 32};
enum Mask : u32 {
  has_id = 0,
  has_gid = 1,
  has_pkey = 2,
  has_lease = 4,
  has_name = 6,
  has_words16 = 23,
  has_words32 = 31
};
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
  for (const u32 first : {u32{service::has_words16}, u32{service::has_words32}})
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
  subnet->agent_ =
      ::umad_register(subnet->umad_, static_cast<int>(wire::MgmtClass::subn_adm), sa_version, rmpp_version, nullptr);
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
  namespace header = wire::header;
  wire::set(mad, header::base_version, 1);
  wire::set(mad, header::mgmt_class, static_cast<u8>(wire::MgmtClass::subn_adm));
  wire::set(mad, header::class_version, sa_version);
  wire::set(mad, header::method, static_cast<u8>(question.method));
  wire::set(mad, header::transaction, number);
  wire::set(mad, header::attribute, static_cast<u16>(question.type));
  wire::set(mad, wire::sa::component_mask, question.mask);
  std::copy(question.record.begin(), question.record.end(), mad.begin() + wire::sa::data_at);
  ::umad_set_addr(buffer_.data(), manager_, gsi_qp, sl_, static_cast<int>(gsi_qkey));
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

// Questions to subnet administration by libibumad: where the aggregation manager is, and what the subnet looks like.
// Sent, and answered later; who has time may wait.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coll/error.h"
#include "coll/innetwork/messages.h"
#include "wire/mad.h"
#include "wire/sa_records.h"

namespace softib::coll::innetwork {

using Octets = std::vector<u8>;

class Subnet {
 public:
  [[nodiscard]] static Outcome<std::unique_ptr<Subnet>> open(const std::string& device, u8 port);
  Subnet(const Subnet&) = delete;
  Subnet& operator=(const Subnet&) = delete;
  ~Subnet();

  struct Question {
    wire::Method method = wire::Method::get_table;
    wire::RecordType type = wire::RecordType::node;
    u64 mask = 0;
    Octets record{};
  };
  struct Answer {
    u32 number = 0;  // of the question
    bool answered = true;
    u16 status = 0;
    std::vector<Octets> records;
  };
  // The number by which the answer comes; nothing: it couldn't be sent.
  [[nodiscard]] std::optional<u32> ask(const Question& question);
  [[nodiscard]] std::optional<Answer> next_answer(std::chrono::milliseconds wait = {});
  [[nodiscard]] int descriptor() const;

  // The records, or why there are none; at most a few seconds.
  [[nodiscard]] Outcome<std::vector<Octets>> get(const Question& question);

 private:
  Subnet() = default;

  int umad_ = -1;
  int agent_ = -1;
  u16 manager_ = 0;
  u8 sl_ = 0;
  u32 last_ = 0;
  Octets buffer_;
};

namespace node_record {
inline constexpr wire::Field lid{0, 16}, type{48, 8}, port_guid{192, 64};
inline constexpr u32 description_at = 44, size = 108;  // bytes
inline constexpr u8 is_switch = 2;
}  // namespace node_record

namespace link_record {
inline constexpr wire::Field from{0, 16}, to{32, 16};
inline constexpr u32 size = 6;  // bytes
}  // namespace link_record

// The service record of an aggregation manager.
struct ManagerService {
  std::array<u8, 16> gid{};  // of its port
  u32 lease = 0;             // seconds
  ManagerAddress address;
};
[[nodiscard]] Subnet::Question register_manager(const ManagerService& service);
[[nodiscard]] Subnet::Question unregister_manager(const ManagerService& service);
[[nodiscard]] Subnet::Question find_manager();
[[nodiscard]] std::optional<ManagerAddress> parse_manager(std::span<const u8> record);

}  // namespace softib::coll::innetwork

// The built-in subnet manager: sweeps, gives LIDs, routes, brings ports up, answers subnet administration. It speaks
// MADs only, through one port, and knows nothing of the network's insides; time comes in from outside.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/types.h"
#include "wire/packet.h"

namespace softib::sm {

enum class Routing : u8 { minhop, updn, ftree };

struct Options {
  Routing routing = Routing::minhop;
  u8 priority = 0;  // 0 to 15
  u8 lmc = 0;       // 0 to 7
  u64 subnet_prefix = 0xfe80'0000'0000'0000;
  u64 sweep_interval_ns = 10'000'000'000;  // light sweeps; 0: none
  u8 subnet_timeout = 18;
  std::string partitions;           // text of a partitions.conf; empty: the default partition for all
  bool only_named_members = false;  // of the default partition too; else all are limited members of it, as with opensm
};

// Upper half of the transaction id of everything that the manager asks: which responses at its port are its own.
inline constexpr u32 transaction_tag = 0x0053'4d00;

// To be routed to the manager at its port: SMPs that are no response, or carry the tag; GMPs of class SubnAdm likewise.
// The port shall have IsSM in its CapabilityMask; the manager can't set that by MADs.

// SM_Key: shown to other managers, which trust only one with their own; makes SA requests trusted. opensm's default, so
// that the two accept each other.
inline constexpr u64 sm_key = 1;

// What the manager sends by.
class Mouth {
 public:
  virtual ~Mouth() = default;
  // From the manager's own port. A response, if one comes, arrives by received(), maybe within this call.
  virtual void send(const wire::Packet& packet) = 0;
  // For people: "SUBNET UP", errors in partitions, duplicate GUIDs. One line.
  virtual void log(std::string_view line) = 0;
};

enum class State : u8 { not_active = 0, discovering = 1, standby = 2, master = 3 };  // SMInfo.SMState

class SubnetManager {
 public:
  // `own`: the GUID of the port that it sits on.
  static std::unique_ptr<SubnetManager> create(const Options& options, u64 own_guid, Mouth& mouth);
  virtual ~SubnetManager() = default;

  // A packet for QP 0 or 1 of its port that is the manager's: SMP responses to it, traps, SMInfo, SA requests.
  virtual void received(const wire::Packet& packet, u64 now) = 0;
  // Starts sweeps and repeats what got no answer. Gives when to call again (CLOCK_MONOTONIC ns), ~0: when something
  // comes.
  virtual u64 on_time(u64 now) = 0;
  // A sweep from the start, by the next on_time().
  virtual void sweep() = 0;

  [[nodiscard]] virtual State state() const = 0;
  [[nodiscard]] virtual bool subnet_up() const = 0;  // the last heavy sweep ended with all reachable ports ACTIVE
};

}  // namespace softib::sm

// Subnet administration (IBTA vol. 1, chapter 15): answers questions about the subnet and keeps multicast groups,
// services and subscriptions.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "fabric/partitions.h"
#include "sm/election.h"
#include "sm/multicast_tables.h"
#include "sm/requests.h"
#include "sm/routing.h"
#include "sm/subnet.h"
#include "wire/packet.h"

namespace softib::sm {

// What it looks at. All belongs to the manager and changes only between its calls.
struct View {
  const Subnet& subnet;
  const Tables& tables;
  const MulticastTables* const& multicast;
  const fabric::Partitions& partitions;
  const std::vector<Rival>& rivals;
  const Options& options;
  const Self& self;
  const u32& activity;
  Requests& requests;
  Mouth& mouth;
};

class Administration {
 public:
  // The members of a group changed: its tree is to be planted again. Switches know of it when this returns, or soon.
  using Replant = std::function<void(u16 mlid)>;

  static std::unique_ptr<Administration> create(const View& view, Replant replant);
  virtual ~Administration() = default;

  virtual void received(const wire::Packet& packet, u64 now) = 0;
  virtual u64 on_time(u64 now) = 0;

  // A heavy sweep is over; `came` and `left` are port GUIDs. Members and subscribers that left are forgotten.
  virtual void subnet_changed(const std::vector<u64>& came, const std::vector<u64>& left, u64 now) = 0;
  // A notice that somebody may have subscribed to.
  virtual void event(std::span<const u8> notice, u64 now) = 0;

  struct Group {
    u16 mlid = 0;
    std::vector<End> members;
    std::vector<End> senders;  // that don't receive
  };
  [[nodiscard]] virtual std::vector<Group> groups() const = 0;
  [[nodiscard]] virtual u32 highest_mlids() const = 0;  // MLIDs in use, counted from the first
};

}  // namespace softib::sm

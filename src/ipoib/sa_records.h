// The two records of subnet administration that IPoIB lives on: paths and multicast memberships.
#pragma once

#include "ipoib/port.h"
#include "ipoib/sa_client.h"
#include "wire/sa_records.h"

namespace softib::ipoib {

struct PathAnswer {
  Route route;
  u32 mtu;  // bytes
};
void ask_path(SaClient& client, const GidBytes& from, const GidBytes& to, u16 pkey,
              std::function<void(Result<PathAnswer>)> answer);

using wire::JoinState;

struct Membership {
  GidBytes mgid{};
  GidBytes port{};
  JoinState state = JoinState::full;
  u16 pkey = 0xffff;
};

// What a group is like.
struct GroupFacts {
  Route route;
  u32 qkey = 0;
  u32 mtu = 2048;  // bytes of payload
};
// With `creation` the group is made when it is not there.
void ask_join(SaClient& client, const Membership& membership, const GroupFacts* creation,
              std::function<void(Result<GroupFacts>)> answer);
void ask_leave(SaClient& client, const Membership& membership);

// Of the wire's code.
[[nodiscard]] u32 bytes_of_mtu(u64 code);
[[nodiscard]] Result<PathAnswer> parse_path(std::span<const u8> record);
[[nodiscard]] Result<GroupFacts> parse_membership(std::span<const u8> record);

}  // namespace softib::ipoib

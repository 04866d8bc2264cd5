// What a message costs on the wire, in the units of the port counters: packets, and words of four bytes from the local
// route header to the invariant CRC (IBTA 16.1.3.5: without delimiters and VCRC).
#pragma once

#include "hca/engine/verbs.h"
#include "ipc/segment.h"

namespace softib::hca {

struct WireCost {
  u32 out_packets = 0;  // from the requester
  u64 out_words = 0;
  u32 back_packets = 0;  // acknowledgements, READ and atomic responses
  u64 back_words = 0;
};

namespace wire_words {
inline constexpr u64 each = 2 + 3 + 1;  // LRH, BTH, ICRC
inline constexpr u64 grh = 10;
inline constexpr u64 deth = 2;
inline constexpr u64 reth = 4;
inline constexpr u64 atomic_eth = 7;
inline constexpr u64 aeth = 1;
inline constexpr u64 atomic_ack = 2;
inline constexpr u64 immediate = 1;  // also the key of SEND with invalidate
}  // namespace wire_words

// An acknowledgement, positive or negative.
constexpr u64 ack_words(bool global) { return wire_words::each + wire_words::aeth + (global ? wire_words::grh : 0); }

constexpr u32 packets_of(u64 length, u32 mtu) {
  if (length <= mtu || mtu == 0) return 1;
  return static_cast<u32>((length + mtu - 1) / mtu);
}

// `length`: bytes that move, of READ those that come back. `global`: each packet has a GRH.
constexpr WireCost wire_cost(ipc::QpType type, WrOpcode opcode, u64 length, u32 mtu, bool global) {
  const u64 each = wire_words::each + (global ? wire_words::grh : 0);
  const u64 payload = (length + 3) / 4;
  const u32 packets = packets_of(length, mtu);
  WireCost cost;
  switch (opcode) {
    case WrOpcode::rdma_read:
      return {1, each + wire_words::reth, packets, packets * each + payload + wire_words::aeth * (packets > 1 ? 2 : 1)};
    case WrOpcode::compare_swap:
    case WrOpcode::fetch_add:
      return {1, each + wire_words::atomic_eth, 1, each + wire_words::aeth + wire_words::atomic_ack};
    case WrOpcode::rdma_write:
    case WrOpcode::atomic_write:
    case WrOpcode::flush:
      cost = {packets, packets * each + payload + wire_words::reth, 0, 0};
      break;
    case WrOpcode::rdma_write_with_imm:
      cost = {packets, packets * each + payload + wire_words::reth + wire_words::immediate, 0, 0};
      break;
    case WrOpcode::send_with_imm:
    case WrOpcode::send_with_inv:
      cost = {packets, packets * each + payload + wire_words::immediate, 0, 0};
      break;
    default:
      cost = {packets, packets * each + payload, 0, 0};
      break;
  }
  if (type == ipc::QpType::ud) cost.out_words += packets * wire_words::deth;
  if (type == ipc::QpType::rc) {
    cost.back_packets = 1;
    cost.back_words = ack_words(global);
  }
  return cost;
}

}  // namespace softib::hca

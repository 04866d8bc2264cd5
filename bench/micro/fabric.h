// The least that the engine works on: a segment in this process, two connected queue pairs on two ports, and buffers
// on a memory file. No daemon: the records are written here as softibd writes them.
#pragma once

#include <memory>

#include "abi/rxe.h"
#include "base/fd.h"
#include "hca/engine.h"
#include "hca/engine/ring.h"
#include "hca/engine/verbs.h"
#include "ipc/client.h"
#include "ipc/segment.h"

namespace softib::bench {

inline constexpr u32 sender = 0x11;
inline constexpr u32 receiver = 0x12;
inline constexpr u32 queue_depth = 128;
inline constexpr u64 largest_message = 8ULL << 20;

class Fabric {
 public:
  Fabric();
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // Puts a work request into the sender's ring, as the provider does, without the doorbell.
  void post(hca::WrOpcode opcode, u64 length, u32 flags);
  void post_receive(u64 length);

  // Rings the sender's doorbell. Aborts on a refusal: the figures would mean nothing.
  void ring();

  // Takes all completions from both queues; aborts unless there are as many as named, all successful.
  void take_completions(u32 sent, u32 received);

 private:
  void make_ports();
  void make_buffers();
  void make_key(u32 index, u64 address);
  void make_cq(u32 index);
  void make_qp(u32 qpn, u32 peer, u32 port, u32 cq);
  u64 take_arena(u64 bytes);
  void take_from(u32 cq, u32 expected);
  [[nodiscard]] hca::Ring ring_of(u64 offset, u32 mask) { return {*segment_, offset, mask}; }

  ipc::Segment* segment_ = nullptr;
  u64 arena_used_ = 0;
  Fd memory_;
  u8* buffers_ = nullptr;  // the sender's, then the receiver's
  Fd listener_;
  std::unique_ptr<ipc::Client> client_;
  std::unique_ptr<hca::Engine> engine_;
};

}  // namespace softib::bench

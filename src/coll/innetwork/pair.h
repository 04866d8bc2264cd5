// What both ends of a tree's edge are made of: an RC queue pair whose messages are segments, and memory that the HCA
// knows. Over the public verbs interface alone.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <span>

#include "coll/error.h"
#include "coll/innetwork/messages.h"
#include "coll/transport/verbs/resources.h"

namespace softib::coll::innetwork {

// A port of an HCA that somebody else has opened.
struct OpenPort {
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  std::string device;
  u8 number = 1;
  u16 lid = 0;
  u8 mtu = IBV_MTU_4096;  // as ibv_mtu
};

struct PairSettings {
  u16 pkey_index = 0;
  u8 sl = 0;
  u8 timeout = 20;
  u8 retries = 7;
};

struct Unmap {
  std::size_t bytes = 0;
  void operator()(std::byte* at) const;
};

class Region {
 public:
  Region() = default;
  [[nodiscard]] static Outcome<Region> make(ibv_pd* domain, std::size_t bytes);

  [[nodiscard]] std::span<std::byte> bytes() const { return {memory_.get(), memory_.get_deleter().bytes}; }
  [[nodiscard]] u32 key() const { return key_->lkey; }

 private:
  std::unique_ptr<std::byte, Unmap> memory_;
  verbs::RegionOwner key_;  // goes first
};

// A completion queue whose channel can be waited on.
struct Completions {
  verbs::ChannelOwner channel;
  verbs::QueueOwner queue;

  [[nodiscard]] static Outcome<Completions> make(ibv_context* context, u32 entries);
  // False: something has come in between.
  [[nodiscard]] bool arm();
  [[nodiscard]] int descriptor() const { return channel->fd; }
  // Takes the channel's events back; polls are for the caller.
  void take_events();
};

class Pair {
 public:
  Pair() = default;
  [[nodiscard]] static Outcome<Pair> make(const OpenPort& port, ibv_cq* completions, u32 sends, u32 receives,
                                          const PairSettings& settings);
  [[nodiscard]] Outcome<void> connect(const End& there);

  [[nodiscard]] End end() const { return end_; }
  [[nodiscard]] explicit operator bool() const { return pair_ != nullptr; }
  void close() { pair_.reset(); }

  // Each makes a completion of that name. False: the queue pair takes no more.
  [[nodiscard]] bool receive(u64 name, std::span<std::byte> memory, u32 key) const;
  [[nodiscard]] bool send(u64 name, std::span<const std::byte> memory, u32 key) const;
  // Writes nothing at the other end, and comes back with an error if that is no more.
  [[nodiscard]] bool probe(u64 name) const;

 private:
  verbs::PairOwner pair_;
  End end_;
  PairSettings settings_;
  u8 port_ = 1;
};

}  // namespace softib::coll::innetwork

// A port of an HCA, by libibverbs, and its objects as owned values.
#pragma once

#include <infiniband/verbs.h>

#include <functional>
#include <memory>

#include "base/release.h"
#include "ipoib/loop.h"
#include "ipoib/options.h"

namespace softib::ipoib {

using Context = std::unique_ptr<ibv_context, Release<ibv_close_device>>;
using ProtectionDomain = std::unique_ptr<ibv_pd, Release<ibv_dealloc_pd>>;
using Channel = std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>>;
using CompletionQueue = std::unique_ptr<ibv_cq, Release<ibv_destroy_cq>>;
using QueuePair = std::unique_ptr<ibv_qp, Release<ibv_destroy_qp>>;
using SharedReceives = std::unique_ptr<ibv_srq, Release<ibv_destroy_srq>>;
using AddressHandle = std::unique_ptr<ibv_ah, Release<ibv_destroy_ah>>;

struct Unmap {
  std::size_t size = 0;
  void operator()(u8* at) const;
};

// Memory that the HCA may use.
class Region {
 public:
  Region() = default;
  [[nodiscard]] static Result<Region> make(ibv_pd* pd, std::size_t size);
  [[nodiscard]] u8* data() const { return memory_.get(); }
  [[nodiscard]] u32 key() const { return key_->lkey; }

 private:
  std::unique_ptr<u8, Unmap> memory_;
  std::unique_ptr<ibv_mr, Release<ibv_dereg_mr>> key_;
};

// How a datagram gets to a port or a group.
struct Route {
  u16 lid = 0;
  u8 sl = 0;
  u8 rate = 0;
  bool is_group = false;
  GidBytes gid{};  // of a group: GRH
  u32 flow_label = 0;
  u8 hop_limit = 0;
  u8 traffic_class = 0;
};

class Port {
 public:
  [[nodiscard]] static Told<std::unique_ptr<Port>> open(const std::string& device, u32 number);

  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const { return domain_.get(); }
  [[nodiscard]] const std::string& device() const { return device_; }
  [[nodiscard]] u8 number() const { return number_; }
  [[nodiscard]] std::string name() const;

  // As they were at the last refresh().
  [[nodiscard]] bool is_active() const { return attributes_.state == IBV_PORT_ACTIVE; }
  [[nodiscard]] const ibv_port_attr& attributes() const { return attributes_; }
  [[nodiscard]] const GidBytes& gid() const { return gid_; }
  [[nodiscard]] u64 guid() const;
  void refresh();

  [[nodiscard]] u16 first_pkey() const;
  [[nodiscard]] std::vector<u16> pkeys() const;
  // Where in the port's table a P_Key is; full membership goes before limited.
  [[nodiscard]] std::optional<u16> pkey_index(u16 pkey) const;
  [[nodiscard]] Result<AddressHandle> address_handle(const Route& route) const;

  // Calls `changed` for each asynchronous event of this port or the whole device.
  void watch(Loop& loop, std::function<void(ibv_event_type)> changed);

 private:
  void take_events();

  std::string device_;
  u8 number_ = 0;
  Context context_;
  ProtectionDomain domain_;
  ibv_port_attr attributes_{};
  GidBytes gid_{};
  std::function<void(ibv_event_type)> changed_;
};

// All InfiniBand ports of this host, in order.
struct ListedPort {
  std::string device;
  u32 number;
  auto operator<=>(const ListedPort&) const = default;
};
[[nodiscard]] std::vector<ListedPort> list_ports();
[[nodiscard]] bool is_there(const std::string& device);

}  // namespace softib::ipoib

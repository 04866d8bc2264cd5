// Owners of what libibverbs gives out.
#pragma once

#include <infiniband/verbs.h>

#include <memory>

namespace softib::coll::verbs {

template <auto give_back>
struct GiveBack {
  template <typename T>
  void operator()(T* it) const {
    static_cast<void>(give_back(it));
  }
};

using ContextOwner = std::unique_ptr<ibv_context, GiveBack<&ibv_close_device>>;
using DomainOwner = std::unique_ptr<ibv_pd, GiveBack<&ibv_dealloc_pd>>;
using ChannelOwner = std::unique_ptr<ibv_comp_channel, GiveBack<&ibv_destroy_comp_channel>>;
using QueueOwner = std::unique_ptr<ibv_cq, GiveBack<&ibv_destroy_cq>>;
using PairOwner = std::unique_ptr<ibv_qp, GiveBack<&ibv_destroy_qp>>;
using RegionOwner = std::unique_ptr<ibv_mr, GiveBack<&ibv_dereg_mr>>;

struct DeviceList {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);  // nullptr: with errno
  DeviceList() = default;
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (devices != nullptr) ibv_free_device_list(devices);
  }
};

}  // namespace softib::coll::verbs

// Names from NodeDescriptions: which host an HCA belongs to, and what a switch may be called here.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>

namespace softib::fabric::topo {

struct HcaName {
  std::string host;    // empty: the description names none
  std::string device;  // empty: nor a device
};

// "node17 mlx5_0", "node17 HCA-1" (device mlx5_0), "node 17/mlx5_0", "node17", "node17 somewhere"; and "MT4123
// ConnectX6 Mellanox Technologies" or the like, what a card says before its host has given it a name: nothing.
[[nodiscard]] HcaName name_from_description(std::string_view description);

// SHARP's end node inside a switch.
[[nodiscard]] bool is_aggregation_node(std::string_view description);

// The nearest valid name to `text`, or `fallback` when nothing of it can be used.
[[nodiscard]] std::string as_host_name(std::string_view text, std::string_view fallback);
[[nodiscard]] std::string as_switch_name(std::string_view text, std::string_view fallback);

// Gives each name once: the second "leaf" is "leaf-2".
class UniqueNames {
 public:
  std::string take(std::string name);

 private:
  std::unordered_set<std::string> taken_;
};

// "node2" before "node10".
[[nodiscard]] bool natural_less(std::string_view a, std::string_view b);

}  // namespace softib::fabric::topo

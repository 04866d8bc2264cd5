// Which port has which LID. A port keeps its LID for as long as this manager lives, and the one that it came with if
// that is good.
#pragma once

#include <unordered_map>

#include "sm/subnet.h"

namespace softib::sm {

class Lids {
 public:
  // Fills in lid and lmc of all end ports and the subnet's table by LID. Ports left without a LID have 0.
  void assign(Subnet& subnet, u8 lmc);

 private:
  struct Span {
    u32 first = 0;
    u32 count = 0;
  };
  [[nodiscard]] static Span span_of(const Subnet& subnet, End end, u8 lmc);
  static bool free(const std::vector<bool>& taken, Span span);
  void remember(Subnet& subnet);
  static void take(std::vector<bool>& taken, Span span);

  std::unordered_map<u64, u16> given_;  // by port GUID
};

}  // namespace softib::sm

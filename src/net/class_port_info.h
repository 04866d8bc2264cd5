// What the ClassPortInfo of all agents of the fabric's nodes begins with.
#pragma once

#include "wire/class_port_info.h"

namespace softib::net {

inline void begin_class_port_info(std::span<u8> data) {
  namespace info = wire::class_port_info;
  constexpr u8 response_time = 18;  // 4.096 us * 2^18: a second
  wire::set(data, info::base_version, 1);
  wire::set(data, info::class_version, 1);
  wire::set(data, info::response_time, response_time);
}

}  // namespace softib::net

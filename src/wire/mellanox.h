// Mellanox' own management class: what its devices tell of themselves. The layout is that of infiniband-diags' vendstat
// and of ibutils.
#pragma once

#include "wire/mad.h"

namespace softib::wire::mellanox {

inline constexpr u32 data_at = 32;  // bytes; an 8-byte key lies before it
inline constexpr u32 data_size = 224;

enum class Attribute : u16 { class_port_info = 0x0001, general_info = 0x0017 };

namespace general_info {
inline constexpr Field hw_revision{0, 16};
inline constexpr Field device_id{16, 16};
inline constexpr Field uptime{224, 32};  // seconds
// Of the firmware's version, 8 bits each; what is more is in the long form.
inline constexpr Field major{264, 8};
inline constexpr Field minor{272, 8};
inline constexpr Field sub_minor{280, 8};
inline constexpr u32 psid_at = 48;  // bytes; text, ended by a 0
inline constexpr u32 psid_size = 16;
inline constexpr Field long_major{544, 32};
inline constexpr Field long_minor{576, 32};
inline constexpr Field long_sub_minor{608, 32};
}  // namespace general_info

}  // namespace softib::wire::mellanox

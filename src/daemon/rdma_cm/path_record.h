// PathRecords, between subnet administration's form and the connection protocol's.
#pragma once

#include <array>
#include <span>

#include "cm/types.h"

namespace softib::daemon {

inline constexpr size_t path_record_size = 64;
using PathRecordBytes = std::array<u8, path_record_size>;

[[nodiscard]] cm::Path read_path(std::span<const u8> record, bool ethernet);
[[nodiscard]] PathRecordBytes write_path(const cm::Path& path);

}  // namespace softib::daemon

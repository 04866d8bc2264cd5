// PathRecords, between subnet administration's form and the connection protocol's.
#pragma once

#include <array>
#include <span>

#include "cm/types.h"
#include "wire/sa_records.h"

namespace softib::daemon {

using PathRecordBytes = std::array<u8, wire::path_record::size>;

[[nodiscard]] cm::Path read_path(std::span<const u8> record, bool ethernet);
[[nodiscard]] PathRecordBytes write_path(const cm::Path& path);

}  // namespace softib::daemon

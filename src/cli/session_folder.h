// The folder of a fabric as the command sees it: locked while it is made or taken away, checked before it is trusted.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "fabric/fabric.h"

namespace softib::cli {

// Holds flock on the fabric's folder, so that two `softib up` or `down` of the same fabric come one after the other.
struct LockedFolder {
  std::string path;
  Fd lock;
};

// Makes runtime directory and folder when `create`; the folder may be missing otherwise (then lock is empty).
[[nodiscard]] fabric::Parsed<LockedFolder> lock_folder(std::string_view fabric, bool create);

// Everything in it, then itself. Nothing outside is followed.
[[nodiscard]] fabric::Parsed<void> remove_folder(const std::string& path);
[[nodiscard]] fabric::Parsed<void> empty_folder(const std::string& path);

// The folder of a running fabric, if it is one to trust. The error names the remedy.
[[nodiscard]] fabric::Parsed<std::string> running_folder(std::string_view fabric);

// "softib up", or "softib up --name lab"
[[nodiscard]] std::string command_for(std::string_view command, std::string_view fabric);

}  // namespace softib::cli

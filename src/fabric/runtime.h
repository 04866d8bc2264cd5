// Where a running fabric lives on disk, and who may touch it.
//
//   <runtime dir>/<fabric>/          0700, owned by the user
//       fabric.yaml                  the complete description; `softib up` writes it, softibd reads it
//       lock                         softibd holds flock(LOCK_EX) on it for as long as it lives
//       daemon.sock daemon.pid       softibd's own; gone after a clean end
//       daemon.log                   softibd's stderr
//       hosts/<host>/sys, .../dev    fabric/sysfs.h; of hosts that programs have run on
//
// softibd is started as `softibd --dir <runtime dir>/<fabric>`: in the foreground, stdin /dev/null, stdout and stderr
// on daemon.log, in a session of its own. It is ready once daemon.sock accepts. SIGTERM ends it cleanly.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "fabric/fabric.h"

namespace softib::fabric {

// $SOFTIB_RUNTIME_DIR, else $XDG_RUNTIME_DIR/softib, else /tmp/softib-<uid>.
[[nodiscard]] std::string runtime_dir();
[[nodiscard]] std::string fabric_dir(std::string_view fabric);

// Makes a folder of mode 0700, or checks that it is one of ours: a real folder (no symbolic link in its last part),
// owned by this user, closed to others. The error tells what is wrong with it and what to do.
[[nodiscard]] Parsed<Fd> open_private_dir(const std::string& path, bool create);

// softibd's hold on its folder, for the descriptor's life. EWOULDBLOCK: another one has it. Waits out those who only
// look (liveness() below).
[[nodiscard]] Result<Fd> take_lock(const std::string& dir);

enum class Liveness : u8 {
  absent,   // no folder
  stale,    // a folder, and nobody holds its lock: softibd ended without cleaning up, or never started
  running,  // softibd lives (daemon.sock may not accept yet)
};
[[nodiscard]] Liveness liveness(const std::string& dir);

// Names of the fabrics under a runtime directory, sorted, running or stale.
[[nodiscard]] std::vector<std::string> fabrics_in(const std::string& runtime);

// Writes a whole file by way of a temporary one beside it and a rename, so that a reader sees the old or the new.
[[nodiscard]] Result<void> write_file(const std::string& path, std::string_view text, mode_t mode = 0644);
[[nodiscard]] Result<std::string> read_file(const std::string& path);

}  // namespace softib::fabric

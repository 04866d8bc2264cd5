// The sockets of open umad files: frames in, to the layer; frames out, from it.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/fd.h"
#include "daemon/mad/layer.h"
#include "daemon/watcher.h"

namespace softib::daemon {

class UmadFiles {
 public:
  explicit UmadFiles(Watcher& watcher) : watcher_(watcher) {}

  // Makes the pair for a file that the layer knows; gives the program's end.
  Result<Fd> add(u32 file);
  void remove(u32 file);

  // Reads what the program wrote, one call of `take` a MAD. False: the last copy of the program's end is closed.
  using Take = std::function<void(const ipc::UmadFrame&, std::span<const u8>)>;
  bool read(u32 file, const Take& take);

  // To the program. A program that reads nothing loses what passes `longest_queue`, as MADs may be lost anywhere.
  void deliver(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad);

  // Tries what a full socket kept back. True while some is left.
  bool flush();
  [[nodiscard]] bool has_waiting() const { return waiting_ != 0; }

 private:
  static constexpr size_t longest_queue = 65536;
  struct Waiting {
    ipc::UmadFrame frame;
    std::vector<u8> mad;
  };
  struct File {
    Fd socket;
    std::deque<Waiting> queue;
  };
  static bool send(int socket, const ipc::UmadFrame& frame, std::span<const u8> mad);

  Watcher& watcher_;
  std::map<u32, File> files_;
  size_t waiting_ = 0;
  std::vector<u8> buffer_ = std::vector<u8>(ipc::inline_mad);
};

}  // namespace softib::daemon

// Questions to softibd that need no place on the fabric, over a connection of their own: a program that only looks at
// sysfs takes no process slot and maps no segment.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "ipc/client.h"

namespace softib::shim {

// The connection, for one question at a time. It is out of everybody's reach meanwhile, so no lock can be found held in
// the child of a fork.
class Line {
 public:
  // The one that was given back, or a new one to the daemon in this folder.
  static Result<std::unique_ptr<Line>> take(std::string_view folder);
  static void give_back(std::unique_ptr<Line> line);

  [[nodiscard]] ipc::Client& client() const { return *client_; }

 private:
  Line(std::unique_ptr<ipc::Client> client, int owner) : client_(std::move(client)), owner_(owner) {}

  std::unique_ptr<ipc::Client> client_;
  int owner_;  // process: a child's copy of the connection is not the child's
};

// ECONNREFUSED, ENOENT: no daemon is there; EIO: it has just gone.
template <typename Call>
Result<typename Call::Reply> ask_daemon(std::string_view folder, const typename Call::Request& request) {
  Result<typename Call::Reply> reply = fail(EIO);
  // Twice: the kept connection may be one to a daemon that has been replaced since.
  for (int tries = 0; tries < 2 && !reply && to_int(reply.error()) == EIO; ++tries) {
    auto line = Line::take(folder);
    if (!line) return fail(line.error());
    reply = (*line)->client().template call<Call>(0, request);
    if (reply || to_int(reply.error()) != EIO) Line::give_back(std::move(*line));
  }
  return reply;
}

}  // namespace softib::shim

// The keeper of a fabric's hosts: makes their namespaces, holds them, and lets programs of the same user in. It ends
// with softibd, and everything that it holds ends with it.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"
#include "hosts/closet.h"
#include "hosts/place.h"
#include "ipc/places.h"

namespace softib::hosts {

struct KeeperOptions {
  Surroundings around;
  std::string fabric;
  std::vector<PlaceSpec> hosts;
};

class Keeper {
 public:
  // `daemon`: the socket to softibd.
  Keeper(KeeperOptions options, Fd daemon);

  // Until softibd ends, or SIGTERM. The exit code.
  int run();

 private:
  [[nodiscard]] fabric::Parsed<void> start();
  void join_machine();
  [[nodiscard]] fabric::Parsed<void> listen();
  // Several at once: each is set up while the next is begun.
  [[nodiscard]] fabric::Parsed<void> make(std::span<const PlaceSpec> specs);

  void report(ipc::KeeperReport::Kind kind, std::string_view text);
  void watch_until_the_end();
  // False: it is time to end.
  [[nodiscard]] bool hear_daemon() const;
  [[nodiscard]] bool take_signals();
  void bury(pid_t pid);

  void accept_one();
  void answer(int client);
  // The error is for the program that asked.
  [[nodiscard]] fabric::Parsed<Place*> place_of(std::string_view host);

  KeeperOptions options_;
  Fd daemon_;
  Fd signals_;
  Fd listener_;
  std::vector<Fd> clients_;
  std::optional<Closet> closet_;
  std::map<std::string, Place, std::less<>> places_;
  Notes notes_;
};

}  // namespace softib::hosts

// Messages between hosts by RC queue pairs, over the public verbs interface alone: docs/design/collectives.md, "Queue
// pairs", has the protocol.
#pragma once

#include <memory>
#include <span>

#include "coll/bootstrap/bootstrap.h"
#include "coll/environment.h"
#include "coll/transport/transport.h"

namespace softib::coll {

class VerbsTransport {
 public:
  // Collective: all ranks call it, each with the peers that it wants to reach so (may be none); who names a peer is
  // named by it. Connects all of them. Fails on all ranks if it does on one, with every device that was seen and why it
  // wasn't used: Code::system_error. Callers fall back to TCP then.
  [[nodiscard]] static Outcome<std::unique_ptr<Transport>> create(Bootstrap& bootstrap, const Environment& environment,
                                                                  std::span<const u32> peers);
};

}  // namespace softib::coll

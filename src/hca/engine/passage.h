// Messages on links that are paced, slow or lossy. Such a message is not carried out when it is posted, but when its
// last packet would have arrived; or it is lost. Clean links never come here.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "hca/engine/outcome.h"
#include "hca/engine/send_work.h"
#include "hca/rules/wire_cost.h"

namespace softib::hca {

// The way of an address that had just been looked up, if there is something on it for a message to pass.
[[nodiscard]] inline bool must_pass(ipc::AddressVector& av) {
  return std::atomic_ref(av.way).load(std::memory_order_relaxed) != 0;
}

// Whether the message at the head of the queue has passed: nothing if so, else what this try comes to (it is on its way
// until requester.deadline, or got lost). Of a message without answer (UC, UD) a loss is a success that nobody sees.
[[nodiscard]] std::optional<Outcome> pass(Context& context, const SendWork& work, ipc::AddressVector& av,
                                          const WireCost& cost);

// Which copies of a multicast message get lost beyond the first link, by position in the way's ports. Empty: none.
[[nodiscard]] std::vector<bool> lost_copies(Context& context, ipc::AddressVector& av, const WireCost& cost);

// What stands in the queue behind a message that is on its way has been posted by now, and follows it without a gap.
void note_posted(Context& context, const ipc::Qp& qp);

}  // namespace softib::hca

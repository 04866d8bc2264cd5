// A mailbox with a UD queue pair under it.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "base/release.h"
#include "coll/innetwork/mailbox.h"
#include "coll/innetwork/pair.h"

namespace softib::coll::innetwork {

class Post {
 public:
  [[nodiscard]] static Outcome<std::unique_ptr<Post>> open(const OpenPort& port, const PairSettings& settings,
                                                           MailboxLimits limits = {});

  [[nodiscard]] Mailbox& mailbox() { return mailbox_; }
  [[nodiscard]] Correspondent address() const { return {port_.lid, pair_->qp_num}; }
  // Becomes readable after arm() when something comes.
  [[nodiscard]] int descriptor() const { return completions_.descriptor(); }
  [[nodiscard]] bool arm() { return completions_.arm(); }
  // Takes in what has come, and sends what is to be sent. True if anything moved.
  bool turn(Mailbox::Time now);

 private:
  Post(const OpenPort& port, u64 seed, const MailboxLimits& limits) : port_(port), mailbox_(seed, limits) {}
  [[nodiscard]] Outcome<void> make_pair(const PairSettings& settings);
  [[nodiscard]] bool post_receive(u32 slot);
  bool take_completions(Mailbox::Time now);
  bool send_waiting();
  [[nodiscard]] ibv_ah* handle_for(u16 lid);
  [[nodiscard]] std::span<std::byte> slot(u32 number) const {
    return region_.bytes().subspan(std::size_t{number} * slot_bytes_, slot_bytes_);
  }

  using HandleOwner = std::unique_ptr<ibv_ah, Release<ibv_destroy_ah>>;

  OpenPort port_;
  u8 sl_ = 0;
  Mailbox mailbox_;
  u32 slot_bytes_ = 0;
  Region region_;  // receives first, then sends
  Completions completions_;
  std::map<u16, HandleOwner> handles_;
  verbs::PairOwner pair_;
  std::vector<u32> free_sends_;
};

}  // namespace softib::coll::innetwork

// Random collectives and messages on communicators of random ranks, algorithms, lanes and transports, each compared
// with the plain reference. Everything comes from one seed that all ranks have, but for the order of waiting, which is
// each rank's own.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "call_trial.h"

namespace softib::coll::test {

// What a session may choose freely; otherwise it is as the program's environment has it.
struct Freedom {
  bool shm = false;    // with or without
  bool verbs = false;  // likewise
  bool hosts = false;  // ranks of one host may pass for ranks of several
};

// How much has been done.
struct Tally {
  u64 sessions = 0;
  u64 communicators = 0;
  u64 collectives = 0;
  u64 messages = 0;
};

// Messages between ranks, all of one call; who has none doesn't call.
class MessagesRank {
 public:
  MessagesRank(Communicator& communicator, std::mt19937_64 random);

  [[nodiscard]] bool takes_part() const { return !messages_.empty(); }
  [[nodiscard]] u64 size() const { return messages_.size(); }
  [[nodiscard]] Started start(Communicator& communicator) const { return communicator.start_messages(messages_); }
  [[nodiscard]] std::string fault() const;

 private:
  struct Parcel {
    PointToPoint::Kind kind = PointToPoint::Kind::send;
    u32 peer = 0;
    u64 name = 0;
    std::vector<std::byte> bytes;
  };
  void shuffle(std::vector<Parcel> parcels, std::mt19937_64& random);

  std::vector<Parcel> parcels_;
  std::vector<PointToPoint> messages_;
};

class RandomRun {
 public:
  // `folder`: for the tuning files.
  RandomRun(Communicator& whole, const Freedom& freedom, std::string folder);

  // Collective over `whole`. What is wrong; empty: nothing.
  [[nodiscard]] std::string session(u64 seed);
  [[nodiscard]] const Tally& tally() const { return tally_; }

 private:
  // This rank's part in something that is under way.
  struct Part {
    std::variant<CallRank, MessagesRank> call;
    std::string what;
    Request request{};
  };

  void choose_settings(std::mt19937_64& random);
  [[nodiscard]] std::string use_part(Communicator& part, u64 seed);
  [[nodiscard]] std::string use_half(Communicator& part, u64 seed);
  [[nodiscard]] std::optional<Part> any_part(Communicator& part, std::mt19937_64& random);
  [[nodiscard]] std::string batch(Communicator& part, std::mt19937_64& random);

  Communicator& whole_;
  Freedom freedom_;
  std::string folder_;
  Tally tally_;
};

}  // namespace softib::coll::test

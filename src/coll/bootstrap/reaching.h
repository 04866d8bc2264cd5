// The way to one of several addresses of the same place.
#pragma once

#include <string>
#include <vector>

#include "coll/bootstrap/messages.h"
#include "coll/net/sockets.h"

namespace softib::coll {

// Tries the addresses in their order: the next one as soon as one has failed, or keeps silent for a while; earlier
// ones may still win. When all have failed they are tried again, as whoever is to listen there may come later.
class Reaching {
 public:
  struct Reached {
    Fd fd;
    std::size_t which = 0;  // of the addresses
  };

  Reaching(const MeetingPlace& place, Clock::time_point deadline);
  // The error names each address, with what came of it.
  [[nodiscard]] Outcome<Reached> run();

 private:
  struct Try {
    Fd fd;                         // under way
    std::optional<Errno> error{};  // the last one; nothing: no answer
  };

  void begin_round();
  void begin_next();
  [[nodiscard]] bool is_under_way() const;
  [[nodiscard]] bool all_begun() const { return next_ == tries_.size(); }
  [[nodiscard]] std::optional<Reached> look();
  [[nodiscard]] std::optional<Reached> look_at(std::size_t which);
  [[nodiscard]] bool is_over() const;
  [[nodiscard]] bool is_hopeless() const;
  [[nodiscard]] Clock::time_point end_of_round() const;
  [[nodiscard]] Error failure() const;
  [[nodiscard]] std::string results() const;

  const MeetingPlace& place_;
  Clock::time_point deadline_;
  std::vector<Try> tries_;  // by address
  std::size_t next_ = 0;
  Clock::time_point next_at_;
  std::optional<Clock::time_point> refused_at_;
};

}  // namespace softib::coll

// A bar for people at a terminal: what is measured now, and how much is done. It is gone whenever a line is
// written to stdout, which may be the same terminal.
#pragma once

#include <optional>
#include <string>

#include "base/types.h"

namespace softib::perf {

class Progress {
 public:
  // On `stream`; nothing where there is none, or nothing to count.
  Progress(std::optional<int> stream, u64 steps) : stream_(steps > 1 ? stream : std::nullopt), steps_(steps) {}
  ~Progress() { hide(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& what);
  void hide();
  void step() { ++done_; }

  // "[####......]  4/10 what"
  [[nodiscard]] static std::string bar(u64 done, u64 steps, const std::string& what);
  // The stream that leads to the terminal where stderr is one, or leads to one through the launcher.
  [[nodiscard]] static std::optional<int> terminal();

 private:
  void put(const std::string& text) const;

  std::optional<int> stream_;
  u64 steps_;
  u64 done_ = 0;
  bool drawn_ = false;
};

}  // namespace softib::perf

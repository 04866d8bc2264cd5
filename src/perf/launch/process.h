// One process of a run, as its launcher sees it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/types.h"

namespace softib::perf {

class LaunchedProcess {
 public:
  // Words, and variables beside those of this process. In a process group of its own, so that what a terminal sends
  // comes to the launcher alone.
  [[nodiscard]] static Result<LaunchedProcess> start(const std::vector<std::string>& words,
                                                     const std::vector<std::string>& variables);

  [[nodiscard]] int output() const { return output_.get(); }  // -1 at its end
  [[nodiscard]] int errors() const { return errors_.get(); }
  [[nodiscard]] bool has_ended() const { return status_.has_value(); }
  [[nodiscard]] pid_t id() const { return id_; }
  // Once it has ended: its exit code, or 128 and the signal's number.
  [[nodiscard]] int exit_code() const { return status_.value_or(0); }

  // Looks whether it has ended.
  void look();
  // Its stdin ends: for one on another host that is the word to end.
  void close_input() { input_.reset(); }
  void signal(int number) const;

  // Reads what is there into `held`; false at the end.
  [[nodiscard]] bool read_output() { return read_from(output_, held_output); }
  [[nodiscard]] bool read_errors() { return read_from(errors_, held_errors); }
  std::string held_output;
  std::string held_errors;

 private:
  static bool read_from(Fd& stream, std::string& held);

  pid_t id_ = -1;
  Fd input_;
  Fd output_;
  Fd errors_;
  std::optional<int> status_;
};

}  // namespace softib::perf

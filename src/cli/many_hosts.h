// One command on several hosts at once.
#pragma once

#include <string>
#include <vector>

#include "cli/environment.h"

namespace softib::cli {

enum class Prefix : u8 { host, none };  // of each line of output: "host0: ", or nothing

// Each gets nothing on its stdin. Returns when all have ended, with the highest exit code.
[[nodiscard]] int run_on_many(const std::vector<HostEnvironment>& hosts, const std::vector<std::string>& command,
                              Prefix prefix);

// Gives whole lines out of pieces of output.
class LineWriter {
 public:
  LineWriter(int fd, std::string prefix) : fd_(fd), prefix_(std::move(prefix)) {}
  void add(std::string_view piece);
  void finish();  // a last line without its end gets one

 private:
  void write(std::string_view line) const;

  int fd_;
  std::string prefix_;
  std::string begun_;
};

}  // namespace softib::cli

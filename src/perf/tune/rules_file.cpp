#include "perf/tune/rules_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/error_text.h"
#include "perf/stop.h"

namespace softib::perf::tune {

RulesFile::RulesFile() : file_(::memfd_create("softib-tune", MFD_CLOEXEC)) {
  if (!file_) throw Stop{Exit::internal_error, "no temporary file: " + error_text()};
  path_ = fmt::format("/proc/self/fd/{}", file_.get());
  // What is set for good would stand in the way of what is to be measured.
  ::unsetenv("SOFTIB_ALGO");
  ::unsetenv("SOFTIB_TUNING_FILE");
}

void RulesFile::set(const std::string& text) {
  if (text.empty()) {
    ::unsetenv("SOFTIB_TUNING_FILE");
    return;
  }
  std::ofstream file(path_, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw Stop{Exit::internal_error, path_ + " can't be written: " + error_text()};
  ::setenv("SOFTIB_TUNING_FILE", path_.c_str(), 1);
}

}  // namespace softib::perf::tune

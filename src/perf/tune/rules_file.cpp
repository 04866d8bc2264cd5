#include "perf/tune/rules_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error_text.h"
#include "perf/stop.h"

namespace softib::perf::tune {

RulesFile::RulesFile() {
  std::error_code error;
  path_ = (std::filesystem::temp_directory_path(error) / "softib-tune-XXXXXX").string();
  const int file = error ? -1 : ::mkstemp(path_.data());
  if (file < 0) throw Stop{Exit::internal_error, "no temporary file: " + error_text()};
  ::close(file);
  // What is set for good would stand in the way of what is to be measured.
  ::unsetenv("SOFTIB_ALGO");
  ::unsetenv("SOFTIB_TUNING_FILE");
}

RulesFile::~RulesFile() { ::unlink(path_.c_str()); }

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

// Runs the softib command (or a shell line with it) in a runtime directory of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "fabric/temp_dir.h"

namespace softib::test {

struct Outcome {
  int exit_code = -1;  // -1 when a signal ended it
  int signal = 0;
  std::string out;
  std::string err;
};

class CommandTest : public testing::Test {
 protected:
  CommandTest();
  ~CommandTest() override;

  // Words go to the command as they are.
  Outcome softib(const std::vector<std::string>& words);
  // A line for /bin/sh; $SOFTIB is the command.
  Outcome shell(const std::string& line);

  [[nodiscard]] std::string fabric_dir(const std::string& name = "default") const { return runtime() + "/" + name; }
  [[nodiscard]] std::string runtime() const { return runtime_; }
  void set_runtime(const std::string& path);
  // From daemon.pid; 0 when there is none.
  [[nodiscard]] pid_t daemon(const std::string& name = "default") const;
  void write(const std::string& name, const std::string& text);
  [[nodiscard]] std::string file(const std::string& name) const { return dir_ / name; }

 private:
  TempDir dir_;
  std::string runtime_;
};

[[nodiscard]] bool is_running(pid_t pid);
[[nodiscard]] bool ends_soon(pid_t pid);
[[nodiscard]] std::string quoted(const std::string& word);

}  // namespace softib::test

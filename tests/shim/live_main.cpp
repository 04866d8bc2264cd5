// Brings up a fabric of its own in a temporary runtime directory and runs this test binary on host0 of it; then again
// for the tests that end the daemon.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "shim/live_commands.h"

namespace {

int run(const std::string& arguments) {
  int status = std::system((std::string(SOFTIB_COMMAND " ") + arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run_tests(int argc, char** argv, const std::string& filter) {
  if (run("up > /dev/null") != 0) return 1;
  std::string self = std::filesystem::canonical("/proc/self/exe").string();
  std::string command = "run host0 -- " + self;
  for (int i = 1; i < argc; ++i) command += std::string(" '") + argv[i] + "'";
  int result = run(command + (argc > 1 ? "" : " --gtest_filter=" + filter));
  run("down > /dev/null 2>&1");
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  if (std::getenv("SOFTIB_FABRIC_DIR")) {
    if (auto done = softib::tests::run_live_command(argc, argv)) return *done;
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "softib-shim-live-XXXXXX").string();
  if (!::mkdtemp(pattern.data())) return 1;
  ::setenv("SOFTIB_RUNTIME_DIR", pattern.c_str(), 1);
  ::setenv("SOFTIB_NAMESPACES", "off", 1);
  int result = run_tests(argc, argv, "-DaemonGone.*");
  if (result == 0 && argc == 1) result = run_tests(argc, argv, "DaemonGone.*");
  std::filesystem::remove_all(pattern);
  return result;
}

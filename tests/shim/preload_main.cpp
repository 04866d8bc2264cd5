// Starts this test binary again under the preload library, as a program on host0 of a fabric that has a tree but no
// daemon.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "shim/host_tree.h"

int main(int argc, char** argv) {
  if (std::getenv("SOFTIB_FABRIC_DIR")) {
    testing::InitGoogleTest(&argc, argv);
    return RUN_ALL_TESTS();
  }
  softib::tests::HostTree tree;
  pid_t child = ::fork();
  if (child == 0) {
    ::setenv("LD_PRELOAD", PRELOAD_LIBRARY, 1);
    ::setenv("SOFTIB_FABRIC_DIR", tree.fabric_dir().c_str(), 1);
    ::setenv("SOFTIB_HOST", "host0", 1);
    ::execv("/proc/self/exe", argv);
    ::_exit(127);
  }
  int status = 1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

// Stock programs under the preload library: RDMA tools see the tree, others behave as without it.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace softib {
namespace {

struct Outcome {
  std::string output;
  int status = -1;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe) return outcome;
  char piece[4096];
  while (size_t got = std::fread(piece, 1, sizeof piece, pipe)) outcome.output.append(piece, got);
  outcome.status = ::pclose(pipe);
  return outcome;
}

bool installed(const std::string& program) { return run("command -v " + program).status == 0; }

void expect_same_without(const std::string& command) {
  Outcome with = run(command);
  Outcome without = run("env -u LD_PRELOAD -u SOFTIB_FABRIC_DIR -u SOFTIB_HOST " + command);
  EXPECT_EQ(with.output, without.output) << command;
  EXPECT_EQ(with.status, without.status) << command;
}

TEST(PreloadPrograms, IbvDevicesListsTheHostsDevices) {
  if (!installed("ibv_devices")) GTEST_SKIP() << "ibverbs-utils is not installed";
  Outcome got = run("ibv_devices");
  EXPECT_EQ(got.status, 0);
  EXPECT_NE(got.output.find("mlx5_0"), std::string::npos) << got.output;
  EXPECT_NE(got.output.find("525400fffe000002"), std::string::npos) << got.output;
  EXPECT_EQ(run("ibv_devinfo -l | head -1").output, "2 HCAs found:\n");
}

TEST(PreloadPrograms, RdmaToolShowsDevicesAndLinks) {
  if (!installed("rdma")) GTEST_SKIP() << "iproute2 is not installed";
  EXPECT_NE(run("rdma dev").output.find("0: mlx5_0: node_type ca fw 16.35.2000 node_guid 5254:00ff:fe00:0001"),
            std::string::npos);
  Outcome links = run("rdma link");
  EXPECT_EQ(links.status, 0);
  EXPECT_NE(links.output.find("link mlx5_0/1 subnet_prefix fe80:0000:0000:0000 lid 7"), std::string::npos)
      << links.output;
  EXPECT_NE(links.output.find("link mlx5_1/1 state ACTIVE physical_state LINK_UP"), std::string::npos) << links.output;
  EXPECT_NE(run("rdma system").output.find("copy-on-fork on"), std::string::npos);
}

TEST(PreloadPrograms, OthersBehaveAsWithoutIt) {
  for (const char* command :
       {"ls -l /usr/include/rdma", "ls -l /dev/null /sys/class/tty/tty0 /no/such/file", "cat /etc/passwd /no/such/file",
        "sh -c 'cd /sys/class && pwd -P && readlink -f /proc/self/exe'",
        "bash -c 'exec 5</etc/hostname; read line <&5; echo $line; exec 5<&-; echo hi | cat | tr h j'",
        "python3 -c 'import os, socket, subprocess, mmap, tempfile; a, b = socket.socketpair(); a.send(b\"x\"); "
        "print(b.recv(1), subprocess.run([\"echo\", \"y\"], capture_output=True, close_fds=True).stdout, "
        "len(mmap.mmap(-1, 8192)), os.path.realpath(\"/sys/class\"), sorted(os.listdir(\"/etc\"))[:3])'",
        "find /usr/include/rdma -name 'rxe*'", "du -s /usr/include/rdma", "sh -c 'exit 3'"}) {
    expect_same_without(command);
  }
}

TEST(PreloadPrograms, AHalfSetEnvironmentIsNoFabric) {
  if (!installed("ibv_devices")) GTEST_SKIP() << "ibverbs-utils is not installed";
  EXPECT_EQ(run("env -u SOFTIB_HOST ls /dev/infiniband").output, run("env -u LD_PRELOAD ls /dev/infiniband").output);
  Outcome relative = run("SOFTIB_FABRIC_DIR=relative/path true");
  EXPECT_EQ(relative.status, 0);
}

}  // namespace
}  // namespace softib

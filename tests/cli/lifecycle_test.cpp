// up, down, status, list: fabrics come, go, and die.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "command.h"

namespace softib::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Lifecycle : public CommandTest {
 protected:
  void kill_daemon(const std::string& name = "default") {
    pid_t pid = daemon(name);
    ASSERT_GT(pid, 1);
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    ASSERT_TRUE(ends_soon(pid));
  }
};

TEST_F(Lifecycle, UpStatusDown) {
  Outcome up = softib({"up"});
  EXPECT_EQ(up.exit_code, 0) << up.err;
  EXPECT_EQ(up.out,
            "fabric 'default' is up: 2 hosts, 2 HCAs, 1 switch, InfiniBand\n"
            "try: softib run host0 -- ibv_devinfo\n");
  EXPECT_EQ(up.err, "");
  pid_t pid = daemon();
  EXPECT_TRUE(is_running(pid));

  Outcome status = softib({"status"});
  EXPECT_EQ(status.exit_code, 0) << status.err;
  EXPECT_THAT(status.out, StartsWith("fabric default (InfiniBand), daemon " + std::to_string(pid)));
  EXPECT_THAT(
      status.out,
      HasSubstr("host1  mlx5_0     1  ACTIVE  0x3  fe80:0000:0000:0000:5254:00ff:fe00:0011  200 Gb/sec (4X HDR)"));
  EXPECT_THAT(status.out, HasSubstr("no processes\n"));

  Outcome down = softib({"down"});
  EXPECT_EQ(down.exit_code, 0) << down.err;
  EXPECT_EQ(down.out, "fabric 'default' is down\n");
  EXPECT_FALSE(is_running(pid));
  EXPECT_FALSE(std::filesystem::exists(fabric_dir()));
}

TEST_F(Lifecycle, StatusAsJson) {
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  Outcome status = softib({"status", "--json"});
  ASSERT_EQ(status.exit_code, 0) << status.err;
  json parsed = json::parse(status.out);
  EXPECT_EQ(parsed["running"], true);
  EXPECT_EQ(parsed["fabric"], "default");
  EXPECT_EQ(parsed["daemon_pid"], daemon());
  ASSERT_EQ(parsed["hosts"].size(), 2U);
  EXPECT_EQ(parsed["hosts"][1]["name"], "host1");
  EXPECT_EQ(parsed["hosts"][1]["devices"][0]["ports"][0]["state"], "ACTIVE");
  EXPECT_TRUE(parsed["processes"].empty()) << "the command itself is none";
}

TEST_F(Lifecycle, UpTwice) {
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  pid_t pid = daemon();
  Outcome again = softib({"up"});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.out, "fabric 'default' is running already\n");
  Outcome other = softib({"up", "--link-layer", "ethernet"});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_EQ(other.err,
            "softib: fabric 'default' is running with another description; end it with 'softib down', or choose "
            "another --name\n");
  EXPECT_EQ(daemon(), pid);
  EXPECT_TRUE(is_running(pid));
}

TEST_F(Lifecycle, ManyAtOnceGiveOneDaemon) {
  Outcome all = shell(
      "for i in 1 2 3 4 5 6; do \"$SOFTIB\" up & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 1; done");
  EXPECT_EQ(all.exit_code, 0) << all.out << all.err;
  size_t started = 0;
  size_t present = 0;
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);) {
    started += line.starts_with("fabric 'default' is up");
    present += line == "fabric 'default' is running already";
  }
  EXPECT_EQ(started, 1U);
  EXPECT_EQ(present, 5U);
}

TEST_F(Lifecycle, UpAndDownInTurnsFromManyShells) {
  Outcome all = shell(
      "for i in 1 2 3; do (for j in 1 2 3; do \"$SOFTIB\" up >/dev/null || exit 1; \"$SOFTIB\" down >/dev/null "
      "|| exit 1; "
      "done) & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 1; done");
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_FALSE(std::filesystem::exists(fabric_dir()));
}

TEST_F(Lifecycle, FromAFile) {
  write("lab.yaml", "fabric: lab\nhosts: 3\nhcas: 2\nlink_layer: ethernet\n");
  Outcome up = softib({"up", file("lab.yaml")});
  EXPECT_EQ(up.exit_code, 0) << up.err;
  EXPECT_THAT(up.out, StartsWith("fabric 'lab' is up: 3 hosts, 6 HCAs, 1 switch, Ethernet\n"));
  EXPECT_THAT(up.out, HasSubstr("softib run --name lab host0 -- ibv_devinfo"));
  EXPECT_EQ(softib({"up", file("lab.yaml")}).exit_code, 0) << "the same again";
  EXPECT_FALSE(std::filesystem::exists(fabric_dir("lab") + "/hosts"));
  EXPECT_EQ(softib({"run", "--name", "lab", "host2", "--", "true"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(fabric_dir("lab") + "/hosts/host2/sys/class/infiniband/mlx5_1/node_guid"));
  EXPECT_FALSE(std::filesystem::exists(fabric_dir("lab") + "/hosts/host1")) << "nobody has used it";
  EXPECT_THAT(softib({"status"}).err,
              HasSubstr("fabric 'default' is not running; start it with 'softib up'; 'lab' runs (--name lab)\n"));
  EXPECT_THAT(softib({"status", "--name", "lab"}).out, HasSubstr("0000:0000:0000:0000:0000:ffff:0a01:0003"));
  EXPECT_EQ(softib({"down", "--name", "lab"}).exit_code, 0);
}

TEST_F(Lifecycle, BadFile) {
  write("bad.yaml", "hosts: 2\nswiches: 1\n");
  Outcome up = softib({"up", file("bad.yaml")});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_EQ(up.err,
            "softib: " + file("bad.yaml") + ":2: unknown key 'swiches' in the fabric; did you mean 'switches'?\n");
  EXPECT_FALSE(std::filesystem::exists(fabric_dir()));
  Outcome missing = softib({"up", "/nonexistent.yaml"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(missing.err, "softib: /nonexistent.yaml: No such file or directory\n");
}

TEST_F(Lifecycle, SideBySide) {
  ASSERT_EQ(softib({"up", "--name", "red"}).exit_code, 0);
  ASSERT_EQ(softib({"up", "--name", "blue", "--link-layer", "ethernet"}).exit_code, 0);
  EXPECT_NE(daemon("red"), daemon("blue"));
  Outcome list = softib({"list"});
  EXPECT_EQ(list.out, "FABRIC  STATE    DAEMON" + std::string(std::to_string(daemon("blue")).size() > 6 ? " " : "") +
                          "  HOSTS  LINK LAYER\n"
                          "blue    running  " +
                          std::string(6 - std::min<size_t>(6, std::to_string(daemon("blue")).size()), ' ') +
                          std::to_string(daemon("blue")) + "      2  Ethernet\n" + "red     running  " +
                          std::string(6 - std::min<size_t>(6, std::to_string(daemon("red")).size()), ' ') +
                          std::to_string(daemon("red")) + "      2  InfiniBand\n");
  pid_t blue = daemon("blue");
  EXPECT_EQ(softib({"down", "--name", "red"}).exit_code, 0);
  EXPECT_TRUE(is_running(blue)) << "the other one lives on";
  EXPECT_EQ(softib({"status", "--name", "blue"}).exit_code, 0);
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  Outcome all = softib({"down", "--all"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_EQ(all.out, "fabric 'blue' is down\nfabric 'default' is down\n");
  EXPECT_THAT(softib({"list"}).out, StartsWith("no fabric is running"));
}

TEST_F(Lifecycle, DaemonKilled) {
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  kill_daemon();
  Outcome status = softib({"status"});
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_THAT(status.err, HasSubstr("fabric 'default' is not running: its daemon died"));
  EXPECT_THAT(status.err, HasSubstr("start it again with 'softib up'"));
  Outcome run = softib({"run", "host0", "--", "true"});
  EXPECT_EQ(run.exit_code, 125);
  EXPECT_THAT(run.err, HasSubstr("its daemon died"));
  EXPECT_THAT(softib({"list"}).out, HasSubstr("default  died"));
  EXPECT_EQ(softib({"env", "host0"}).exit_code, 1);

  Outcome up = softib({"up", "--link-layer", "ethernet"});
  EXPECT_EQ(up.exit_code, 0) << "another description is fine now: " << up.err;
  EXPECT_EQ(softib({"status"}).exit_code, 0);
}

TEST_F(Lifecycle, DownCleansUpAfterADeadDaemon) {
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  kill_daemon();
  Outcome down = softib({"down"});
  EXPECT_EQ(down.exit_code, 0);
  EXPECT_EQ(down.out, "fabric 'default' was not running; removed what it left behind\n");
  EXPECT_FALSE(std::filesystem::exists(fabric_dir()));
  EXPECT_EQ(softib({"down"}).out, "fabric 'default' is not running\n");
}

TEST_F(Lifecycle, StoppedDaemonIsEnded) {
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  pid_t pid = daemon();
  ASSERT_EQ(::kill(pid, SIGSTOP), 0);
  EXPECT_EQ(softib({"list"}).exit_code, 0) << "nothing waits for it";
  EXPECT_EQ(softib({"down"}).exit_code, 0) << "SIGTERM alone would not reach it";
  EXPECT_FALSE(is_running(pid));
}

TEST_F(Lifecycle, ForeignRubbishInTheFolder) {
  ASSERT_EQ(::mkdir(fabric_dir().c_str(), 0700), 0);
  std::ofstream(fabric_dir() + "/daemon.pid") << "1\n";
  std::ofstream(fabric_dir() + "/daemon.sock") << "no socket\n";
  ASSERT_EQ(::symlink(runtime().c_str(), (fabric_dir() + "/hosts").c_str()), 0);
  Outcome up = softib({"up"});
  EXPECT_EQ(up.exit_code, 0) << up.err;
  EXPECT_TRUE(std::filesystem::exists(runtime())) << "the link was removed, not what it points to";
  EXPECT_FALSE(std::filesystem::is_symlink(fabric_dir() + "/hosts"));
}

TEST_F(Lifecycle, FailureToStartShowsTheLog) {
  // The segment needs more address space than this.
  Outcome up = shell("ulimit -v 4000000; exec \"$SOFTIB\" up");
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err,
              StartsWith("softib: the daemon ended with exit code 1; the end of " + fabric_dir() + "/daemon.log:\n  "));
  EXPECT_EQ(softib({"up"}).exit_code, 0) << "and the next try is not hindered";
}

TEST_F(Lifecycle, EmptyFolderIsNoFabric) {
  std::filesystem::create_directories(fabric_dir());
  for (const auto& dir : {runtime(), fabric_dir()})
    std::filesystem::permissions(dir, std::filesystem::perms::owner_all);
  Outcome down = softib({"down"});
  EXPECT_EQ(down.out, "fabric 'default' is not running\n") << down.err;
  EXPECT_FALSE(std::filesystem::exists(fabric_dir()));
}

// At whatever moment it comes: either all is up, or nothing is left.
TEST_F(Lifecycle, InterruptedStartLeavesNothing) {
  write("pod.yaml", "topology: {kind: superpod, generation: h100, units: 4}\n");
  int interrupted = 0;
  for (const char* moment : {"0.002", "0.01", "0.03", "0.06", "0.1", "0.2"}) {
    const Outcome up =
        shell("\"$SOFTIB\" up '" + file("pod.yaml") + "' & up=$!; sleep " + moment + "; kill -TERM $up; wait $up");
    if (up.exit_code == 0) {
      EXPECT_EQ(softib({"down"}).exit_code, 0);
      continue;
    }
    ++interrupted;
    EXPECT_EQ(up.exit_code, 128 + SIGTERM) << up.err;
    EXPECT_EQ(daemon(), 0) << moment;
    EXPECT_EQ(softib({"down"}).out, "fabric 'default' is not running\n") << moment;
  }
  EXPECT_GT(interrupted, 0);
}

TEST_F(Lifecycle, DaemonHoldsNothingOfItsStarter) {
  Outcome outcome =
      shell("cd \"$SOFTIB_RUNTIME_DIR\" && text=$(timeout 60 \"$SOFTIB\" up 7>&1 </dev/null) && printf %s \"$text\"");
  EXPECT_EQ(outcome.exit_code, 0) << "the shell would wait for the end of the pipe: " << outcome.err;
  EXPECT_THAT(outcome.out, StartsWith("fabric 'default' is up"));
  std::string proc = "/proc/" + std::to_string(daemon());
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/cwd"), "/");
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/fd/0"), "/dev/null");
  EXPECT_EQ(std::filesystem::read_symlink(proc + "/fd/2"), fabric_dir() + "/daemon.log");
  EXPECT_EQ(::getsid(daemon()), daemon());
}

TEST_F(Lifecycle, DaemonStartedFromInsideAFabricIsOutside) {
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  Outcome inner = softib({"run", "host0", "--", SOFTIB_COMMAND, "up", "--name", "inner"});
  ASSERT_EQ(inner.exit_code, 0) << inner.err;
  std::ifstream environ("/proc/" + std::to_string(daemon("inner")) + "/environ");
  std::string text(std::istreambuf_iterator<char>(environ), {});
  ASSERT_FALSE(text.empty());
  EXPECT_THAT(text, Not(HasSubstr("LD_PRELOAD")));
  EXPECT_THAT(text, Not(HasSubstr("SOFTIB_HOST")));
}

TEST_F(Lifecycle, RuntimeDirectoryOfOthersIsRefused) {
  std::string target = file("target");
  ASSERT_EQ(::mkdir(target.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(target.c_str(), file("link").c_str()), 0);
  set_runtime(file("link"));
  Outcome up = softib({"up"});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err, HasSubstr(file("link") + " is not a folder but a link or a file"));
  EXPECT_TRUE(std::filesystem::is_empty(target));

  set_runtime(file("open"));
  ASSERT_EQ(::mkdir(file("open").c_str(), 0755), 0);
  ASSERT_EQ(::chmod(file("open").c_str(), 0755), 0);
  up = softib({"up"});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err, HasSubstr("chmod 700"));
}

TEST_F(Lifecycle, FabricFolderThatIsALinkIsRefused) {
  std::string target = file("target");
  ASSERT_EQ(::mkdir(target.c_str(), 0700), 0);
  ASSERT_EQ(::symlink(target.c_str(), fabric_dir().c_str()), 0);
  EXPECT_EQ(softib({"up"}).exit_code, 1);
  EXPECT_EQ(softib({"down"}).exit_code, 1);
  EXPECT_TRUE(std::filesystem::is_empty(target));
  std::filesystem::remove(fabric_dir());
}

TEST_F(Lifecycle, FilesAreTheUsersAlone) {
  ASSERT_EQ(softib({"up"}).exit_code, 0);
  struct stat info {};
  ASSERT_EQ(::stat(fabric_dir().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
}

TEST_F(Lifecycle, TooLongAPath) {
  set_runtime(file(std::string(100, 'x')));
  Outcome up = softib({"up"});
  EXPECT_EQ(up.exit_code, 1);
  EXPECT_THAT(up.err, HasSubstr("too long for a socket's path"));
}

TEST_F(Lifecycle, RelativeRuntimeDirectory) {
  Outcome outcome = shell("cd " + quoted(file(".")) +
                          " && SOFTIB_RUNTIME_DIR=run && export SOFTIB_RUNTIME_DIR && \"$SOFTIB\" up && "
                          "\"$SOFTIB\" run host0 -- sh -c 'cd / && test -e \"$SOFTIB_FABRIC_DIR/daemon.sock\"'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(is_running(daemon()));
}

TEST_F(Lifecycle, UsageErrors) {
  EXPECT_EQ(softib({}).exit_code, 2);
  EXPECT_EQ(softib({"fly"}).exit_code, 2);
  EXPECT_EQ(softib({"up", "--colour"}).exit_code, 2);
  EXPECT_EQ(softib({"up", "--name", "a/b"}).exit_code, 2);
  EXPECT_EQ(softib({"up", "--name", ".."}).exit_code, 2);
  EXPECT_EQ(softib({"up", "--link-layer", "token-ring"}).exit_code, 2);
  EXPECT_EQ(softib({"down", "--all", "--name", "x"}).exit_code, 2);
  EXPECT_EQ(softib({"up", "a.yaml", "b.yaml"}).exit_code, 2);
  EXPECT_EQ(softib({"--version"}).exit_code, 0);
}

TEST_F(Lifecycle, HelpHasExamples) {
  EXPECT_THAT(softib({"--help"}).out, HasSubstr("softib run host0"));
  for (const char* command : {"up", "down", "status", "run", "env", "list"}) {
    Outcome help = softib({command, "--help"});
    EXPECT_EQ(help.exit_code, 0);
    EXPECT_THAT(help.out, HasSubstr("Example")) << command;
    EXPECT_THAT(help.out, HasSubstr(std::string("softib ") + command)) << command;
  }
}

}  // namespace
}  // namespace softib::test

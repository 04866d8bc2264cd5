// run and env: programs on hosts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "command.h"

namespace softib::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Programs : public CommandTest {
 protected:
  void SetUp() override { ASSERT_EQ(softib({"up"}).exit_code, 0); }
};

class NoFabric : public CommandTest {};

TEST_F(Programs, ExitCodesAndSignalsAreTheProgramsOwn) {
  EXPECT_EQ(softib({"run", "host0", "--", "true"}).exit_code, 0);
  EXPECT_EQ(softib({"run", "host0", "--", "sh", "-c", "exit 7"}).exit_code, 7);
  EXPECT_EQ(shell("\"$SOFTIB\" run host0 -- sh -c 'kill -9 $$'; exit $?").exit_code, 128 + SIGKILL);
  EXPECT_EQ(shell("exec \"$SOFTIB\" run host0 -- sh -c 'kill -15 $$'").signal, SIGTERM);
}

TEST_F(Programs, RunReplacesItself) {
  Outcome outcome = shell("\"$SOFTIB\" run host0 -- sh -c 'echo $$' & p=$!; wait $p; echo $p");
  size_t line = outcome.out.find('\n');
  EXPECT_EQ(outcome.out.substr(0, line), outcome.out.substr(line + 1, line)) << outcome.out;
}

TEST_F(Programs, EnvironmentOfAHost) {
  Outcome outcome = softib({"run", "host1", "--", "sh", "-c", "echo \"$SOFTIB_HOST|$SOFTIB_FABRIC_DIR|$LD_PRELOAD\""});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out, testing::StartsWith("host1|" + fabric_dir() + "|/"));
  EXPECT_THAT(outcome.out, EndsWith("/lib/libsoftib-preload.so\n"));
  EXPECT_EQ(outcome.err, "") << "nothing is said by the loader or the library";
}

TEST_F(Programs, OtherPreloadsStay) {
  // A second name of a library that is there anyway.
  Outcome outcome = shell("LD_PRELOAD=libm.so.6 exec \"$SOFTIB\" run host0 -- sh -c 'echo $LD_PRELOAD'");
  EXPECT_THAT(outcome.out, testing::StartsWith("libm.so.6:/"));
  outcome =
      softib({"run", "host0", "--", SOFTIB_COMMAND, "run", "host1", "--", "sh", "-c", "echo $SOFTIB_HOST $LD_PRELOAD"});
  EXPECT_THAT(outcome.out, testing::StartsWith("host1 /"));
  EXPECT_THAT(outcome.out, Not(HasSubstr(":"))) << "once, also when nested";
}

TEST_F(Programs, WordsBehindTheHostBelongToTheCommand) {
  EXPECT_EQ(softib({"run", "host0", "echo", "--name", "-x", "--help"}).out, "--name -x --help\n");
  EXPECT_EQ(softib({"run", "host0", "--", "echo", "--", "a b", "", "*"}).out, "-- a b  *\n");
  EXPECT_EQ(softib({"run", "--name", "default", "host0", "--", "echo", "x"}).out, "x\n");
}

TEST_F(Programs, WordsBeforeTheDashesAreHosts) {
  EXPECT_EQ(softib({"run", "host0", "host1", "host0", "--", "echo", "--", "a"}).out.size(), 3 * sizeof("host0: -- a"));
  const std::string why =
      "softib: fabric 'default' has no host '{}'; its hosts are host0, host1{} (each word before -- is a host; a "
      "command with a -- of its own needs another before it)\n";
  Outcome unknown = softib({"run", "host0", "host99", "--", "echo", "ran"});
  EXPECT_EQ(unknown.exit_code, 125);
  EXPECT_EQ(unknown.out, "") << "nowhere, not on the known one either";
  EXPECT_EQ(unknown.err, fmt::format(fmt::runtime(why), "host99", "; did you mean 'host0'?"));
  Outcome command = softib({"run", "host0", "echo", "a", "--", "b"});
  EXPECT_EQ(command.exit_code, 125);
  EXPECT_EQ(command.err, fmt::format(fmt::runtime(why), "echo", ""));
}

TEST_F(Programs, AllIsSaidAlone) {
  EXPECT_EQ(softib({"run", "all", "--", "printf", "x"}).exit_code, 0);
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"host0", "all"}, {"all", "host0"}, {"all", "all"}, {"all", "host9"}}) {
    Outcome refused = softib({"run", hosts[0], hosts[1], "--", "echo", "ran"});
    EXPECT_EQ(refused.exit_code, 125);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, StartsWith("softib: run: 'all' has every host already; say it alone, or name the hosts"));
  }
}

TEST_F(Programs, StandardStreamsPassThrough) {
  EXPECT_EQ(shell("echo hello | \"$SOFTIB\" run host0 -- cat").out, "hello\n");
}

TEST_F(Programs, OwnFailuresHaveTheirOwnCodes) {
  EXPECT_EQ(softib({"run"}).exit_code, 125);
  EXPECT_EQ(softib({"run", "host0"}).exit_code, 125);
  EXPECT_EQ(softib({"run", "host0", "--"}).exit_code, 125);
  EXPECT_EQ(softib({"run", "--colour", "host0", "--", "true"}).exit_code, 125);
  Outcome host = softib({"run", "host7", "--", "true"});
  EXPECT_EQ(host.exit_code, 125);
  EXPECT_EQ(host.err,
            "softib: fabric 'default' has no host 'host7'; its hosts are host0, host1; did you mean 'host0'?\n");
  Outcome missing = softib({"run", "host0", "--", "no-such-program"});
  EXPECT_EQ(missing.exit_code, 127);
  EXPECT_EQ(missing.err, "softib: cannot run 'no-such-program': No such file or directory\n");
  write("plain", "text\n");
  Outcome plain = softib({"run", "host0", "--", file("plain")});
  EXPECT_EQ(plain.exit_code, 126);
  EXPECT_THAT(plain.err, HasSubstr("Permission denied"));
  EXPECT_EQ(softib({"run", "host0", "--", "/"}).exit_code, 126);
}

TEST_F(Programs, UnknownCommandIsNamed) {
  const Outcome outcome = softib({"stauts"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, StartsWith("softib: there is no command 'stauts'; did you mean 'status'?\n"));
  const Outcome nested = softib({"coll", "tun"});
  EXPECT_EQ(nested.exit_code, 2);
  EXPECT_EQ(nested.err,
            "softib: there is no command 'tun'; did you mean 'tune'?\n'softib coll --help' tells how it is used\n");
  EXPECT_THAT(softib({"topo"}).err, StartsWith("softib: A subcommand is required\n"));
}

TEST_F(Programs, EnvForAShell) {
  Outcome outcome = shell(
      "eval \"$(\"$SOFTIB\" env host1)\"; eval \"$(\"$SOFTIB\" env host1)\"; echo \"$SOFTIB_HOST $SOFTIB_FABRIC_DIR\"; "
      "case $LD_PRELOAD in *:*) echo twice;; */libsoftib-preload.so) echo once;; esac; "
      "eval \"$(\"$SOFTIB\" env --unset)\"; echo \"<${SOFTIB_HOST-none} ${SOFTIB_FABRIC_DIR-none} "
      "${LD_PRELOAD-none}>\"");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "host1 " + fabric_dir() + "\nonce\n<none none none>\n");
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Programs, UnsetLeavesOtherPreloads) {
  Outcome outcome = shell(
      "LD_PRELOAD=libm.so.6; export LD_PRELOAD; eval \"$(\"$SOFTIB\" env host1)\"; eval \"$(\"$SOFTIB\" env "
      "--unset)\"; echo \"$LD_PRELOAD\"");
  EXPECT_EQ(outcome.out, "libm.so.6\n");
}

TEST_F(Programs, ToolsAreInThePath) {
  Outcome outcome = shell(
      "before=$PATH; \"$SOFTIB\" run host0 -- sh -c 'command -v show_gids ibdev2netdev' || exit 1; "
      "eval \"$(\"$SOFTIB\" env host1)\"; command -v show_gids >/dev/null || exit 2; [ \"$PATH\" != \"$before\" ] || "
      "exit 3; "
      "eval \"$(\"$SOFTIB\" env --unset)\"; [ \"$PATH\" = \"$before\" ] || exit 4");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("/softib/tools/show_gids\n"));
}

TEST_F(Programs, AnAggregationNodeRunsNone) {
  write("sharp.yaml", "fabric: sharp\nhosts: [alpha, {name: leaf-an, kind: aggregation}]\n");
  ASSERT_EQ(softib({"up", file("sharp.yaml")}).exit_code, 0);
  Outcome outcome = softib({"run", "--name", "sharp", "leaf-an", "--", "true"});
  EXPECT_EQ(outcome.exit_code, 125);
  EXPECT_EQ(outcome.err,
            "softib: 'leaf-an' of fabric 'sharp' is an aggregation node of a switch; nobody runs programs on it\n");
  EXPECT_EQ(softib({"env", "--name", "sharp", "leaf-an"}).exit_code, 1);
  EXPECT_EQ(softib({"down", "--name", "sharp"}).exit_code, 0);
}

TEST_F(Programs, EnvPlain) {
  Outcome outcome = softib({"env", "host0", "--plain"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              testing::StartsWith("SOFTIB_FABRIC_DIR=" + fabric_dir() + "\nSOFTIB_HOST=host0\nLD_PRELOAD=/"));
}

TEST_F(Programs, EnvErrors) {
  Outcome host = softib({"env", "host9"});
  EXPECT_EQ(host.exit_code, 1);
  EXPECT_EQ(host.out, "") << "nothing for eval";
  EXPECT_THAT(host.err, HasSubstr("its hosts are host0, host1"));
  EXPECT_EQ(softib({"env", "host0", "--unset"}).exit_code, 2);
}

TEST_F(NoFabric, RunNamesTheRemedy) {
  Outcome run = softib({"run", "host0", "--", "true"});
  EXPECT_EQ(run.exit_code, 125);
  EXPECT_EQ(run.err, "softib: fabric 'default' is not running; start it with 'softib up'\n");
  run = softib({"run", "--name", "lab", "host0", "--", "true"});
  EXPECT_EQ(run.err, "softib: fabric 'lab' is not running; start it with 'softib up --name lab'\n");
}

TEST_F(NoFabric, StatusAsJsonIsJson) {
  Outcome status = softib({"status", "--json"});
  EXPECT_EQ(status.exit_code, 1);
  EXPECT_EQ(nlohmann::json::parse(status.out)["running"], false);
}

TEST_F(NoFabric, QuotingSurvivesOddPaths) {
  set_runtime(file("it's $HOME \"odd\""));
  Outcome outcome =
      shell("\"$SOFTIB\" up >/dev/null && eval \"$(\"$SOFTIB\" env host0)\" && printf '%s\\n' \"$SOFTIB_FABRIC_DIR\"");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, fabric_dir() + "\n");
}

}  // namespace
}  // namespace softib::test

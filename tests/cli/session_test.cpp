// ssh's arguments, names of hosts in them, what launchers are told, and lines of several hosts.
#include "cli/session.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "cli/launchers.h"
#include "cli/many_hosts.h"

namespace softib::cli {
namespace {

SshRequest request_of(const std::vector<std::string>& words) {
  auto request = parse_ssh(words);
  EXPECT_TRUE(request) << (request ? "" : request.error().text);
  return request.value_or(SshRequest{});
}

std::string fault_in(const std::vector<std::string>& words) {
  auto request = parse_ssh(words);
  return request ? "" : request.error().text;
}

TEST(Ssh, WordsAreJoined) {
  const SshRequest request = request_of({"host1", "cd", "/x;", "orted", "-mca", "a b"});
  EXPECT_EQ(request.host, "host1");
  EXPECT_EQ(request.command, "cd /x; orted -mca a b");
}

TEST(Ssh, OptionsOfSshAreTaken) {
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{{"-x"},
                                                                                       {"-q", "-T"},
                                                                                       {"-tt"},
                                                                                       {"-o", "BatchMode=yes"},
                                                                                       {"-oBatchMode=yes"},
                                                                                       {"-p", "22"},
                                                                                       {"-p22"},
                                                                                       {"-xl", "me"},
                                                                                       {"-i", "key", "-4C"},
                                                                                       {"--"}}) {
    auto words = options;
    words.insert(words.end(), {"host1", "hostname"});
    EXPECT_EQ(request_of(words).host, "host1");
    EXPECT_EQ(request_of(words).command, "hostname");
  }
}

TEST(Ssh, OptionsMayStandBehindTheHost) {
  const SshRequest request = request_of({"host1", "-n", "-l", "me", "ls", "-l"});
  EXPECT_TRUE(request.no_input);
  EXPECT_EQ(request.command, "ls -l");
}

TEST(Ssh, UsersAreLeftOut) { EXPECT_EQ(request_of({"some@one@host1"}).host, "host1"); }

TEST(Ssh, BackgroundTakesNoInput) {
  const SshRequest request = request_of({"-f", "host1", "sleep", "1"});
  EXPECT_TRUE(request.in_background);
  EXPECT_TRUE(request.no_input);
}

TEST(Ssh, WhatIsNotThereIsRefused) {
  for (const char* option : {"-L", "-R", "-D", "-W", "-N", "-s", "-S"})
    EXPECT_THAT(fault_in({option, "host1", "x"}), testing::HasSubstr("is not to be had")) << option;
  EXPECT_EQ(fault_in({"-Z", "host1"}), "unknown option -- Z");
  EXPECT_EQ(fault_in({"-o"}), "option requires an argument -- o");
  EXPECT_THAT(fault_in({"-x"}), testing::HasSubstr("name a host"));
  EXPECT_THAT(fault_in({}), testing::HasSubstr("name a host"));
}

TEST(Ssh, AnyNameOfAHostWillDo) {
  constexpr std::string_view text = "10.255.0.2 host1\n10.0.0.2 host1-ib0\n10.0.0.3 my-ib-ib12\nfd53::1 host1-ip6\n";
  for (const char* word : {"host1", "host1-ib0", "host1-ip6", "10.255.0.2", "10.0.0.2", "fd53::1"})
    EXPECT_EQ(host_of(text, word), "host1") << word;
  EXPECT_EQ(host_of(text, "my-ib-ib12"), "my-ib");
  EXPECT_EQ(host_of(text, "other"), "other");
}

TEST(Launchers, AJobsVariablesAreKnown) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK=1", "PMIX_RANK=0", "PMI_FD=3", "HYDRA_LAUNCHER=ssh"})
    EXPECT_TRUE(belongs_to_job(name)) << name;
  for (const char* name : {"PATH=/bin", "SOFTIB_HOST=host0", "LD_PRELOAD=x", "MY_OMPI_X=1"})
    EXPECT_FALSE(belongs_to_job(name)) << name;
}

TEST(Launchers, WhatIsSetCanBeTakenAway) {
  const auto gone = no_launcher_variables();
  for (const Variable& variable : launcher_variables("/x/softib-ssh"))
    EXPECT_TRUE(std::any_of(gone.begin(), gone.end(), [&](const Variable& v) { return v.name == variable.name; }))
        << variable.name;
}

TEST(Hostfile, NamesServersOnly) {
  auto fabric = fabric::default_fabric();
  fabric.hosts.push_back({"leaf-an", {}, fabric::HostKind::aggregation});
  EXPECT_EQ(hostfile_text(fabric, 0, HostfileFormat::openmpi), "host0\nhost1\n");
  EXPECT_EQ(hostfile_text(fabric, 2, HostfileFormat::openmpi), "host0 slots=2\nhost1 slots=2\n");
  EXPECT_EQ(hostfile_text(fabric, 2, HostfileFormat::mpich), "host0:2\nhost1:2\n");
}

TEST(LineWriter, GivesWholeLines) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  LineWriter lines(ends[1], "host0: ");
  for (std::string_view piece : {"a", "b\nc", "\n\n", "d"}) lines.add(piece);
  lines.finish();
  lines.finish();
  char text[100]{};
  ASSERT_GT(::read(ends[0], text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "host0: ab\nhost0: c\nhost0: \nhost0: d\n");
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace softib::cli

#include "coll/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

namespace softib::coll::test {

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

struct Parsed {
  Environment environment;
  std::vector<std::string> complaints;
};

Parsed parse_variables(const std::map<std::string, std::string>& values) {
  Parsed parsed;
  parsed.environment = Environment::parse(
      [&](const char* name) -> std::optional<std::string> {
        const auto at = values.find(name);
        if (at == values.end()) return std::nullopt;
        return at->second;
      },
      &parsed.complaints);
  return parsed;
}

std::string all_text(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(NameFilter, BeginningsByDefault) {
  const auto filter = NameFilter::parse("eth,ib");
  ASSERT_TRUE(filter);
  EXPECT_TRUE(filter->matches("eth0"));
  EXPECT_TRUE(filter->matches("ib12"));
  EXPECT_FALSE(filter->matches("docker0"));
  EXPECT_FALSE(filter->matches("et"));
  EXPECT_LT(filter->place("eth1"), filter->place("ib0"));
}

TEST(NameFilter, EqualsMeansTheWholeName) {
  for (const char* text : {"=eth0,ib0", "=eth0,=ib0"}) {
    const auto filter = NameFilter::parse(text);
    ASSERT_TRUE(filter) << text;
    EXPECT_TRUE(filter->matches("eth0"));
    EXPECT_TRUE(filter->matches("ib0"));
    EXPECT_FALSE(filter->matches("eth01"));
  }
}

TEST(NameFilter, CaretLeavesOut) {
  const auto filter = NameFilter::parse("^docker,lo");
  ASSERT_TRUE(filter);
  EXPECT_FALSE(filter->matches("docker0"));
  EXPECT_FALSE(filter->matches("lo"));
  EXPECT_TRUE(filter->matches("eth0"));
  const auto exact = NameFilter::parse("^=eth0");
  ASSERT_TRUE(exact);
  EXPECT_FALSE(exact->matches("eth0"));
  EXPECT_TRUE(exact->matches("eth01"));
}

TEST(NameFilter, PortsOfDevices) {
  const auto filter = NameFilter::parse("mlx5_0:1,mlx5_1");
  ASSERT_TRUE(filter);
  EXPECT_TRUE(filter->matches("mlx5_0", 1));
  EXPECT_FALSE(filter->matches("mlx5_0", 2));
  EXPECT_TRUE(filter->matches("mlx5_1", 2));
  const auto left_out = NameFilter::parse("^=mlx5_3:2");
  ASSERT_TRUE(left_out);
  EXPECT_TRUE(left_out->matches("mlx5_3", 1));
  EXPECT_FALSE(left_out->matches("mlx5_3", 2));
}

TEST(NameFilter, NothingMatchesAllAndNonsenseIsRefused) {
  EXPECT_TRUE(NameFilter{}.matches("anything"));
  for (const char* text : {"", "^", "=", ",", "eth0:", "eth0:x", "eth0:0", "eth0:999", ":1", "a=b", "eth0,^lo", "a b"})
    EXPECT_FALSE(NameFilter::parse(text)) << text;
}

TEST(Environment, DefaultsAreThoseOfTheDocument) {
  const auto [environment, complaints] = parse_variables({});
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_TRUE(environment.socket_ifname.empty());
  EXPECT_EQ(environment.log.level, LogLevel::warn);
  EXPECT_FALSE(environment.ib_gid_index);
  EXPECT_EQ(environment.ib_timeout, 20);
  EXPECT_EQ(environment.ib_retry_cnt, 7);
  EXPECT_FALSE(environment.ib_disable || environment.shm_disable || environment.timeout);
}

TEST(Environment, TakesGoodValues) {
  const auto [environment, complaints] = parse_variables({{"SOFTIB_SOCKET_IFNAME", "=eth0"},
                                                          {"SOFTIB_SOCKET_FAMILY", "AF_INET6"},
                                                          {"SOFTIB_COMM_ID", "[fd53::1]:2345"},
                                                          {"SOFTIB_HOSTID", "rack7"},
                                                          {"SOFTIB_DEBUG", "info"},
                                                          {"SOFTIB_DEBUG_SUBSYS", "INIT,NET"},
                                                          {"SOFTIB_DEBUG_FILE", "log.%h.%p"},
                                                          {"SOFTIB_IB_HCA", "mlx5_0:1"},
                                                          {"SOFTIB_IB_GID_INDEX", "3"},
                                                          {"SOFTIB_IB_PKEY", "2"},
                                                          {"SOFTIB_IB_SL", "4"},
                                                          {"SOFTIB_IB_TC", "106"},
                                                          {"SOFTIB_IB_TIMEOUT", "14"},
                                                          {"SOFTIB_IB_RETRY_CNT", "3"},
                                                          {"SOFTIB_IB_DISABLE", "1"},
                                                          {"SOFTIB_IB_READ", "0"},
                                                          {"SOFTIB_IB_ODP", "0"},
                                                          {"SOFTIB_IB_MR_CACHE", "1"},
                                                          {"SOFTIB_SHM_DISABLE", "1"},
                                                          {"SOFTIB_TUNING_FILE", "table"},
                                                          {"SOFTIB_TIMEOUT", "1.5"}});
  EXPECT_THAT(complaints, IsEmpty());
  EXPECT_TRUE(environment.socket_ifname.matches("eth0"));
  EXPECT_EQ(environment.socket_family, SocketFamily::ipv6);
  EXPECT_EQ(environment.comm_id, "[fd53::1]:2345");
  EXPECT_EQ(environment.host_id, "rack7");
  EXPECT_EQ(environment.log.level, LogLevel::info);
  EXPECT_EQ(environment.log.subsystems, static_cast<u32>(Subsystem::init) | static_cast<u32>(Subsystem::net));
  EXPECT_EQ(environment.log.file, "log.%h.%p");
  EXPECT_FALSE(environment.ib_hca.matches("mlx5_0", 2));
  EXPECT_EQ(environment.ib_gid_index, 3U);
  EXPECT_EQ(environment.ib_pkey, 2);
  EXPECT_EQ(environment.ib_sl, 4);
  EXPECT_EQ(environment.ib_tc, 106);
  EXPECT_EQ(environment.ib_timeout, 14);
  EXPECT_EQ(environment.ib_retry_cnt, 3);
  EXPECT_TRUE(environment.ib_disable);
  EXPECT_FALSE(environment.ib_read);
  EXPECT_FALSE(environment.ib_odp);
  EXPECT_TRUE(environment.ib_mr_cache);
  EXPECT_TRUE(environment.shm_disable);
  EXPECT_EQ(environment.tuning_file, "table");
  EXPECT_EQ(environment.timeout, std::chrono::milliseconds(1500));
}

TEST(Environment, ABadValueIsToldOfWithWhatIsAllowed) {
  const std::map<std::string, std::vector<std::string>> bad{
      {"SOFTIB_SOCKET_IFNAME", {"^", "eth0:"}},
      {"SOFTIB_SOCKET_FAMILY", {"ipv4"}},
      {"SOFTIB_COMM_ID", {"host", "host:", ":1", "host:0", "host:65536", "fd53::1:2345", "host:1x"}},
      {"SOFTIB_DEBUG", {"loud", "1"}},
      {"SOFTIB_DEBUG_SUBSYS", {"INIT,GPU", "^"}},
      {"SOFTIB_IB_HCA", {"="}},
      {"SOFTIB_IB_GID_INDEX", {"-2", "256", "x"}},
      {"SOFTIB_IB_PKEY", {"65536", "0x1"}},
      {"SOFTIB_IB_SL", {"16", "-1"}},
      {"SOFTIB_IB_TC", {"256"}},
      {"SOFTIB_IB_TIMEOUT", {"32"}},
      {"SOFTIB_IB_RETRY_CNT", {"8", "7 "}},
      {"SOFTIB_IB_DISABLE", {"yes", "2"}},
      {"SOFTIB_IB_MR_CACHE", {"on"}},
      {"SOFTIB_SHM_DISABLE", {"true"}},
      {"SOFTIB_ALGO", {"rong", "all_reduce", "all_reduce:", "broadcast:one_shot", "everything:ring", "^"}},
      {"SOFTIB_TIMEOUT", {"0", "-1", "nan", "inf", "1e300", "10s"}},
  };
  for (const auto& [name, values] : bad)
    for (const std::string& value : values) {
      const auto complaints = parse_variables({{name, value}}).complaints;
      ASSERT_THAT(complaints, SizeIs(1)) << name << "=" << value;
      EXPECT_THAT(complaints[0], HasSubstr(name + "=" + value + " is ignored: "));
      EXPECT_THAT(complaints[0], HasSubstr("allowed is "));
    }
}

TEST(Environment, AnEmptyValueIsNone) {
  for (const Variable& variable : variables())
    EXPECT_THAT(parse_variables({{variable.name, ""}}).complaints, IsEmpty()) << variable.name;
}

TEST(Environment, AlgorithmsForAllOrForOneCollective) {
  const auto [environment, complaints] = parse_variables({{"SOFTIB_ALGO", "ring,direct;all_reduce:^one_shot"}});
  EXPECT_THAT(complaints, IsEmpty());
  ASSERT_THAT(environment.algo, SizeIs(2));
  EXPECT_FALSE(environment.algo[0].collective);
  EXPECT_THAT(environment.algo[0].algorithms, ElementsAre(Algorithm::ring, Algorithm::direct));
  EXPECT_EQ(environment.algo[1].collective, Collective::all_reduce);
  EXPECT_TRUE(environment.algo[1].all_but);
}

TEST(Environment, WhoNamesNoAlgorithmIsToldOfAll) {
  const auto complaints = parse_variables({{"SOFTIB_ALGO", "collnet"}}).complaints;
  ASSERT_THAT(complaints, SizeIs(1));
  for (const AlgorithmRow& row : algorithms())
    EXPECT_THAT(complaints[0], HasSubstr(" " + std::string(name_of(row.algorithm))));
}

TEST(Environment, TheWrongWordOfAlgorithmsIsNamed) {
  const auto complaint = [](const char* value) {
    const auto complaints = parse_variables({{"SOFTIB_ALGO", value}}).complaints;
    return complaints.empty() ? std::string() : complaints[0];
  };
  EXPECT_THAT(complaint("ring,rong"), HasSubstr("is ignored: no algorithm is called 'rong'; allowed is "));
  EXPECT_THAT(complaint("ring;reduces:ring"), HasSubstr("is ignored: no collective is called 'reduces'; "));
  EXPECT_THAT(complaint("gather:ring"), HasSubstr("is ignored: gather isn't done by ring, but by binomial, direct; "));
  EXPECT_THAT(complaint("^"), HasSubstr("is ignored: it names no algorithm; "));
}

TEST(Environment, MisspeltVariablesAreTold) {
  const std::vector<const char*> environment{"SOFTIB_IB_MR_CACHES=1", "SOFTIB_SOKET_IFNAME=eth0",
                                             "SOFTIB_DEBUG=INFO",     "SOFTIB_HOST=host0",
                                             "SOFTIB_RUNTIME_DIR=/x", "SOFTIB_TESTS_MIN_BW=1",
                                             "SOFTIB_P2P_DISABLE=1",  "SOFTIB_PROTO=LL",
                                             "NCCL_ALGOS=ring",       nullptr};
  EXPECT_THAT(misspelt_variables(environment.data()),
              ElementsAre("SOFTIB_IB_MR_CACHES is no variable; did you mean SOFTIB_IB_MR_CACHE?",
                          "SOFTIB_SOKET_IFNAME is no variable; did you mean SOFTIB_SOCKET_IFNAME?"));
}

TEST(Environment, AlgorithmsAsNcclNamesThem) {
  const auto [environment, complaints] = parse_variables({{"SOFTIB_ALGO", "Ring;AllReduce:Tree;broadcast:tree"}});
  EXPECT_THAT(complaints, IsEmpty());
  ASSERT_THAT(environment.algo, SizeIs(3));
  EXPECT_THAT(environment.algo[0].algorithms, ElementsAre(Algorithm::ring));
  EXPECT_EQ(environment.algo[1].collective, Collective::all_reduce);
  EXPECT_THAT(environment.algo[1].algorithms, ElementsAre(Algorithm::double_tree));
  EXPECT_THAT(environment.algo[2].algorithms, ElementsAre(Algorithm::binomial));
}

TEST(Environment, SettingsOfAFile) {
  const std::string text = "# SOFTIB_DEBUG=TRACE\n  SOFTIB_DEBUG = INFO  # loud\nnothing\n=\nSOFTIB_DEBUGX=1\r\n";
  EXPECT_EQ(find_setting(text, "SOFTIB_DEBUG"), "INFO");
  EXPECT_EQ(find_setting(text, "SOFTIB_DEBUGX"), "1");
  EXPECT_EQ(find_setting(text, "SOFTIB_ALGO"), std::nullopt);
}

TEST(Environment, EveryVariableIsInTheDocument) {
  const std::string document = all_text(SOFTIB_SOURCE_DIR "/docs/collectives.md");
  for (const Variable& variable : variables()) EXPECT_THAT(document, HasSubstr("`" + std::string(variable.name)));
}

TEST(Log, LevelsAndSubsystems) {
  EXPECT_EQ(subsystems_from_names("^COLL"), ~static_cast<u32>(Subsystem::coll));
  EXPECT_EQ(subsystems_from_names("ALL"), static_cast<u32>(Subsystem::all));
  log::configure({LogLevel::info, static_cast<u32>(Subsystem::net), ""});
  EXPECT_TRUE(log::enabled(LogLevel::warn));
  EXPECT_TRUE(log::enabled(LogLevel::info, Subsystem::net));
  EXPECT_FALSE(log::enabled(LogLevel::info, Subsystem::coll));
  EXPECT_FALSE(log::enabled(LogLevel::trace, Subsystem::net));
  log::configure({});
}

TEST(Log, LinesInAFile) {
  std::string folder = ::testing::TempDir() + "softib-log-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  log::configure({LogLevel::info, static_cast<u32>(Subsystem::all), folder + "/%h.%p"});
  log::warn(3, "no {} there", "HCA");
  log::info(log::no_rank, Subsystem::init, "TCP");
  log::trace(3, Subsystem::init, "not this");
  log::configure({});
  const std::string path = folder + "/" + log::host_name() + "." + std::to_string(::getpid());
  EXPECT_THAT(all_text(path),
              MatchesRegex(".+:[0-9]+:[0-9]+ \\[3\\] SOFTIB WARN no HCA there\n.+:[0-9]+:[0-9]+ SOFTIB INFO TCP\n"));
  std::filesystem::remove_all(folder);
}

}  // namespace

}  // namespace softib::coll::test

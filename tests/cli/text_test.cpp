#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/link_text.h"
#include "cli/log_tail.h"
#include "cli/status_text.h"
#include "cli/table.h"

namespace softib::cli {
namespace {

using testing::HasSubstr;

TEST(Tail, LastLines) {
  EXPECT_EQ(tail("", 3, "> "), "");
  EXPECT_EQ(tail("a\nb\nc\n", 2, "> "), "> b\n> c\n");
  EXPECT_EQ(tail("a\nb\nc", 2, ""), "b\nc\n");
  EXPECT_EQ(tail("a\n\nb\n", 5, "-"), "-a\n-\n-b\n");
  EXPECT_EQ(tail_of_file("/nonexistent", 3, ""), "");
}

TEST(TableText, ColumnsAlign) {
  Table table({"NAME", "N", "X"});
  EXPECT_TRUE(table.empty());
  table.add({"a", "5", "-"});
  table.add({"longer", "1234", "y"});
  EXPECT_EQ(table.text(),
            "NAME       N  X\n"
            "a          5  -\n"
            "longer  1234  y\n");
}

TEST(Units, Bytes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1536ULL << 20), "1.5 GiB");
  EXPECT_EQ(bytes_text(~0ULL), "16384.0 PiB");
}

TEST(Units, Durations) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(59), "59 s");
  EXPECT_EQ(duration_text(3599), "59 min");
  EXPECT_EQ(duration_text(7500), "2 h 5 min");
  EXPECT_EQ(duration_text(90000), "1 d 1 h");
}

TEST(StatusText, ProcessesAndTraffic) {
  auto status = nlohmann::json::parse(R"json({
    "fabric": "lab", "link_layer": "InfiniBand", "daemon_pid": 42, "uptime_s": 61,
    "hosts": [{"name": "host0", "devices": [{"name": "mlx5_0", "ports": [
      {"number": 1, "state": "ACTIVE", "lid": 2, "gids": ["fe80::1"], "rate": "200 Gb/sec (4X HDR)",
       "tx_bytes": 2048, "tx_packets": 2, "rx_bytes": 0, "rx_packets": 0}]}]}],
    "processes": [{"pid": 815, "program": "ib_write_bw", "host": "host0", "memory_bytes": 65536,
                   "objects": {"context": 1, "pd": 1, "mr": 2, "mw": 0, "cq": 1, "qp": 8, "srq": 0, "ah": 0}}],
    "memory": {"segment_bytes": 1048576, "arena_bytes": 4096}})json");
  EXPECT_EQ(
      status_text(status),
      "fabric lab (InfiniBand), daemon 42, up 1 min\n"
      "\n"
      "HOST   DEVICE  PORT  STATE   LID  GID      RATE                 SENT BYTES / PACKETS  RECEIVED BYTES / PACKETS\n"
      "host0  mlx5_0     1  ACTIVE  0x2  fe80::1  200 Gb/sec (4X HDR)  2.0 KiB / 2           0 B / 0\n"
      "\n"
      "no subnet manager runs\n"
      "\n"
      "PID  PROGRAM      HOST   CONTEXTS  PDS  MRS  MWS  CQS  QPS  SRQS  AHS  SHARED MEMORY\n"
      "815  ib_write_bw  host0         1    1    2    0    1    8     0    0  64.0 KiB\n"
      "\n"
      "memory: 1.0 MiB in the segment, 4.0 KiB in rings\n");
}

TEST(StatusText, HowHostsArePlaces) {
  const auto shown = [](const char* places) {
    return status_text(nlohmann::json{{"namespaces", nlohmann::json::parse(places)}});
  };
  EXPECT_THAT(shown(R"({"kind": "namespaces", "link": "sib-lab", "note": ""})"),
              HasSubstr("hosts: in namespaces, reached from here by sib-lab\n\n"));
  EXPECT_THAT(shown(R"({"kind": "namespaces", "link": "", "note": "10.255.0.0/16 is docker0's"})"),
              HasSubstr("hosts: in namespaces (10.255.0.0/16 is docker0's)\n"));
  EXPECT_THAT(shown(R"({"kind": "plain", "note": "not permitted"})"),
              HasSubstr("hosts: without namespaces (not permitted)\n"));
  EXPECT_THAT(shown(R"({"kind": "lost", "note": ""})"), HasSubstr("softib-hosts died\n"));
  EXPECT_EQ(status_text(nlohmann::json::object()).find("hosts:"), std::string::npos);
}

TEST(StatusText, FaultsStandBeforeTheProcesses) {
  auto status = nlohmann::json::parse(R"({"faults": [{"what": "sw0:1 - host0/mlx5_0:1", "fault": "down"}]})");
  EXPECT_THAT(status_text(status), HasSubstr("NOT AS THE FABRIC FILE SAYS  FAULT\n"
                                             "sw0:1 - host0/mlx5_0:1       down\n\nno processes"));
  auto many = nlohmann::json::array();
  for (int i = 0; i < 25; ++i) many.push_back({{"what", std::to_string(i)}, {"fault", "off"}});
  EXPECT_THAT(faults_text(many), HasSubstr("and 5 more; 'softib status --json' has all\n"));
  EXPECT_EQ(faults_text(nlohmann::json()), "");
}

TEST(LinkText, TableAndChoice) {
  auto links = nlohmann::json::parse(R"([
    {"ends": ["leaf0:1", "host0/mlx5_0:1"], "state": "ACTIVE", "physical": "LinkUp", "width": "4x", "speed": "HDR",
     "faults": []},
    {"ends": ["leaf0:11", "host1/mlx5_1:1"], "state": "DOWN", "physical": "Polling", "width": null, "speed": null,
     "faults": ["down", "ber 1e-10"]}])");
  EXPECT_EQ(links_text(links),
            "END       END             STATE   PHYSICAL  WIDTH  SPEED  FAULTS\n"
            "leaf0:1   host0/mlx5_0:1  ACTIVE  LinkUp    4x     HDR    -\n"
            "leaf0:11  host1/mlx5_1:1  DOWN    Polling   -      -      down, ber 1e-10\n");
  EXPECT_EQ(links_at(links, "leaf0").size(), 2U);
  EXPECT_EQ(links_at(links, "leaf0:1").size(), 1U);
  EXPECT_EQ(links_at(links, "host1").size(), 1U);
  EXPECT_EQ(links_at(links, "host1/mlx5_1").size(), 1U);
  EXPECT_EQ(links_at(links, "leaf").size(), 0U);
  EXPECT_EQ(links_text(nlohmann::json::array()), "no links\n");
  EXPECT_THAT(links_text(nlohmann::json::parse(R"([5, {"ends": [1]}])")), HasSubstr("-"));
}

// A daemon of another age may leave out what this command looks for; it must not throw.
TEST(StatusText, MissingPartsAreDashes) {
  EXPECT_THAT(status_text(nlohmann::json::parse("{}")), HasSubstr("no processes"));
  auto text = status_text(nlohmann::json::parse(
      R"({"hosts": [{"devices": [{"ports": [{"gids": []}, 5]}]}], "processes": [{}, 7], "memory": 3})"));
  EXPECT_THAT(text, HasSubstr("-     -"));
}

}  // namespace
}  // namespace softib::cli

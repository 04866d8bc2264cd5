// What is written, to the byte.
#include "perf/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "perf/json.h"
#include "perf/plot.h"

namespace softib::perf {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Row example_row() {
  Row row{1048576, 262144, "float", "sum", -1, {}, {}};
  row.out_of_place = {61.23e-6, {17.124, 17.124}, 0, {}};
  row.in_place = {12345.6789e-6, {0.0849, 0.0849}, std::nullopt, {}};
  return row;
}

TEST(Number, FitsItsColumn) {
  EXPECT_EQ(text_of_number(0, 7), "   0.00");
  EXPECT_EQ(text_of_number(9.999, 6), " 10.00");
  EXPECT_EQ(text_of_number(1234.567, 7), "1234.57");
  EXPECT_EQ(text_of_number(12345.67, 7), "12345.7");
  EXPECT_EQ(text_of_number(123456.7, 7), " 123457");
  EXPECT_EQ(text_of_number(1234567.8, 7), "1234568");
  EXPECT_EQ(text_of_number(12345678.9, 7), "1.2e+07");
  EXPECT_EQ(text_of_number(12345678.9, 6), " 1e+07");
}

TEST(Report, HasTheHeadingOfNcclTests) {
  Options options;
  options.min_bytes = 8;
  options.max_bytes = 1U << 27;
  options.step_factor = 2;
  EXPECT_EQ(text_of_heading(options, "all_reduce_perf"),
            "# nccl-tests version 2.19.6 nccl-headers=100 nccl-library=100 (SoftIB 0.1.0)\n"
            "# Collective test starting: all_reduce_perf\n"
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 "
            "validation: 1 graph: 0 unalign: 0\n"
            "#\n"
            "# Using devices\n");
  options.step_factor = 1;
  options.blocking = Blocking::wait_each;
  EXPECT_THAT(text_of_heading(options, "x"), HasSubstr("step: 1048576(bytes) warmup"));
  EXPECT_THAT(text_of_heading(options, "x"),
              HasSubstr("\n# Blocking Enabled: wait after each inner iteration (-m), no barrier \n#\n"));
}

TEST(Report, ListsDevices) {
  EXPECT_EQ(text_of_device({0, 0, 4711, "host0", 1, "0000:00:03", "AMD EPYC 7B13"}),
            "#  Rank  0 Group  0 Pid   4711 on      host0 device  1 [0000:00:03] AMD EPYC 7B13\n");
}

TEST(Report, HasTheColumnsOfNcclTests) {
  EXPECT_EQ(
      text_of_columns({}),
      "#\n"
      "#                                                              out-of-place                       in-place      "
      "    \n"
      "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
      "#wrong \n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)  "
      "       \n");
  Options options;
  options.timestamps = true;
  options.cpu_time = true;
  EXPECT_THAT(text_of_columns(options), HasSubstr("  cputime   algbw"));
  EXPECT_THAT(text_of_columns(options), HasSubstr("#wrong           timestamp\n"));
}

TEST(Report, HasTheRowsOfNcclTests) {
  EXPECT_EQ(text_of_row({}, example_row(), ""),
            "     1048576        262144     float     sum      -1    61.23   17.12   17.12       0  12345.7    0.08    "
            "0.08    "
            " N/A\n");
  Options options;
  options.timestamps = true;
  EXPECT_THAT(text_of_row(options, example_row(), "2026-01-31 12:00:00"), HasSubstr(" N/A  2026-01-31 12:00:00\n"));
}

TEST(Report, EndsAsThatOfNcclTests) {
  EXPECT_EQ(text_of_verdict({0, 12.5, -1}, "all_reduce_perf") + text_of_end(""),
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 12.5 \n"
            "#\n"
            "# Collective test concluded: all_reduce_perf\n"
            "#\n"
            "\n");
  EXPECT_THAT(text_of_verdict({2, 8.9, 10}, "x"), HasSubstr(": 2 FAILED\n# Avg bus bandwidth    : 8.9 FAILED\n"));
  EXPECT_THAT(text_of_verdict({0, 9.1, 10}, "x"), HasSubstr(": 9.1 OK\n"));
}

TEST(Report, SummarizesIterations) {
  Iterations iterations{{9, 1, 2, 3, 4}, {}};
  const Summary all = summary_of(iterations, 0);
  EXPECT_EQ(all.most, 9);
  EXPECT_EQ(all.p50, 3);
  EXPECT_EQ(all.p99, 9);
  const Summary later = summary_of(iterations, 1);
  EXPECT_EQ(later.least, 1);
  EXPECT_EQ(later.most, 4);
  EXPECT_DOUBLE_EQ(later.mean, 2.5);
  EXPECT_NEAR(later.deviation, 1.118, 0.001);
  Row row = example_row();
  row.out_of_place.iterations = Iterations{{1e-6, 3e-6}, {}};
  Options options;
  options.per_iteration = true;
  EXPECT_THAT(text_of_row(options, row, ""), HasSubstr("       0     1.00     3.00     3.00    50.00  12345.7"));
}

TEST(Report, TellsMemoryInUnits) {
  EXPECT_EQ(text_of_memory({1536, i64{3} << 30, 0}),
            "# GPU memory usage     : Initialization 1.50 KB | User-Allocated 3.00 GB | Collective 0.00 B | Total  "
            "3.00 GB\n");
}

class Json : public testing::Test {
 protected:
  Json() : folder_(std::filesystem::temp_directory_path() / ("perf-json-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(folder_);
  }
  ~Json() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] std::string path() const { return (folder_ / "x.json").string(); }
  static nlohmann::json parsed(const std::string& path) {
    std::ifstream file(path);
    return nlohmann::json::parse(file);
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(Json, HasTheStructureOfNcclTests) {
  Options options;
  options.per_iteration = true;
  Row row = example_row();
  row.out_of_place.iterations = Iterations{{1e-6, 3e-6}, {{1e-6, 2e-6}, {1e-6, 3e-6}}};
  std::string why;
  {
    const auto file = JsonFile::create(path(), why);
    ASSERT_TRUE(file) << why;
    file->begin({"all_reduce_perf", "-b", "8"}, {"A=\"/\xff"});
    file->write_config(options, std::vector<Device>{{0, 0, 4711, "host0", 1, "0000:00:03", "CPU"}});
    file->write_row(options, row);
    file->write_row(options, row);
    file->write_verdict({0, 1.5, -1});
    file->end("");
  }
  const auto json = parsed(path());
  EXPECT_EQ(json["version"], 3);
  EXPECT_EQ(json["args"][1], "-b");
  EXPECT_EQ(json["config"]["step_bytes"], 1048576);
  EXPECT_EQ(json["config"]["per_iter_timing"], "true");
  EXPECT_EQ(json["config"]["devices"][0]["hostname"], "host0");
  ASSERT_EQ(json["results"].size(), 2U);
  EXPECT_EQ(json["results"][0]["root"], "    -1");
  EXPECT_EQ(json["results"][0]["out_of_place"]["nwrong"], 0.0);
  EXPECT_TRUE(json["results"][0]["in_place"]["nwrong"].is_null());
  EXPECT_EQ(json["results"][0]["out_of_place_per_iter"]["per_process_max_times_us"].size(), 2U);
  EXPECT_EQ(json["average_bus_bandwidth"]["okay"], "unchecked");
  EXPECT_EQ(json["out_of_bounds"]["okay"], "true");
  EXPECT_EQ(json["errors"].size(), 0U);
}

TEST_F(Json, IsWholeAfterAFailureAndNeverWrittenOver) {
  std::string why;
  for (const char* name : {"", ".0", ".1"}) {
    const auto file = JsonFile::create(path(), why);
    ASSERT_TRUE(file) << why;
    EXPECT_EQ(file->path(), path() + name);
    file->begin({"x"}, {});
    file->write_config({}, {});
    file->end("rank 1 has ended");
  }
  EXPECT_EQ(parsed(path() + ".1")["errors"][0], "rank 1 has ended");
  EXPECT_FALSE(JsonFile::create("/nowhere/x.json", why));
  EXPECT_THAT(why, StartsWith("/nowhere/x.json: "));
}

TEST(Plot, DrawsEachCurveOnLogarithmicAxes) {
  const std::string svg =
      plot_svg("a < b", {{"one", {{8, 0.01}, {1024, 0.1}, {1 << 20, 1}}}, {"two", {{0, 1}, {8, 0}}}});
  EXPECT_THAT(svg, StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, HasSubstr(">one</text>"));
  EXPECT_THAT(svg, HasSubstr(">1 KiB</text>"));
  EXPECT_THAT(svg, HasSubstr("M70.0 400.0L"));  // the least of both is in the corner
  EXPECT_THAT(svg, HasSubstr("L730.0 45.0\""));
  EXPECT_EQ(svg.find(">two</text>"), std::string::npos);  // nothing of it can be drawn
  EXPECT_THAT(plot_svg("empty", {}), HasSubstr("no data"));
}

}  // namespace
}  // namespace softib::perf

// The programs as a whole, over a communicator that does what the definitions say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

#include "perf/program.h"
#include "planted.h"

namespace softib::perf {
namespace {

using testing::HasSubstr;

constexpr std::array<const char*, 11> all_names{"all_reduce",     "all_gather", "broadcast", "reduce",
                                                "reduce_scatter", "alltoall",   "alltoallv", "gather",
                                                "scatter",        "sendrecv",   "hypercube"};

struct Outcome {
  int code = 0;
  std::string output;
  std::string errors;

  // Lines that are no comments.
  [[nodiscard]] std::vector<std::vector<std::string>> rows() const {
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::vector<std::string> row;
      for (std::string word; words >> word;) row.push_back(word);
      if (!row.empty() && row.front().front() != '#') rows.push_back(row);
    }
    return rows;
  }
};

Outcome run(const Collective& collective, std::vector<std::string> words) {
  words.insert(words.begin(), "perf");
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_program(collective, "perf", static_cast<int>(pointers.size()), pointers.data());
  const std::string errors = testing::internal::GetCapturedStderr();
  return {code, testing::internal::GetCapturedStdout(), errors};
}

Outcome run(const char* name, const std::vector<std::string>& words) { return run(*make_collective(name), words); }

TEST(Frame, EveryProgramIsRightWithEveryNumberOfRanks) {
  for (const char* name : all_names)
    for (const char* ranks : {"1", "2", "3", "4", "5", "8", "9"}) {
      SCOPED_TRACE(std::string(name) + " on " + ranks);
      const Outcome outcome = run(name, {"-t", ranks, "-b", "4", "-e", "4100", "-f", "32", "-n", "1", "-d", "half"});
      EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
      EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 0 OK\n"));
    }
}

TEST(Frame, EveryRoot) {
  for (const char* name : {"broadcast", "reduce", "gather", "scatter"}) {
    const Outcome outcome = run(name, {"-t", "3", "-b", "1K", "-e", "1K", "-n", "1", "-r", "-1"});
    EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
    ASSERT_EQ(outcome.rows().size(), 3U);
    EXPECT_EQ(outcome.rows()[2][4], "2");
  }
}

TEST(Frame, EveryTypeAndOperator) {
  for (const char* name : {"all_reduce", "reduce_scatter", "sendrecv"}) {
    const Outcome outcome = run(name, {"-t", "3", "-b", "1K", "-e", "1K", "-n", "1", "-d", "all", "-o", "all"});
    EXPECT_EQ(outcome.code, 0) << outcome.output;
    EXPECT_EQ(outcome.rows().size(), 12U * 6);
  }
}

TEST(Frame, EveryWayOfTiming) {
  const std::vector<std::vector<std::string>> ways{
      {"-z", "1"}, {"-z", "2"}, {"-z", "3"},    {"-m", "5"}, {"-m", "5", "-z", "1"},
      {"-a", "0"}, {"-a", "2"}, {"-a", "3"},    {"-C", "1"}, {"-S", "1"},
      {"-I", "1"}, {"-N", "2"}, {"-u", "3"},    {"-w", "0"}, {"-g", "2"},
      {"-c", "3"}, {"-M", "1"}, {"--ordinary"}, {"-p", "1"}, {"-I", "1", "-K", "1"}};
  for (std::vector<std::string> words : ways) {
    SCOPED_TRACE(words.front() + words.back());
    words.insert(words.end(), {"-t", "2", "-b", "1K", "-e", "4K", "-n", "3", "-f", "2"});
    const Outcome outcome = run("all_reduce", words);
    EXPECT_EQ(outcome.code, 0) << outcome.output << outcome.errors;
    EXPECT_EQ(outcome.rows().size(), words.front() == "-N" ? 6U : 3U);
  }
}

TEST(Frame, UncheckedResultsAreNotCalledRight) {
  const Outcome outcome = run("all_reduce", {"-t", "2", "-b", "1K", "-e", "1K", "-n", "1", "-c", "0"});
  ASSERT_EQ(outcome.rows().size(), 1U);
  EXPECT_EQ(outcome.rows().front()[8], "N/A");
  EXPECT_EQ(outcome.rows().front()[12], "N/A");
}

TEST(Frame, AWrongElementIsFoundAndCounted) {
  const Outcome outcome = run(test::PlantedAllReduce(), {"-t", "3", "-b", "1K", "-e", "4K", "-f", "2", "-n", "1"});
  EXPECT_EQ(outcome.code, 7);
  ASSERT_EQ(outcome.rows().size(), 3U);
  for (const auto& row : outcome.rows()) {
    EXPECT_EQ(row[8], "1");
    EXPECT_EQ(row[12], "1");
  }
  EXPECT_THAT(outcome.output, HasSubstr("# Out of bounds values : 6 FAILED\n"));
}

TEST(Frame, AWrongElementOfAnyTypeAndOperator) {
  const Outcome outcome =
      run(test::PlantedAllReduce(), {"-t", "2", "-b", "1K", "-e", "1K", "-n", "1", "-d", "all", "-o", "all"});
  EXPECT_EQ(outcome.code, 7);
  ASSERT_EQ(outcome.rows().size(), 72U);
  for (const auto& row : outcome.rows()) EXPECT_EQ(row[8], "1") << row[2] << row[3];
}

TEST(Frame, BandwidthsBelowWhatIsAskedForFail) {
  ::setenv("NCCL_TESTS_MIN_BW", "1e9", 1);
  const Outcome slow = run("all_reduce", {"-t", "2", "-b", "1K", "-e", "1K", "-n", "1"});
  ::setenv("SOFTIB_TESTS_MIN_BW", "1e-9", 1);
  const Outcome fast = run("all_reduce", {"-t", "2", "-b", "1K", "-e", "1K", "-n", "1"});
  ::unsetenv("NCCL_TESTS_MIN_BW");
  ::unsetenv("SOFTIB_TESTS_MIN_BW");
  EXPECT_EQ(slow.code, 7);
  EXPECT_THAT(slow.output, HasSubstr(" FAILED\n"));
  EXPECT_EQ(fast.code, 0);
}

TEST(Frame, SizesAreDividedAsInNcclTests) {
  const Outcome outcome = run("all_gather", {"-t", "3", "-b", "40", "-e", "100", "-i", "60", "-n", "1"});
  ASSERT_EQ(outcome.rows().size(), 2U);
  EXPECT_EQ(outcome.rows()[0][0], "0");  // 13 bytes for each: none of 16
  EXPECT_EQ(outcome.rows()[1][0], "96");
  EXPECT_EQ(outcome.rows()[1][1], "8");
  EXPECT_EQ(outcome.rows()[1][3], "none");
}

TEST(Frame, AHypercubeOfThreeIsSkipped) {
  const Outcome outcome = run("hypercube", {"-t", "3", "-b", "1K", "-e", "1K"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.output, HasSubstr("\nnRanks 3 is not a power of 2, skipping\n"));
}

TEST(Frame, WrongUsage) {
  EXPECT_EQ(run("all_reduce", {"-d", "float99"}).code, 6);
  EXPECT_EQ(run("broadcast", {"-t", "2", "-b", "1K", "-e", "1K", "-r", "2"}).code, 6);
  EXPECT_EQ(run("all_reduce", {"--hosts", "a:0"}).code, 6);
  EXPECT_EQ(run("all_reduce", {"-h"}).code, 0);
  ::setenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE", "/nowhere", 1);
  EXPECT_EQ(run("alltoallv", {"-t", "2", "-b", "1K", "-e", "1K"}).code, 6);
  ::unsetenv("NCCL_TESTS_ALLTOALLV_MATRIX_FILE");
  ::setenv("RANK", "1", 1);
  ::setenv("WORLD_SIZE", "2", 1);
  const Outcome alone = run("all_reduce", {});
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  EXPECT_EQ(alone.code, 6);
  EXPECT_THAT(alone.errors, HasSubstr("SOFTIB_COMM_ID"));
}

}  // namespace
}  // namespace softib::perf

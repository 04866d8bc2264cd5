#include "perf/options.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/processors.h"
#include "perf/environment.h"
#include "perf/launch/plan.h"
#include "perf/meeting/meeting.h"
#include "perf/processor.h"
#include "perf/progress.h"
#include "perf/traffic.h"

namespace softib::perf {
namespace {

CommandLine parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "all_reduce_perf");
  return parse_command_line("all_reduce_perf", static_cast<int>(words.size()), words.data());
}

bool is_refused(std::vector<const char*> words) {
  const CommandLine line = parsed(std::move(words));
  return line.kind == CommandLine::Kind::refused && !line.text.empty();
}

TEST(Size, TakesUnitsOf1024InEitherCase) {
  EXPECT_EQ(parse_size("8"), 8U);
  EXPECT_EQ(parse_size("64K"), 65536U);
  EXPECT_EQ(parse_size("1m"), 1U << 20);
  EXPECT_EQ(parse_size("2G"), u64{2} << 30);
  EXPECT_EQ(parse_size("1.5k"), 1536U);
  for (const char* wrong : {"", "K", "-1", "8KB", "1T", "nan", "inf", "9999999999G"})
    EXPECT_FALSE(parse_size(wrong)) << wrong;
}

TEST(Options, HaveTheDefaultsOfNcclTests) {
  const CommandLine line = parsed({});
  ASSERT_EQ(line.kind, CommandLine::Kind::run);
  const Options& options = line.options;
  EXPECT_EQ(options.min_bytes, 32U << 20);
  EXPECT_EQ(options.max_bytes, 32U << 20);
  EXPECT_EQ(options.step_bytes, 1U << 20);
  EXPECT_EQ(options.step_factor, 1U);
  EXPECT_EQ(options.iterations, 20U);
  EXPECT_EQ(options.warm_up, 1U);
  EXPECT_EQ(options.aggregated, 1U);
  EXPECT_EQ(options.cycles, 1U);
  EXPECT_EQ(options.checks, 1U);
  EXPECT_EQ(options.op, coll::Op::sum);
  EXPECT_EQ(options.type, coll::DataType::float32);
  EXPECT_EQ(options.root, 0);
  EXPECT_EQ(options.average, Average::mean);
  EXPECT_EQ(options.ranks_here(), 1U);
  EXPECT_FALSE(options.launches());
}

TEST(Options, TakeTheWordsOfNcclTests) {
  const CommandLine line =
      parsed({"-b", "8",      "-e",     "128M",   "-f", "2",  "-n", "5",  "-w2", "-m", "3",  "-N", "0",  "-c", "0",
              "-o", "mulsum", "-d",     "f8e4m3", "-r", "-1", "-z", "3",  "-T",  "9",  "-C", "1",  "-S", "1",  "-a",
              "3",  "-J",     "x.json", "-t",     "2",  "-g", "3",  "-u", "1",   "-I", "1",  "-K", "2",  "-p", "1",
              "-y", "1",      "-G",     "0",      "-R", "2",  "-M", "1",  "-x",  "1",  "-V", "4"});
  ASSERT_EQ(line.kind, CommandLine::Kind::run) << line.text;
  const Options& options = line.options;
  EXPECT_EQ(options.max_bytes, 128U << 20);
  EXPECT_EQ(options.next_size(8), 16U);
  EXPECT_EQ(options.warm_up, 2U);
  EXPECT_EQ(options.op, coll::Op::premul_sum);
  EXPECT_EQ(options.type, coll::DataType::float8_e4m3);
  EXPECT_EQ(options.root, -1);
  EXPECT_EQ(options.blocking, Blocking::barrier_outer);
  EXPECT_EQ(options.average, Average::most);
  EXPECT_EQ(options.ranks_here(), 6U);
  EXPECT_TRUE(options.cpu_time && options.timestamps && options.per_iteration && options.memory_report);
  EXPECT_EQ(options.skipped, 2U);
  EXPECT_FALSE(parsed({"-d", "all"}).options.type);
  EXPECT_FALSE(parsed({"--op=all"}).options.op);
}

TEST(Options, OnesDashesOfTheLauncher) {
  EXPECT_EQ(parsed({"-np", "4"}).options.processes, 4U);
  EXPECT_EQ(parsed({"--np", "4", "-n", "7"}).options.iterations, 7U);
  EXPECT_TRUE(parsed({"--hosts", "host0,host1"}).options.launches());
}

TEST(Options, AreRefusedWithAReason) {
  EXPECT_TRUE(is_refused({"-b", "2M", "-e", "1M"}));
  EXPECT_TRUE(is_refused({"-b", "0"}));
  EXPECT_TRUE(is_refused({"-b", "many"}));
  EXPECT_TRUE(is_refused({"-i", "0"}));
  EXPECT_TRUE(is_refused({"-o", "xor"}));
  EXPECT_TRUE(is_refused({"-d", "float16"}));
  EXPECT_TRUE(is_refused({"-n", "0"}));
  EXPECT_TRUE(is_refused({"-z", "4"}));
  EXPECT_TRUE(is_refused({"-G", "1"}));
  EXPECT_TRUE(is_refused({"-D", "1"}));
  EXPECT_TRUE(is_refused({"-J", "x.txt"}));
  EXPECT_TRUE(is_refused({"--plot", "x.png"}));
  EXPECT_TRUE(is_refused({"--ordinary", "-R", "1"}));
  EXPECT_TRUE(is_refused({"-np", "0"}));
  EXPECT_TRUE(is_refused({"--unheard-of"}));
  EXPECT_TRUE(is_refused({"word"}));
  EXPECT_EQ(parsed({"-h"}).kind, CommandLine::Kind::help);
  for (const char* word : {"--bind-to core|none", "--agent", "--average", "--output_file"})
    EXPECT_NE(parsed({"-h"}).text.find(word), std::string::npos) << word;
  EXPECT_EQ(parsed({"-h"}).text.find('\0'), std::string::npos);
  EXPECT_TRUE(is_refused({"--bind-to", "socket"}));
  EXPECT_EQ(parsed({"--bind-to", "none"}).options.binding, Binding::none);
  EXPECT_EQ(parsed({"-b", "8", "-e", "64K", "-b", "1K"}).options.min_bytes, 1024U) << "the last one counts";
}

TEST(Options, OfSingleIterationsAreSetRight) {
  const CommandLine much = parsed({"-I", "1", "-K", "20"});
  EXPECT_EQ(much.options.skipped, 0U);
  EXPECT_NE(much.notes, "");
  EXPECT_EQ(parsed({"-K", "2"}).options.skipped, 0U);
}

TEST(Split, IsByAllFourOperations) {
  EXPECT_EQ(color_of(5, nullptr, nullptr), 0U);
  EXPECT_EQ(color_of(5, nullptr, "MOD 2"), 1U);
  EXPECT_EQ(color_of(5, nullptr, "%4"), 1U);
  EXPECT_EQ(color_of(9, nullptr, "DIV 4"), 2U);
  EXPECT_EQ(color_of(9, nullptr, "/0x3"), 3U);
  EXPECT_EQ(color_of(6, nullptr, "and 0b11"), 2U);
  EXPECT_EQ(color_of(6, nullptr, "|1"), 7U);
  EXPECT_EQ(color_of(6, "4", "MOD 2"), 4U);
  EXPECT_EQ(color_of(6, nullptr, "MOD 0"), 0U);
  EXPECT_EQ(color_of(6, nullptr, "by two"), 0U);
}

TEST(Plan, PutsProcessesOnHostsInOrder) {
  Options options;
  options.hosts = "host0,host1:2";
  ASSERT_EQ(plan_slots(options)->size(), 3U);
  EXPECT_EQ(plan_slots(options)->at(2).host, "host1");
  options.processes = 2;
  EXPECT_EQ(plan_slots(options)->size(), 2U);
  options.processes = 4;
  EXPECT_FALSE(plan_slots(options));
  for (const char* wrong : {"host0:", "host0:0", "host0:x", ":2", "-x", "a,,b"}) {
    options = {};
    options.hosts = wrong;
    EXPECT_FALSE(plan_slots(options)) << wrong;
  }
  options = {};
  options.processes = 3;
  EXPECT_EQ(plan_slots(options)->size(), 3U);
}

TEST(Plan, GivesEachRankAProcessorWhereThereAreEnough) {
  const std::vector<u32> allowed{0, 2, 3, 9, 11};
  Options options;
  EXPECT_EQ(processors_for(options, 2, allowed), (std::vector<std::string>{"0", "2"}));
  EXPECT_TRUE(processors_for(options, 6, allowed).empty());
  options.threads = 2;
  EXPECT_EQ(processors_for(options, 2, allowed), (std::vector<std::string>{"0,2", "3,9"}));
  EXPECT_TRUE(processors_for(options, 3, allowed).empty());
  options.agent = "ssh -x";
  EXPECT_TRUE(processors_for(options, 1, allowed).empty());
  options.agent.clear();
  options.binding = Binding::none;
  EXPECT_TRUE(processors_for(options, 1, allowed).empty());
}

TEST(Plan, GivesEachThreadOfAProcessAProcessorOfItsOwn) {
  const std::vector<u32> allowed{0, 2, 3};
  Options options;
  EXPECT_TRUE(processors_of_ranks(options, true, allowed).empty()) << "one rank is free to move";
  options.threads = 2;
  EXPECT_EQ(processors_of_ranks(options, true, allowed), (std::vector<std::string>{"0", "2"}));
  EXPECT_TRUE(processors_of_ranks(options, false, allowed).empty()) << "others may take the same ones";
  options.per_thread = 2;
  EXPECT_TRUE(processors_of_ranks(options, true, allowed).empty());
  options.per_thread = 1;
  options.binding = Binding::none;
  EXPECT_TRUE(processors_of_ranks(options, true, allowed).empty());
}

TEST(Plan, StaysOnProcessorsOfAList) {
  const std::vector<u32> before = allowed_processors();
  ASSERT_FALSE(before.empty());
  EXPECT_FALSE(stay_on("two"));
  EXPECT_FALSE(stay_on("123456789"));
  EXPECT_FALSE(stay_on(""));
  EXPECT_EQ(allowed_processors(), before);
  EXPECT_TRUE(stay_on(fmt::format("{}", before.back())));
  EXPECT_EQ(allowed_processors(), std::vector<u32>{before.back()});
  EXPECT_TRUE(stay_on(fmt::format("{}", fmt::join(before, ","))));
  EXPECT_EQ(allowed_processors(), before);
}

TEST(Plan, QuotesForTheShellOfAHost) {
  const Command command{"/a b/perf", {"-b", "it's"}, {{"SOFTIB_DEBUG", "IN FO"}}, "/c d"};
  const auto words = words_for({"host1"}, "ssh -x", command);
  const std::vector<std::string> expected{"ssh", "-x", "host1",
                                          "cd '/c d' && exec env 'SOFTIB_DEBUG=IN FO' '/a b/perf' '-b' 'it'\\''s'"};
  EXPECT_EQ(words, expected);
  EXPECT_EQ(words_for({}, "", command), (std::vector<std::string>{"/a b/perf", "-b", "it's"}));
}

TEST(Plan, KeepsItsOwnOptionsToItself) {
  const std::vector<const char*> words{"perf",    "-np", "2",         "-b",   "8",  "--hosts=a,b",
                                       "--agent", "ssh", "--bind-to", "none", "-n", "3"};
  EXPECT_EQ(arguments_of_rank(static_cast<int>(words.size()), words.data()),
            (std::vector<std::string>{"-b", "8", "-n", "3"}));
}

TEST(Plan, TellsHostsOfSettingsOnly) {
  const std::vector<const char*> environment{"PATH=/bin",           "SOFTIB_HOST=host0",    "SOFTIB_IB_HCA=mlx5_1",
                                             "NCCL_TESTS_MIN_BW=1", "SOFTIB_FABRIC_DIR=/x", nullptr};
  const auto shared = shared_variables(environment.data());
  EXPECT_EQ(shared.size(), 2U);
  EXPECT_EQ(shared.at("SOFTIB_IB_HCA"), "mlx5_1");
}

TEST(Meeting, CarriesIdsAsText) {
  coll::UniqueId id;
  id.bytes[0] = std::byte{0xab};
  id.bytes[2] = std::byte{1};
  EXPECT_EQ(to_text(id), "ab0001");
  EXPECT_EQ(id_from_text("ab0001")->bytes, id.bytes);
  for (const char* wrong : {"", "a", "zz", "a b "}) EXPECT_FALSE(id_from_text(wrong)) << wrong;
  EXPECT_FALSE(id_from_text(std::string(258, '0')));
}

TEST(Meeting, KnowsSlurmsNodeLists) {
  EXPECT_EQ(first_of_node_list("node1"), "node1");
  EXPECT_EQ(first_of_node_list("a,b"), "a");
  EXPECT_EQ(first_of_node_list("node[08-11,13],other"), "node08");
  EXPECT_EQ(first_of_node_list("rack[2,5]-ib,x"), "rack2-ib");
}

TEST(Traffic, GrowsWithTheDistance) {
  const Traffic traffic = Traffic::by_distance(1);
  EXPECT_EQ(traffic.bytes(0, 0, 4, 6144), 0U);
  EXPECT_EQ(traffic.bytes(0, 1, 4, 6144), 1024U);
  EXPECT_EQ(traffic.bytes(0, 3, 4, 6144), 3072U);
  EXPECT_EQ(traffic.bytes(3, 2, 4, 6144), 3072U);
  EXPECT_EQ(Traffic::by_distance(0).bytes(0, 3, 4, 4096), 1024U);
  EXPECT_EQ(traffic.bytes(0, 0, 1, 100), 96U);
}

TEST(Traffic, ComesFromAFile) {
  const auto traffic = Traffic::of_text("100 200\n\n 50 16.9 \n", "t", 1);
  ASSERT_TRUE(traffic);
  EXPECT_EQ(traffic->dimension(), 2U);
  EXPECT_EQ(traffic->bytes(0, 1, 2, 0), 192U);
  EXPECT_EQ(traffic->bytes(1, 1, 2, 0), 16U);
  EXPECT_EQ(Traffic::of_text("100", "t", 2)->bytes(0, 0, 1, 0), 192U);
  for (const char* wrong : {"", "1 2", "1 2\n3", "a", "-1", "1e300"})
    EXPECT_FALSE(Traffic::of_text(wrong, "t", 1)) << wrong;
}

TEST(Processor, IsNamedAsTheKernelDoes) {
  EXPECT_EQ(processor_name("processor\t: 0\nmodel name\t: AMD EPYC 7B13\n"), "AMD EPYC 7B13");
  EXPECT_EQ(processor_name("Processor\t: ARM\n"), "unknown processor");
  EXPECT_EQ(processor_place().size(), std::string("0000:00:00").size());
  EXPECT_GT(available_memory(), 0U);
  EXPECT_GT(resident_memory(), 0);
}

TEST(Progress, IsABar) {
  EXPECT_EQ(Progress::bar(0, 4, "x"), "[........................]   0/4 x");
  EXPECT_EQ(Progress::bar(2, 4, "1 KiB float"), "[############............]   2/4 1 KiB float");
  EXPECT_EQ(Progress::bar(4, 4, ""), "[########################]   4/4 ");
}

}  // namespace
}  // namespace softib::perf

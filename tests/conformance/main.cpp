// verbs_conformance: what RDMA hardware does, asked through plain libibverbs. See docs/conformance.md.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "end.h"
#include "options.h"

namespace conformance {
namespace {

char running[256];  // name of the test that runs, for the alarm's message

void on_alarm(int) {
  const char text[] = "\n[  HUNG    ] ";
  (void)!write(1, text, sizeof text - 1);
  (void)!write(1, running, std::char_traits<char>::length(running));
  (void)!write(1, "\n", 1);
  _exit(3);
}

// A test that hangs must end the process, not the night.
class TimeLimit : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& test) override {
    std::snprintf(running, sizeof running, "%s.%s", test.test_suite_name(), test.name());
    alarm(static_cast<unsigned>(options().limit * options().slow));
  }
  void OnTestEnd(const testing::TestInfo&) override { alarm(0); }
};

struct Known {
  std::string reason;
  bool may_pass = false;  // with another version of what is to blame
};
using Expected = std::map<std::string, Known>;

// Lines of "Suite.Test  reason"; '#' starts a comment, a '?' before the name says that the test may also pass.
Expected read_expected(const std::string& path) {
  Expected expected;
  if (path.empty()) return expected;
  std::ifstream file(path);
  if (!file) {
    std::cerr << "verbs_conformance: cannot read " << path << "\n";
    std::exit(2);
  }
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    std::string reason;
    if (!(words >> name) || name[0] == '#') continue;
    std::getline(words >> std::ws, reason);
    const bool may_pass = name[0] == '?';
    expected[name.substr(may_pass ? 1 : 0)] = {reason, may_pass};
  }
  return expected;
}

enum class Outcome { passed, skipped, failed };

struct Result {
  Outcome outcome;
  std::string output;
};

[[noreturn]] void become_self(std::vector<std::string> words, int output) {
  dup2(output, 1);
  dup2(output, 2);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv("/proc/self/exe", argv.data());
  _exit(127);
}

// Runs this program again with these arguments; gives its wait status and all it printed.
int run_self(const std::vector<std::string>& words, std::string* output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) become_self(words, ends[1]);
  close(ends[1]);
  char text[4096];
  for (ssize_t got; (got = read(ends[0], text, sizeof text)) > 0;) output->append(text, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

Result run_one(std::vector<std::string> words, const std::string& test) {
  words.push_back("--gtest_filter=" + test);
  Result result{Outcome::failed, ""};
  const int status = run_self(words, &result.output);
  if (WIFSIGNALED(status)) result.output += "killed by signal " + std::to_string(WTERMSIG(status)) + "\n";
  if (status == 0) {
    result.outcome = result.output.find("[  SKIPPED ]") == std::string::npos ? Outcome::passed : Outcome::skipped;
  }
  return result;
}

// The names that a filter selects, as GoogleTest itself lists them: "Suite." lines with indented test names below.
std::vector<std::string> selected_tests(std::vector<std::string> words, const std::string& filter) {
  words.push_back("--gtest_list_tests");
  if (!filter.empty()) words.push_back(filter);
  std::string output;
  run_self(words, &output);
  std::vector<std::string> names;
  std::string suite;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    const bool indented = line.starts_with("  ");
    line.erase(0, line.find_first_not_of(' '));
    line.erase(line.find_last_not_of(' ') + 1);
    if (line.empty()) continue;
    if (indented)
      names.push_back(suite + line);
    else
      suite = line;
  }
  return names;
}

// What the test itself said, without GoogleTest's frame.
std::string gist(const std::string& output) {
  std::istringstream lines(output);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool frame = line.starts_with("[") || line.starts_with("Note: Google Test") ||
                       line.starts_with("Running main") || line.find(" FAILED TEST") != std::string::npos ||
                       line.empty();
    if (!frame || line.starts_with("[  HUNG")) text += "    " + line + "\n";
  }
  return text;
}

struct Tally {
  int passed = 0, skipped = 0, expected = 0;
  std::vector<std::string> failed, surprising;
};

void report(const std::string& test, const Result& result, const Expected& expected, Tally* tally) {
  const auto known = expected.find(test);
  const char* word = "ok";
  if (result.outcome == Outcome::skipped) {
    word = "skip";
    ++tally->skipped;
  } else if (result.outcome == Outcome::passed && (known == expected.end() || known->second.may_pass)) {
    ++tally->passed;
  } else if (result.outcome == Outcome::passed) {
    word = "PASSED UNEXPECTEDLY";
    tally->surprising.push_back(test);
  } else if (known != expected.end()) {
    word = "known";
    ++tally->expected;
  } else {
    word = "FAIL";
    tally->failed.push_back(test);
  }
  std::printf("%-6s %s\n", word, test.c_str());
  if (result.outcome == Outcome::failed && known != expected.end()) {
    std::printf("    known: %s\n", known->second.reason.c_str());
  } else if (result.outcome != Outcome::passed) {
    std::printf("%s", gist(result.output).c_str());
  }
  std::fflush(stdout);
}

int run_isolated(const std::vector<std::string>& arguments, const std::string& filter) {
  const auto expected = read_expected(options().expected);
  Tally tally;
  for (const std::string& test : selected_tests(arguments, filter))
    report(test, run_one(arguments, test), expected, &tally);
  std::printf("\n%d passed, %zu failed, %d skipped, %d known to fail\n", tally.passed,
              tally.failed.size() + tally.surprising.size(), tally.skipped, tally.expected);
  for (const std::string& test : tally.failed) std::printf("  failed: %s\n", test.c_str());
  for (const std::string& test : tally.surprising) std::printf("  passed unexpectedly: %s\n", test.c_str());
  return tally.failed.empty() && tally.surprising.empty() ? 0 : 1;
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  using namespace conformance;
  std::vector<std::string> arguments;
  std::string filter;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--gtest_filter"))
      filter = word;
    else if (word != "--isolate")
      arguments.push_back(word);
  }
  testing::InitGoogleTest(&argc, argv);
  parse_options(&argc, argv);
  if (options().fork_init && ibv_fork_init() != 0) {
    std::cerr << "verbs_conformance: ibv_fork_init failed\n";
    return 2;
  }
  if (options().agent) {
    try {
      return run_agent(options().device, options().port, options().gid_index);
    } catch (const std::exception& problem) {
      std::cerr << "verbs_conformance agent: " << problem.what() << "\n";
      return 2;
    }
  }
  signal(SIGALRM, on_alarm);
  testing::UnitTest::GetInstance()->listeners().Append(new TimeLimit);
  if (options().isolate) return run_isolated(arguments, filter);
  return RUN_ALL_TESTS();
}

#include "options/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace softib::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct CommandLineTest : testing::Test {
  CommandLineTest() {
    line.required_text("--dir", dir, "A folder");
    line.texts("--device", devices, "Only these", "NAME");
    line.number("-n,--number", number, 1, 64, "How many");
    line.descriptor("--ready-fd", fd, "Told when all is up");
    line.flag("-v,--verbose", verbose, "Tell more");
  }

  std::optional<Ending> parse(std::vector<const char*> words) {
    words.insert(words.begin(), "program");
    return line.parse(static_cast<int>(words.size()), words.data());
  }

  CommandLine line{"What it is for", "program"};
  std::string dir;
  std::vector<std::string> devices;
  u32 number = 8;
  int fd = -1;
  bool verbose = false;
};

TEST_F(CommandLineTest, ReadsWhatIsGivenAndKeepsTheRest) {
  ASSERT_FALSE(parse({"--dir", "x", "--device", "a", "-v", "--device", "b", "--ready-fd", "5"}));
  EXPECT_EQ(dir, "x");
  EXPECT_THAT(devices, ElementsAre("a", "b"));
  EXPECT_EQ(number, 8U);
  EXPECT_EQ(fd, 5);
  EXPECT_TRUE(verbose);
}

TEST_F(CommandLineTest, HelpIsNoMistake) {
  line.footer("See elsewhere.");
  const auto ending = parse({"--help"});
  ASSERT_TRUE(ending);
  EXPECT_EQ(ending->status, 0);
  for (const char* part : {"What it is for", "--dir", "NAME", "Tell more", "See elsewhere."})
    EXPECT_THAT(ending->text, HasSubstr(part));
}

TEST_F(CommandLineTest, MistakesNameTheOptionAndTheRemedy) {
  const auto is_mistake = [this](const std::vector<const char*>& words, const char* named) {
    const auto ending = parse(words);
    ASSERT_TRUE(ending) << named;
    EXPECT_EQ(ending->status, 2) << named;
    EXPECT_THAT(ending->text, HasSubstr(named));
    EXPECT_THAT(ending->text, HasSubstr("--help"));
  };
  is_mistake({}, "--dir");
  is_mistake({"--dir", "x", "-n", "65"}, "65");
  is_mistake({"--dir", "x", "-n", "many"}, "many");
  is_mistake({"--dir", "x", "--unknown"}, "--unknown");
}

}  // namespace
}  // namespace softib::test

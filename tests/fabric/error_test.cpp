#include "fabric/error.h"

#include <gtest/gtest.h>

namespace softib::fabric {
namespace {

TEST(ErrorText, IsOneLineWithoutControlCharacters) {
  EXPECT_EQ(one_line("lab.yaml:3: a\nb\x1b[31m\x7f"), "lab.yaml:3: a?b?[31m?");
  EXPECT_EQ(one_line("größe"), "größe");
}

TEST(ErrorText, IsCutBetweenCharacters) {
  EXPECT_EQ(one_line(std::string(500, 'a')), std::string(500, 'a'));
  EXPECT_EQ(one_line(std::string(501, 'a')), std::string(500, 'a') + "...");
  EXPECT_EQ(one_line(std::string(499, 'a') + "öb"), std::string(499, 'a') + "...");
}

TEST(ErrorText, ShowsWordsInAsciiAndCutsThem) {
  EXPECT_EQ(shown("sw\t1\x9b"), "sw?1?");
  EXPECT_EQ(shown(std::string(60, 'a')), std::string(60, 'a'));
  EXPECT_EQ(shown(std::string(61, 'a')), std::string(60, 'a') + "...");
}

}  // namespace
}  // namespace softib::fabric

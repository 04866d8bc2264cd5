#include "cli/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace softib::cli {
namespace {

constexpr const char* library = "/opt/lib/libsoftib-preload.so";

TEST(Preload, ComesLastAndOnce) {
  EXPECT_EQ(with_preload("", library), library);
  EXPECT_EQ(with_preload("libasan.so.8", library), "libasan.so.8:/opt/lib/libsoftib-preload.so");
  EXPECT_EQ(with_preload("a.so b.so", library), "a.so:b.so:/opt/lib/libsoftib-preload.so") << "blanks separate as well";
  EXPECT_EQ(with_preload(library, library), library);
  EXPECT_EQ(with_preload("/old/libsoftib-preload.so:x.so", library), "x.so:/opt/lib/libsoftib-preload.so")
      << "that of another build gives way";
  EXPECT_EQ(with_preload("::x.so: ", library), "x.so:/opt/lib/libsoftib-preload.so");
}

TEST(Preload, TakenAway) {
  EXPECT_EQ(without_preload(""), "");
  EXPECT_EQ(without_preload(library), "");
  EXPECT_EQ(without_preload("libsoftib-preload.so"), "");
  EXPECT_EQ(without_preload("a.so:/x/libsoftib-preload.so:b.so"), "a.so:b.so");
  EXPECT_EQ(without_preload("/x/notlibsoftib-preload.so"), "/x/notlibsoftib-preload.so");
}

TEST(Tools, ComeLastAndOnce) {
  EXPECT_EQ(with_tools("/usr/bin:/bin", "/opt/libexec/softib/tools"), "/usr/bin:/bin:/opt/libexec/softib/tools");
  EXPECT_EQ(with_tools("/old/softib/tools:/bin", "/opt/softib/tools"), "/bin:/opt/softib/tools")
      << "those of another build give way";
  EXPECT_EQ(without_tools("/bin:/opt/softib/tools"), "/bin");
  EXPECT_EQ(without_tools(":/bin::"), ":/bin::") << "empty parts mean the current folder";
  EXPECT_EQ(without_tools(""), "");
}

TEST(Quoting, ForAShell) {
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("/tmp/x"), "'/tmp/x'");
  EXPECT_EQ(shell_quoted("it's $x"), "'it'\\''s $x'");
}

TEST(Variables, Outside) {
  ::setenv("LD_PRELOAD", "a.so:/x/libsoftib-preload.so", 1);
  auto variables = outside_environment();
  ASSERT_EQ(variables.size(), 3U);
  EXPECT_EQ(variables[0].name, "SOFTIB_FABRIC_DIR");
  EXPECT_FALSE(variables[0].value);
  EXPECT_EQ(variables[2].value, "a.so");
  apply(variables);
  EXPECT_STREQ(std::getenv("LD_PRELOAD"), "a.so");
  ::unsetenv("LD_PRELOAD");
  EXPECT_FALSE(outside_environment()[2].value);
}

}  // namespace
}  // namespace softib::cli

#include "fabric/runtime.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdlib>
#include <thread>

#include "temp_dir.h"

namespace softib::fabric {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Environment : public testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("SOFTIB_RUNTIME_DIR");
    ::unsetenv("XDG_RUNTIME_DIR");
  }
  test::TempDir dir_;
};

TEST_F(Environment, RuntimeDirInOrderOfPreference) {
  ::unsetenv("SOFTIB_RUNTIME_DIR");
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(runtime_dir(), "/tmp/softib-" + std::to_string(::getuid()));
  ::setenv("XDG_RUNTIME_DIR", "/nonexistent/run", 1);
  EXPECT_EQ(runtime_dir(), "/tmp/softib-" + std::to_string(::getuid())) << "as after su, where the folder is missing";
  ::setenv("XDG_RUNTIME_DIR", dir_.path().c_str(), 1);
  EXPECT_EQ(runtime_dir(), dir_ / "softib");
  ::setenv("SOFTIB_RUNTIME_DIR", "/own", 1);
  EXPECT_EQ(runtime_dir(), "/own");
  EXPECT_EQ(fabric_dir("lab"), "/own/lab");
  ::setenv("SOFTIB_RUNTIME_DIR", "", 1);
  EXPECT_EQ(runtime_dir(), dir_ / "softib");
}

TEST(PrivateDir, MadePrivateWhateverTheUmask) {
  test::TempDir dir;
  mode_t old = ::umask(0);
  auto made = open_private_dir(dir / "x", true);
  ::umask(old);
  ASSERT_TRUE(made) << made.error().text;
  struct stat info {};
  ASSERT_EQ(::fstat(made->get(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  EXPECT_TRUE(open_private_dir(dir / "x", true)) << "once more";
}

TEST(PrivateDir, RefusesWhatOthersCouldHavePrepared) {
  test::TempDir dir;
  ASSERT_EQ(::mkdir((dir / "target").c_str(), 0700), 0);
  ASSERT_EQ(::symlink((dir / "target").c_str(), (dir / "link").c_str()), 0);
  auto link = open_private_dir(dir / "link", true);
  ASSERT_FALSE(link);
  EXPECT_THAT(link.error().text, HasSubstr("is not a folder"));
  ASSERT_TRUE(write_file(dir / "file", "x"));
  EXPECT_THAT(open_private_dir(dir / "file", true).error().text, HasSubstr("is not a folder"));
  ASSERT_EQ(::mkdir((dir / "open").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((dir / "open").c_str(), 0770), 0);
  EXPECT_THAT(open_private_dir(dir / "open", true).error().text, HasSubstr("chmod 700"));
  EXPECT_THAT(open_private_dir(dir / "missing/x", true).error().text, HasSubstr("No such file"));
  EXPECT_THAT(open_private_dir(dir / "missing", false).error().text, HasSubstr("No such file"));
}

TEST(PrivateDir, RefusesAnotherUsersFolder) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make one";
  test::TempDir dir;
  ASSERT_EQ(::mkdir((dir / "his").c_str(), 0700), 0);
  ASSERT_EQ(::chown((dir / "his").c_str(), 12345, 12345), 0);
  EXPECT_THAT(open_private_dir(dir / "his", true).error().text, HasSubstr("belongs to user 12345"));
}

TEST(Lock, OneHolder) {
  test::TempDir dir;
  EXPECT_EQ(liveness(dir / "none"), Liveness::absent);
  EXPECT_EQ(liveness(dir.path()), Liveness::stale);
  {
    auto held = take_lock(dir.path());
    ASSERT_TRUE(held);
    EXPECT_EQ(liveness(dir.path()), Liveness::running);
    auto second = take_lock(dir.path());
    ASSERT_FALSE(second);
    EXPECT_EQ(to_int(second.error()), EWOULDBLOCK);
  }
  EXPECT_EQ(liveness(dir.path()), Liveness::stale);
  EXPECT_TRUE(take_lock(dir.path()));
}

TEST(Lock, WaitsOutALooker) {
  test::TempDir dir;
  ASSERT_TRUE(take_lock(dir.path()));
  Fd looker(::open((dir / "lock").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(looker.get(), LOCK_SH), 0);
  std::jthread leaves([&] {
    ::usleep(50'000);
    looker.reset();
  });
  EXPECT_TRUE(take_lock(dir.path()));
}

TEST(Fabrics, OnlyFoldersWithProperNames) {
  test::TempDir dir;
  for (const char* name : {"b", "a", ".hidden"}) ASSERT_EQ(::mkdir((dir / name).c_str(), 0700), 0);
  ASSERT_TRUE(write_file(dir / "file", ""));
  ASSERT_EQ(::symlink((dir / "a").c_str(), (dir / "link").c_str()), 0);
  EXPECT_THAT(fabrics_in(dir.path()), ElementsAre("a", "b"));
  EXPECT_TRUE(fabrics_in(dir / "none").empty());
}

TEST(Files, WriteReplacesAndLeavesNothingBehind) {
  test::TempDir dir;
  ASSERT_TRUE(write_file(dir / "f", std::string(100'000, 'x')));
  ASSERT_TRUE(write_file(dir / "f", "short"));
  EXPECT_EQ(*read_file(dir / "f"), "short");
  EXPECT_FALSE(std::filesystem::exists(dir / "f.new"));
  EXPECT_EQ(to_int(write_file(dir / "no/f", "x").error()), ENOENT);
  EXPECT_EQ(to_int(read_file(dir / "none").error()), ENOENT);
}

}  // namespace
}  // namespace softib::fabric

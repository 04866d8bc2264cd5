// A host's files under the preload library, with a daemon: made when they are first looked at, and counters that say
// what they stand at when they are read.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/types.h"

namespace softib::tests {
namespace {

constexpr const char* counters = "/sys/class/infiniband/mlx5_0/ports/1/counters";

std::string counter(const char* name) { return std::string(counters) + "/" + name; }

// Puts packets on this host's wire: requests to the switch, and its answers.
void make_traffic() { ASSERT_EQ(std::system("smpquery -D nodeinfo 0,1 > /dev/null"), 0); }

bool has_diags() { return std::system("command -v smpquery > /dev/null") == 0; }

std::string read_all(int fd) {
  char text[64];
  ssize_t length = ::read(fd, text, sizeof text);
  return length < 0 ? "<error>" : std::string(text, static_cast<size_t>(length));
}

u64 number(const std::string& text) {
  EXPECT_TRUE(!text.empty() && text.back() == '\n') << text;
  return std::strtoull(text.c_str(), nullptr, 10);
}

u64 by_open(const std::string& path, int folder = AT_FDCWD) {
  Fd fd(::openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(fd) << path << ": " << std::strerror(errno);
  return fd ? number(read_all(fd.get())) : 0;
}

u64 by_stdio(const std::string& path) {
  FILE* stream = std::fopen(path.c_str(), "r");
  EXPECT_NE(stream, nullptr) << path;
  unsigned long long value = 0;
  EXPECT_EQ(std::fscanf(stream, "%llu", &value), 1);
  std::fclose(stream);
  return value;
}

u64 by_stream(const std::string& path) {
  std::ifstream in(path);
  u64 value = 0;
  EXPECT_TRUE(in >> value) << path;
  return value;
}

struct Counters : testing::Test {
  void SetUp() override {
    if (!has_diags()) GTEST_SKIP() << "infiniband-diags is not installed";
    make_traffic();
  }
};

TEST_F(Counters, EveryWayOfReadingGivesWhatStandsThereNow) {
  const std::string path = counter("port_xmit_packets");
  const u64 value = by_open(path);
  EXPECT_GT(value, 0U);
  EXPECT_EQ(by_stdio(path), value);
  EXPECT_EQ(by_stream(path), value) << "reading puts nothing on the wire";
  make_traffic();
  EXPECT_GT(by_open(path), value);
  EXPECT_EQ(by_stdio(path), by_stream(path));
}

TEST_F(Counters, AnOpenFileIsReadAnewFromItsStart) {
  const std::string path = counter("port_rcv_packets");
  Fd fd(::open(path.c_str(), O_RDONLY));
  ASSERT_TRUE(fd);
  const u64 first = number(read_all(fd.get()));
  EXPECT_EQ(read_all(fd.get()), "") << "its end";
  make_traffic();
  ASSERT_EQ(::lseek(fd.get(), 0, SEEK_SET), 0);
  const u64 second = number(read_all(fd.get()));
  EXPECT_GT(second, first);
  make_traffic();
  char text[64]{};
  ASSERT_GT(::pread(fd.get(), text, sizeof text - 1, 0), 0);
  EXPECT_GT(number(text), second);
  Fd copy(::dup(fd.get()));
  make_traffic();
  char again[64]{};
  ASSERT_GT(::pread(copy.get(), again, sizeof again - 1, 0), 0);
  EXPECT_GT(number(again), number(text)) << "a duplicate is the same file";
}

TEST_F(Counters, RelativePathsAndFoldersLeadToThem) {
  const u64 value = by_open(counter("port_xmit_data"));
  Fd folder(::open(counters, O_RDONLY | O_DIRECTORY));
  ASSERT_TRUE(folder);
  EXPECT_EQ(by_open("port_xmit_data", folder.get()), value);
  EXPECT_EQ(by_open("../counters/port_xmit_data", folder.get()), value);
  const std::string before = std::filesystem::current_path();
  ASSERT_EQ(::chdir("/sys/class/infiniband/mlx5_0/ports/1"), 0);
  EXPECT_EQ(by_open("counters/port_xmit_data"), value);
  EXPECT_EQ(by_open("../1/hw_counters/../counters/port_xmit_data"), value);
  ASSERT_EQ(::chdir("counters"), 0);
  EXPECT_EQ(by_open("port_xmit_data"), value);
  EXPECT_EQ(by_stdio("port_xmit_data"), value);
  ASSERT_EQ(::chdir(before.c_str()), 0);
}

TEST_F(Counters, AllOfTheFolderCanBeRead) {
  u32 count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(counters)) {
    static_cast<void>(by_open(entry.path()));
    ++count;
  }
  EXPECT_EQ(count, 21U);
}

TEST_F(Counters, AreForReadingOnly) {
  EXPECT_EQ(::open(counter("link_downed").c_str(), O_RDWR), -1);
  EXPECT_EQ(errno, EACCES);
  Fd fd(::open(counter("link_downed").c_str(), O_RDONLY));
  struct stat status {};
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_TRUE(S_ISREG(status.st_mode));
}

// What fclose() closes, the library does not see: the number then belongs to a file that must not be written.
TEST_F(Counters, AnotherFileWithTheSameNumberIsLeftAlone) {
  const int number_before = ::open(counter("port_xmit_data").c_str(), O_RDONLY);
  ASSERT_GE(number_before, 0);
  FILE* stream = ::fdopen(number_before, "r");
  std::fclose(stream);
  char name[] = "/tmp/softib-counter-XXXXXX";
  Fd other(::mkstemp(name));
  ASSERT_EQ(other.get(), number_before);
  ::unlink(name);
  ASSERT_EQ(::write(other.get(), "precious data\n", 14), 14);
  for (int i = 0; i < 2; ++i) {
    char text[64]{};
    ASSERT_EQ(::pread(other.get(), text, sizeof text, 0), 14);
    EXPECT_STREQ(text, "precious data\n");
    ASSERT_EQ(::lseek(other.get(), 0, SEEK_SET), 0);
    EXPECT_EQ(read_all(other.get()), "precious data\n");
  }
}

TEST_F(Counters, AChildOfAForkAsksForItself) {
  const u64 value = by_open(counter("port_xmit_packets"));
  const pid_t child = ::fork();
  if (child == 0) {
    make_traffic();
    ::_exit(by_open(counter("port_xmit_packets")) > value ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_GT(by_open(counter("port_xmit_packets")), value) << "and so does its parent, afterwards";
}

// The trees of this fabric as they lie on disk, not as the library shows them.
std::string real_tree(const char* host) { return std::string(std::getenv("SOFTIB_FABRIC_DIR")) + "/hosts/" + host; }

TEST(Trees, AreMadeAtTheFirstLook) {
  std::error_code ignored;
  const std::vector<const char*> looks = {
      "ls /sys/class/infiniband/mlx5_0/ports/1/gids/0", "cat /sys/class/infiniband_verbs/abi_version",
      "test -c /dev/infiniband/uverbs0", "ls /sys/devices/pci0000:00/0000:10:00.0/vendor",
      "cd /sys/class/infiniband && ls mlx5_0"};
  for (const char* look : looks) {
    std::filesystem::remove_all(real_tree("host1"), ignored);
    ASSERT_FALSE(std::filesystem::exists(real_tree("host1")));
    EXPECT_EQ(std::system(("SOFTIB_HOST=host1 sh -c '" + std::string(look) + "' > /dev/null").c_str()), 0) << look;
    EXPECT_TRUE(std::filesystem::exists(real_tree("host1"))) << look;
  }
}

TEST(Trees, ManyAtOnceFindTheWholeTree) {
  std::error_code ignored;
  for (int round = 0; round < 5; ++round) {
    std::filesystem::remove_all(real_tree("host1"), ignored);
    EXPECT_EQ(std::system("got=$(for i in 1 2 3 4 5 6; do (echo $(SOFTIB_HOST=host1 cat "
                          "/sys/class/infiniband/mlx5_0/ports/1/state /sys/class/infiniband_mad/issm0/port)) & done; "
                          "wait); [ \"$(echo \"$got\" | sort | uniq -c | sed 's/^ *//')\" = '6 4: ACTIVE 1' ]"),
              0);
  }
}

TEST(Trees, AHostThatIsNotThereIsTold) {
  EXPECT_EQ(std::system("SOFTIB_HOST=host9 ls /sys/class/infiniband 2>&1 | "
                        "grep -q \"no files of host 'host9' of fabric 'default': it has no such host\""),
            0);
}

}  // namespace
}  // namespace softib::tests

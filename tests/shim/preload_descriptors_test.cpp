// Descriptor bookkeeping under the preload library. The library's own descriptors are seen here by the netlink socket's
// other end, which it keeps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"
#include "passing.h"
#include "shim/netlink_parse.h"

extern char** environ;

namespace softib {
namespace {

struct PreloadDescriptors : testing::Test {
  int netlink = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);

  void TearDown() override { ::close(netlink); }

  [[nodiscard]] bool works() const {
    std::string ask = tests::NetlinkRequest::nldev(RDMA_NLDEV_CMD_SYS_GET).finish();
    char answer[4096];
    return ::send(netlink, ask.data(), ask.size(), 0) > 0 && ::recv(netlink, answer, sizeof answer, MSG_DONTWAIT) > 0;
  }
};

TEST_F(PreloadDescriptors, ClosingAllOthersLeavesOursOpen) {
  ASSERT_TRUE(works());
  for (int fd = netlink + 1; fd < 2000; ++fd) ::close(fd);
  EXPECT_TRUE(works());
  EXPECT_EQ(::close_range(static_cast<unsigned>(netlink) + 1, ~0U, 0), 0);
  EXPECT_TRUE(works());
  ::closefrom(netlink + 1);
  EXPECT_TRUE(works());
}

TEST_F(PreloadDescriptors, CloseRangeClosesWhatIsTheProgramsAroundOurs) {
  int low = ::fcntl(0, F_DUPFD_CLOEXEC, 600);
  int high = ::fcntl(0, F_DUPFD_CLOEXEC, 900);
  ASSERT_EQ(::close_range(600, 1000, 0), 0);
  EXPECT_EQ(::fcntl(low, F_GETFD), -1);
  EXPECT_EQ(::fcntl(high, F_GETFD), -1);
  EXPECT_TRUE(works());
}

TEST_F(PreloadDescriptors, ANumberThatWasClosedIsLibcsAgain) {
  int number = netlink;
  ::close(number);
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  Fd reader(pipe_ends[0]), writer(pipe_ends[1]);
  EXPECT_EQ(::write(writer.get(), "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x');
  netlink = -1;
}

TEST_F(PreloadDescriptors, AVforkChildDoesNotDisturbTheParent) {
  pid_t child = ::vfork();
  if (child == 0) {
    ::close(netlink);
    ::close_range(3, ~0U, 0);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(works());
}

TEST_F(PreloadDescriptors, SpawnAndSystemWork) {
  char program[] = "/bin/true";
  char* arguments[] = {program, nullptr};
  pid_t child = 0;
  ASSERT_EQ(::posix_spawn(&child, program, nullptr, nullptr, arguments, environ), 0);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::system("test -e /sys/class/infiniband/mlx5_0/node_guid"), 0);
  EXPECT_TRUE(works());
}

TEST_F(PreloadDescriptors, ADescriptorSentThroughASocketStaysWhatItIs) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  Fd here(pair[0]), there(pair[1]);
  test::send_descriptor(here.get(), pair[1]);
  int received = test::receive_descriptor(there.get());
  Fd copy(received);
  struct stat status {};
  EXPECT_EQ(::fstat(copy.get(), &status), 0);  // asks whether it is a command file; it is none
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
  EXPECT_EQ(::write(copy.get(), "y", 1), 1);
  char byte = 0;
  EXPECT_EQ(::read(here.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
}

TEST(PreloadMemory, MappingsWorkWithoutASession) {
  auto* place = static_cast<char*>(::mmap(nullptr, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(place, MAP_FAILED);
  place[0] = 1;
  EXPECT_EQ(::madvise(place, 16384, MADV_DONTNEED), 0);
  EXPECT_EQ(place[0], 0);
  EXPECT_EQ(::mmap(place, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), place);
  void* moved = ::mremap(place + 4096, 8192, 32768, MREMAP_MAYMOVE);
  ASSERT_NE(moved, MAP_FAILED);
  EXPECT_EQ(::munmap(moved, 32768), 0);
  EXPECT_EQ(::munmap(place, 16384), 0);
  EXPECT_EQ(::munmap(place + 1, 4096), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
}  // namespace softib

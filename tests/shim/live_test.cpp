// A context's descriptors under the preload library, with a daemon: passing them on, fork, exec, closing.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/types.h"
#include "passing.h"
#include "shim/live_commands.h"

namespace softib::tests {
namespace {

ibv_context* open_first() {
  int count = 0;
  ibv_device** list = ::ibv_get_device_list(&count);
  ibv_context* context = count > 0 ? ::ibv_open_device(list[0]) : nullptr;
  ::ibv_free_device_list(list);
  return context;
}

bool port_answers(ibv_context* context) {
  ibv_port_attr port{};
  return ::ibv_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE;
}

// A context that can do things: PD, memory region, completion queue.
bool usable(ibv_context* context) {
  if (!context || !port_answers(context)) return false;
  static char memory[8192];
  ibv_pd* pd = ::ibv_alloc_pd(context);
  ibv_mr* mr = pd ? ::ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE) : nullptr;
  ibv_cq* cq = ::ibv_create_cq(context, 16, nullptr, nullptr, 0);
  bool made = pd && mr && cq;
  return made && ::ibv_destroy_cq(cq) == 0 && ::ibv_dereg_mr(mr) == 0 && ::ibv_dealloc_pd(pd) == 0;
}

// A command file that came from elsewhere, used by stock code: it takes the place of a fresh context's own. (The rxe
// provider has no ibv_import_device.)
ibv_context* context_on(int fd) {
  ibv_context* context = open_first();
  return context && ::dup2(fd, context->cmd_fd) == context->cmd_fd ? context : nullptr;
}

bool import_works(int fd) {
  ibv_context* imported = context_on(fd);
  return imported && usable(imported) && ::ibv_close_device(imported) == 0;
}

size_t open_descriptors() {
  auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

int wait_for(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What the receiver of a context does: its own registrations in a PD of the sender's.
int use_received(int socket) {
  u32 handle = 0;
  int fd = test::receive_descriptor(socket, &handle);
  ibv_context* imported = fd >= 0 ? context_on(fd) : nullptr;
  if (!imported) return 1;
  ibv_pd senders{imported, handle};
  static char memory[4096];
  ibv_mr* mr = ::ibv_reg_mr(&senders, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  if (!mr) return 2;
  ibv_pd none{imported, handle + 1000};
  if (::ibv_reg_mr(&none, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)) return 3;
  if (::ibv_dereg_mr(mr) != 0) return 4;
  return ::ibv_close_device(imported) == 0 ? 0 : 5;
}

struct Live : testing::Test {
  void SetUp() override {
    context = open_first();
    ASSERT_TRUE(context);
  }
  void TearDown() override {
    if (context) ::ibv_close_device(context);
  }
  ibv_context* context = nullptr;
};

TEST_F(Live, TheCommandFileIsACharacterDevice) {
  struct stat status {};
  ASSERT_EQ(::fstat(context->cmd_fd, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(status.st_rdev, makedev(231, 192));
  struct statx extended {};
  ASSERT_EQ(::statx(context->cmd_fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &extended), 0);
  EXPECT_TRUE(S_ISCHR(extended.stx_mode));
  EXPECT_TRUE(::fcntl(context->cmd_fd, F_GETFD) & FD_CLOEXEC);
  char byte;
  EXPECT_EQ(::read(context->cmd_fd, &byte, 1), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Live, DescriptorsAreTheLowestFreeNumbers) {
  Fd lowest(::dup(0));
  int expected = lowest.get();
  lowest.reset();
  ibv_context* second = open_first();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->cmd_fd, expected);
  EXPECT_EQ(::ibv_close_device(second), 0);
}

TEST_F(Live, EventFilesBehaveWhenThereIsNothing) {
  ibv_comp_channel* channel = ::ibv_create_comp_channel(context);
  ASSERT_TRUE(channel);
  for (int fd : {context->async_fd, channel->fd}) {
    EXPECT_TRUE(::fcntl(fd, F_GETFD) & FD_CLOEXEC);
    pollfd ready{fd, POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 0), 0);
    ASSERT_EQ(::fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    char room[64];
    EXPECT_EQ(::read(fd, room, sizeof room), -1);
    EXPECT_EQ(errno, EAGAIN);
    EXPECT_EQ(::write(fd, room, 1), -1);
    EXPECT_EQ(errno, EBADF);
  }
  EXPECT_EQ(::ibv_destroy_comp_channel(channel), 0);
}

// libibverbs recognises the descriptor and finds its device; that the rxe provider can't import is its own answer.
TEST_F(Live, ImportingIsUpToTheProvider) {
  ibv_context* imported = ::ibv_import_device(context->cmd_fd);
  if (imported) return;
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(Live, ADuplicateOutlivesTheOriginal) {
  int copy = ::dup(context->cmd_fd);
  ASSERT_GE(copy, 0);
  ASSERT_EQ(::ibv_close_device(context), 0);
  context = nullptr;
  EXPECT_TRUE(import_works(copy));
}

TEST_F(Live, ASentContextWorksInAnotherProcess) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
  Fd here(pair[0]), there(pair[1]);
  pid_t child = ::fork();
  if (child == 0) ::_exit(use_received(there.get()));
  ibv_pd* pd = ::ibv_alloc_pd(context);
  ASSERT_TRUE(pd);
  test::send_descriptor(here.get(), context->cmd_fd, pd->handle);
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(::ibv_dealloc_pd(pd), 0);
}

TEST_F(Live, AChildUsesItsCopyAndItsOwnContexts) {
  pid_t child = ::fork();
  if (child == 0) {
    if (!port_answers(context)) ::_exit(1);
    ibv_context* own = open_first();
    if (!usable(own)) ::_exit(2);
    ::_exit(::ibv_close_device(own) == 0 ? 0 : 3);
  }
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_TRUE(usable(context));
}

TEST_F(Live, AGrandchildToo) {
  pid_t child = ::fork();
  if (child == 0) {
    pid_t grandchild = ::fork();
    if (grandchild == 0) ::_exit(port_answers(context) && usable(open_first()) ? 0 : 1);
    ::_exit(wait_for(grandchild) == 0 && usable(open_first()) ? 0 : 1);
  }
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_TRUE(usable(context));
}

TEST_F(Live, AContextSurvivesExec) {
  int copy = ::dup(context->cmd_fd);  // without close-on-exec
  ASSERT_GE(copy, 0);
  pid_t child = ::fork();
  if (child == 0) {
    std::string number = std::to_string(copy);
    ::execl("/proc/self/exe", "shim_live_test", "import", number.c_str(), nullptr);
    ::_exit(127);
  }
  EXPECT_EQ(wait_for(child), 0);
  ::close(copy);
}

TEST_F(Live, ClosingEverythingElseDoesNoHarm) {
  int last = std::max(context->cmd_fd, context->async_fd);
  for (int fd = last + 1; fd < 4096; ++fd) ::close(fd);
  EXPECT_TRUE(usable(context));
  ASSERT_EQ(::close_range(static_cast<unsigned>(last) + 1, ~0U, 0), 0);
  EXPECT_TRUE(usable(context));
}

TEST_F(Live, SubprocessesDoNotDisturbIt) {
  pid_t child = ::vfork();
  if (child == 0) {
    ::close_range(3, ~0U, 0);
    ::_exit(0);
  }
  EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(std::system("exit 0"), 0);
  EXPECT_TRUE(usable(context));
}

TEST_F(Live, ADescriptorPutOverAContextEndsIt) {
  int command = context->cmd_fd;
  Fd null(::open("/dev/null", O_RDWR));
  ASSERT_EQ(::dup2(null.get(), command), command);
  EXPECT_FALSE(port_answers(context));
  EXPECT_EQ(::write(command, "x", 1), 1);  // /dev/null's
  EXPECT_EQ(::ibv_close_device(context), 0);
  context = nullptr;
}

TEST(LiveCounts, DescriptorsAreGivenBack) {
  ASSERT_EQ(::ibv_close_device(open_first()), 0);  // what stays open for the process is open now
  size_t before = open_descriptors();
  for (int i = 0; i < 100; ++i) {
    ibv_context* context = open_first();
    ASSERT_TRUE(context);
    ibv_comp_channel* channel = ::ibv_create_comp_channel(context);
    ASSERT_TRUE(channel);
    ASSERT_EQ(::ibv_destroy_comp_channel(channel), 0);
    ASSERT_EQ(::ibv_close_device(context), 0);
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(LiveCounts, ThreadsOpenAndClose) {
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 10; ++round) {
        ibv_context* context = open_first();
        if (context && port_answers(context) && ::ibv_close_device(context) == 0) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 40);
}

TEST(LiveDevice, AbsentOnesAreAbsent) {
  EXPECT_EQ(::open("/dev/infiniband/uverbs7", O_RDWR), -1);
  EXPECT_EQ(errno, ENXIO);
  EXPECT_EQ(::open("/dev/infiniband/uverbs0", O_RDONLY | O_DIRECTORY), -1);
  EXPECT_EQ(errno, ENOTDIR);
}

// The daemon dies under a program: every command fails, nothing hangs. Last, and in a fabric of its own.
TEST(DaemonGone, CommandsFailAndSayWhy) {
  ibv_context* context = open_first();
  ASSERT_TRUE(context);
  std::string kill_daemon = "kill -9 $(cat \"$SOFTIB_FABRIC_DIR/daemon.pid\")";
  ASSERT_EQ(std::system(kill_daemon.c_str()), 0);
  while (::ibv_alloc_pd(context)) ::usleep(1000);
  EXPECT_FALSE(::ibv_create_comp_channel(context));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(open_first());
  std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("softib up"), std::string::npos) << told;
  ::ibv_close_device(context);
  // Nor can files be had of a host that nobody has used before.
  EXPECT_EQ(std::system("SOFTIB_HOST=host1 ls /sys/class/infiniband 2>&1 | grep -q \"softib up\""), 0);
}

}  // namespace

std::optional<int> run_live_command(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "import") return std::nullopt;
  return import_works(std::atoi(argv[2])) ? 0 : 1;
}

}  // namespace softib::tests

// The daemon as processes see it: over its socket, with real children that are killed.
#include "daemon/server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>

#include "ipc/client.h"
#include "passing.h"

namespace softib::daemon {
namespace {

using namespace std::chrono_literals;

ipc::Attach::Request attach_request(const char* host) {
  ipc::Attach::Request request{};
  request.version = ipc::interface_version;
  request.size_of_qp = sizeof(ipc::Qp);
  std::strncpy(request.host, host, sizeof request.host - 1);
  return request;
}

struct Program {
  std::unique_ptr<ipc::Client> client;
  ipc::Attach::Reply attached{};
  Fd segment;
  Fd memory;
  u32 context = 0;
  Fd command;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    char pattern[] = "/tmp/softib-test-XXXXXX";
    dir_ = std::string(::mkdtemp(pattern)) + "/fabric";
    start();
  }
  ~ServerTest() override {
    if (daemon_ > 0) stop(SIGKILL);
    std::filesystem::remove_all(std::filesystem::path(dir_).parent_path());
  }

  // The daemon runs in a child, as it does in life.
  void start() {
    daemon_ = ::fork();
    if (daemon_ == 0) {
      ::close_range(3, ~0U, 0);  // what other tests of this program left open is not the daemon's
      spdlog::set_level(spdlog::level::off);
      ::_exit(run_daemon(dir_));
    }
    for (int i = 0; i < 2000 && !ipc::Client::connect(dir_); ++i) std::this_thread::sleep_for(5ms);
  }

  static int run_daemon(const std::string& dir) {
    auto files = RuntimeFiles::claim(dir);
    if (!files) return 1;
    auto server = Server::create(std::move(*files), fabric::default_fabric("test"));
    if (!server) return 2;
    (*server)->run();
    return 0;
  }

  int stop(int signal) {
    ::kill(daemon_, signal);
    int status = -1;
    ::waitpid(daemon_, &status, 0);
    daemon_ = 0;
    return status;
  }

  std::unique_ptr<Program> program(const char* host) {
    auto made = std::make_unique<Program>();
    auto client = ipc::Client::connect(dir_);
    EXPECT_TRUE(client);
    if (!client) return made;
    made->client = std::move(*client);
    made->memory = Fd(::memfd_create("m", MFD_CLOEXEC));
    EXPECT_EQ(::ftruncate(made->memory.get(), 1L << 47), 0);
    auto attached = made->client->call_fd<ipc::Attach>(0, attach_request(host), made->memory.get(), &made->segment);
    EXPECT_TRUE(attached);
    if (attached) made->attached = *attached;
    auto opened = made->client->call_fd<ipc::OpenContext>(0, {made->attached.host + 1, 0}, -1, &made->command);
    EXPECT_TRUE(opened);
    if (opened) made->context = opened->context;
    return made;
  }

  // To the daemon, without the client's care for what it sends.
  [[nodiscard]] Fd raw_connection(int flags = 0) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, (dir_ + "/daemon.sock").c_str());
    Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | flags, 0));
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return socket;
  }

  // A child that sets itself up, tells so, and sleeps until it is killed.
  pid_t child(const std::function<void()>& work) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_t pid = ::fork();
    if (pid == 0) {
      ::close(ready[0]);
      work();
      (void)!::write(ready[1], "r", 1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    return pid;
  }

  static void kill_child(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  [[nodiscard]] size_t descriptors_of_daemon() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(daemon_) + "/fd")) {
      (void)entry;
      ++count;
    }
    return count;
  }

  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 6000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(5ms);
    }
    return false;
  }

  static ipc::Segment* map(const Program& program) {
    void* mapped = ::mmap(nullptr, ipc::segment_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                          program.segment.get(), 0);
    return mapped == MAP_FAILED ? nullptr : static_cast<ipc::Segment*>(mapped);
  }

  static std::chrono::nanoseconds cpu_time(pid_t pid) {
    clockid_t clock;
    timespec used{};
    if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
    return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
  }

  std::string dir_;
  pid_t daemon_ = 0;
};

TEST_F(ServerTest, ServesAndEndsCleanly) {
  auto p = program("host0");
  auto pd = p->client->call<ipc::AllocPd>(p->context, {});
  EXPECT_TRUE(pd);
  struct stat info {};
  ASSERT_EQ(::stat((dir_ + "/daemon.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/hosts/host0")) << "no program has asked for its files";
  EXPECT_TRUE(p->client->call<ipc::PrepareHost>(0, {"host0"}));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/hosts/host0/sys/class/infiniband/mlx5_0/node_guid"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/hosts/host1"));
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/daemon.pid"));
  ipc::Segment* segment = map(*p);
  ASSERT_NE(segment, nullptr);
  EXPECT_EQ(segment->header.daemon_alive, 1U);
  EXPECT_EQ(stop(SIGTERM), 0);
  EXPECT_EQ(segment->header.daemon_alive, 0U);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/daemon.sock"));
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/hosts"));
  EXPECT_FALSE(p->client->call<ipc::AllocPd>(p->context, {})) << "an error, no hang";
  ::munmap(segment, ipc::segment_size);
}

TEST_F(ServerTest, OneDaemonAFolder) {
  EXPECT_FALSE(RuntimeFiles::claim(dir_));
  EXPECT_TRUE(ipc::Client::connect(dir_)) << "the living one is unharmed";
}

TEST_F(ServerTest, AStaleFolderIsSwept) {
  stop(SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/daemon.sock"));
  start();
  auto p = program("host1");
  EXPECT_TRUE(p->client->call<ipc::AllocPd>(p->context, {}));
}

TEST_F(ServerTest, AKilledProcessLeavesNothing) {
  auto survivor = program("host1");
  ipc::Segment* segment = map(*survivor);
  ASSERT_NE(segment, nullptr);
  // One more answer: what went with the last one is closed by then.
  ASSERT_TRUE(survivor->client->call<ipc::AllocPd>(survivor->context, {}));
  size_t before = descriptors_of_daemon();
  for (int i = 0; i < 20; ++i) {
    pid_t pid = child([this] {
      auto p = program("host0").release();
      Fd channel;
      auto made = p->client->call_fd<ipc::CreateChannel>(p->context, {}, -1, &channel);
      auto pd = p->client->call<ipc::AllocPd>(p->context, {});
      auto cq = p->client->call<ipc::CreateCq>(p->context, {10, made->channel, 0, 0, 0});
      ipc::CreateQp::Request request{};
      request.pd = pd->pd;
      request.send_cq = request.recv_cq = cq->cq;
      request.type = ipc::QpType::rc;
      request.caps = {10, 10, 1, 1, 0};
      auto qp = p->client->call<ipc::CreateQp>(p->context, request);
      if (!qp || ::pwrite(p->memory.get(), "x", 1, 1L << 33) != 1) ::_exit(1);
      // Inside the data path, holding a lock, when it dies.
      auto* own = map(*p);
      own->processes[p->attached.slot].lanes[0].sequence = 1;
      own->cqs[cq->cq].lock.holder = p->attached.slot;
      (void)channel.release();
    });
    EXPECT_GT(descriptors_of_daemon(), before);
    kill_child(pid);
    EXPECT_TRUE(eventually([&] { return descriptors_of_daemon() == before; }));
  }
  EXPECT_TRUE(eventually([&] {
    for (u32 slot = 1; slot < segment->header.process_limit; ++slot)
      if (slot != survivor->attached.slot && segment->processes[slot].state != ipc::ProcessState::free) return false;
    return true;
  }));
  for (u32 qpn = 0; qpn < segment->header.qp_limit; ++qpn) EXPECT_EQ(segment->qps[qpn].generation, 0U);
  for (u32 cq = 0; cq < segment->header.cq_limit; ++cq) EXPECT_EQ(segment->cqs[cq].generation, 0U);
  EXPECT_TRUE(survivor->client->call<ipc::AllocPd>(survivor->context, {}));
  ::munmap(segment, ipc::segment_size);
}

TEST_F(ServerTest, AContextLivesAsLongAsAnyCopyOfItsCommandFd) {
  auto survivor = program("host0");
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  // The child passes its command fd on and dies.
  pid_t pid = child([&] {
    auto p = program("host0").release();
    test::send_descriptor(pair[1], p->command.get());
  });
  Fd command(test::receive_descriptor(pair[0]));
  ASSERT_TRUE(command);
  kill_child(pid);
  ::close(pair[0]);
  ::close(pair[1]);
  struct stat info {};
  ASSERT_EQ(::fstat(command.get(), &info), 0);
  std::this_thread::sleep_for(50ms);
  auto imported = survivor->client->call<ipc::ImportContext>(0, {info.st_ino});
  ASSERT_TRUE(imported);
  EXPECT_TRUE(survivor->client->call<ipc::AllocPd>(imported->context, {}));
  command.reset();
  EXPECT_TRUE(eventually([&] { return !survivor->client->call<ipc::AllocPd>(imported->context, {}).has_value(); }));
}

TEST_F(ServerTest, AForkedChildDoesNotKeepItsParentAlive) {
  auto survivor = program("host1");
  ipc::Segment* segment = map(*survivor);
  int tell[2];
  ASSERT_EQ(::pipe(tell), 0);
  pid_t parent = child([&] {
    auto p = program("host0").release();
    pid_t grandchild = ::fork();
    if (grandchild == 0) {  // holds copies of everything
      for (;;) ::pause();
    }
    u32 numbers[2] = {p->attached.slot, static_cast<u32>(grandchild)};
    (void)!::write(tell[1], numbers, sizeof numbers);
  });
  u32 numbers[2] = {};
  ASSERT_EQ(::read(tell[0], numbers, sizeof numbers), static_cast<ssize_t>(sizeof numbers));
  kill_child(parent);
  EXPECT_TRUE(eventually([&] { return segment->processes[numbers[0]].state != ipc::ProcessState::live; }));
  ::kill(static_cast<pid_t>(numbers[1]), SIGKILL);
  ::close(tell[0]);
  ::close(tell[1]);
  ::munmap(segment, ipc::segment_size);
}

TEST_F(ServerTest, AClientThatReadsNothingHoldsUpNobody) {
  Fd lazy = raw_connection(SOCK_NONBLOCK);
  auto other = program("host0");
  ipc::RequestHeader request{ipc::Op::status, 0};
  bool dropped = false;
  for (int i = 0; i < 200'000 && !dropped; ++i)
    if (::send(lazy.get(), &request, sizeof request, MSG_NOSIGNAL) < 0) {
      dropped = errno == EPIPE || errno == ECONNRESET;
      if (!dropped) std::this_thread::sleep_for(1ms);
    }
  EXPECT_TRUE(dropped);
  EXPECT_TRUE(other->client->call<ipc::AllocPd>(other->context, {}));
}

TEST_F(ServerTest, OversizedMessagesAreRefused) {
  Fd socket = raw_connection();
  std::vector<u8> bytes(100'000);
  ASSERT_EQ(::send(socket.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  ipc::ReplyHeader reply{};
  ASSERT_EQ(::recv(socket.get(), &reply, sizeof reply, 0), static_cast<ssize_t>(sizeof reply));
  EXPECT_EQ(reply.error, EMSGSIZE);
}

TEST_F(ServerTest, RunsOutOfDescriptorsAndRecovers) {
  rlimit limit{64, 64};
  ASSERT_EQ(::prlimit(daemon_, RLIMIT_NOFILE, &limit, nullptr), 0);
  std::vector<std::unique_ptr<ipc::Client>> clients;
  auto before = cpu_time(daemon_);
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    auto client = ipc::Client::connect(dir_);
    if (!client) continue;
    auto request = attach_request("host0");
    request.is_tool = 1;
    refused += !(*client)->call<ipc::Attach>(0, request).has_value();
    clients.push_back(std::move(*client));
  }
  EXPECT_GT(refused, 0);
  std::this_thread::sleep_for(200ms);
  EXPECT_LT(cpu_time(daemon_) - before, 1s) << "it does not spin";
  clients.clear();
  EXPECT_TRUE(eventually([&] {
    auto client = ipc::Client::connect(dir_);
    auto request = attach_request("host0");
    request.is_tool = 1;
    return client && (*client)->call<ipc::Attach>(0, request).has_value();
  }));
}

// With no descriptor to refuse with, it waits until one is free.
TEST_F(ServerTest, CannotEvenRefuse) {
  auto p = program("host0");
  rlimit limit{3, 64};  // less than the number of any descriptor that it could give up
  ASSERT_EQ(::prlimit(daemon_, RLIMIT_NOFILE, &limit, nullptr), 0);
  auto waiting = ipc::Client::connect(dir_);
  ASSERT_TRUE(waiting);
  std::this_thread::sleep_for(100ms);
  auto before = cpu_time(daemon_);
  std::this_thread::sleep_for(300ms);
  EXPECT_LT(cpu_time(daemon_) - before, 50ms) << "it does not spin";
  limit.rlim_cur = 64;
  ASSERT_EQ(::prlimit(daemon_, RLIMIT_NOFILE, &limit, nullptr), 0);
  p.reset();
  auto request = attach_request("host0");
  request.is_tool = 1;
  EXPECT_TRUE((*waiting)->call<ipc::Attach>(0, request));
}

TEST_F(ServerTest, IdleCostsNothing) {
  auto p = program("host0");
  auto cq = p->client->call<ipc::CreateCq>(p->context, {10, 0, 0, 0, 0});
  EXPECT_TRUE(p->client->call<ipc::DestroyCq>(p->context, {cq->cq}));
  // The program closes its completion channel: told once, not for ever.
  Fd channel;
  ASSERT_TRUE(p->client->call_fd<ipc::CreateChannel>(p->context, {}, -1, &channel));
  channel.reset();
  std::this_thread::sleep_for(100ms);
  auto before = cpu_time(daemon_);
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(cpu_time(daemon_) - before, 2ms) << "the subnet manager looks at its port once a second, for some 30 us";
}

}  // namespace
}  // namespace softib::daemon

// RDMA netlink sockets under the preload library, driven by plain socket calls.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "shim/netlink_parse.h"

namespace softib {
namespace {

using tests::NetlinkRequest;

struct PreloadNetlink : testing::Test {
  Fd socket{::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)};
  std::string list = NetlinkRequest::nldev(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).finish();

  u32 own_id() {
    sockaddr_nl name{};
    socklen_t length = sizeof name;
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &length), 0);
    EXPECT_EQ(length, sizeof name);
    EXPECT_EQ(name.nl_family, AF_NETLINK);
    return name.nl_pid;
  }

  // One datagram, and the checks that netlink libraries make of where it came from.
  std::string receive(int fd) {
    char bytes[8192];
    sockaddr_nl from{};
    from.nl_pid = 99;
    iovec piece{bytes, sizeof bytes};
    msghdr message{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    ssize_t got = ::recvmsg(fd, &message, 0);
    EXPECT_EQ(message.msg_namelen, sizeof from);
    EXPECT_EQ(from.nl_family, AF_NETLINK);
    EXPECT_EQ(from.nl_pid, 0U);
    EXPECT_FALSE(message.msg_flags & MSG_TRUNC);
    return got < 0 ? std::string() : std::string(bytes, static_cast<size_t>(got));
  }
  void expect_list(int fd) {
    auto devices = tests::split_datagram(receive(fd));
    ASSERT_EQ(devices.size(), 2U);
    EXPECT_EQ(devices[0].text(RDMA_NLDEV_ATTR_DEV_NAME), "mlx5_0");
    EXPECT_EQ(devices[0].header.nlmsg_pid, own_id());
    auto end = tests::split_datagram(receive(fd));
    ASSERT_EQ(end.size(), 1U);
    EXPECT_EQ(end[0].header.nlmsg_type, NLMSG_DONE);
  }
};

TEST_F(PreloadNetlink, SendReceive) {
  ASSERT_TRUE(socket);
  sockaddr_nl any{};
  any.nl_family = AF_NETLINK;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  int one = 1;
  EXPECT_EQ(::setsockopt(socket.get(), SOL_NETLINK, NETLINK_EXT_ACK, &one, sizeof one), 0);
  EXPECT_EQ(::sendto(socket.get(), list.data(), list.size(), 0, reinterpret_cast<sockaddr*>(&any), sizeof any),
            static_cast<ssize_t>(list.size()));
  expect_list(socket.get());
}

TEST_F(PreloadNetlink, EveryWayToSend) {
  EXPECT_EQ(::send(socket.get(), list.data(), list.size(), 0), static_cast<ssize_t>(list.size()));
  expect_list(socket.get());
  EXPECT_EQ(::write(socket.get(), list.data(), list.size()), static_cast<ssize_t>(list.size()));
  expect_list(socket.get());
  iovec pieces[2] = {{list.data(), 10}, {list.data() + 10, list.size() - 10}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  EXPECT_EQ(::sendmsg(socket.get(), &message, 0), static_cast<ssize_t>(list.size()));
  expect_list(socket.get());
}

TEST_F(PreloadNetlink, PollTellsOfAnswers) {
  pollfd ready{socket.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  ASSERT_GT(::send(socket.get(), list.data(), list.size(), 0), 0);
  EXPECT_EQ(::poll(&ready, 1, 0), 1);
  expect_list(socket.get());
  EXPECT_EQ(::poll(&ready, 1, 0), 0);
  char byte;
  EXPECT_EQ(::recv(socket.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(PreloadNetlink, PeekGivesTheWholeLength) {
  ASSERT_GT(::send(socket.get(), list.data(), list.size(), 0), 0);
  char byte;
  ssize_t length = ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_TRUNC);
  EXPECT_EQ(static_cast<size_t>(length), receive(socket.get()).size());
}

TEST_F(PreloadNetlink, ABoundNameIsKept) {
  sockaddr_nl name{};
  name.nl_family = AF_NETLINK;
  name.nl_pid = 123456;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  EXPECT_EQ(own_id(), 123456U);
}

TEST_F(PreloadNetlink, DuplicatesShareTheSocket) {
  Fd copy(::dup(socket.get()));
  socket.reset(::dup2(copy.get(), ::fcntl(copy.get(), F_DUPFD_CLOEXEC, 100)));
  ASSERT_GE(socket.get(), 100);
  ASSERT_GT(::send(copy.get(), list.data(), list.size(), 0), 0);
  expect_list(socket.get());
}

TEST_F(PreloadNetlink, AChildMayUseIt) {
  pid_t child = ::fork();
  if (child == 0) {
    bool sent = ::send(socket.get(), list.data(), list.size(), 0) > 0;
    ::_exit(sent && tests::split_datagram(receive(socket.get())).size() == 2 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(PreloadNetlink, OtherFamiliesAreLibcs) {
  Fd route(::socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
  ASSERT_TRUE(route);
  int domain = 0;
  socklen_t length = sizeof domain;
  EXPECT_EQ(::getsockopt(route.get(), SOL_SOCKET, SO_PROTOCOL, &domain, &length), 0);
  EXPECT_EQ(domain, NETLINK_ROUTE);
  EXPECT_EQ(::getsockopt(socket.get(), SOL_SOCKET, SO_PROTOCOL, &domain, &length), 0);
  EXPECT_EQ(domain, NETLINK_RDMA);
}

}  // namespace
}  // namespace softib

#include "meeting_ranks.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <span>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "base/fd.h"

namespace softib::coll::test {

namespace {

// The machine's own interfaces, and the variables of who runs the tests, don't matter here.
[[maybe_unused]] const bool loopback_only = [] {
  ::unsetenv("SOFTIB_COMM_ID");
  ::unsetenv("SOFTIB_SOCKET_FAMILY");
  return ::setenv("SOFTIB_SOCKET_IFNAME", "=lo", 1) == 0;
}();

}  // namespace

UniqueId made_id() {
  auto id = UniqueId::make();
  if (!id) throw std::runtime_error(id.error().text);
  return *id;
}

Connected connect_rank(const UniqueId& id, u32 ranks, u32 rank, std::chrono::nanoseconds timeout) {
  return Bootstrap::connect(id, {.ranks = ranks, .rank = rank, .timeout = timeout});
}

std::vector<Connected> connect_all(u32 ranks, const std::vector<u32>& who, std::chrono::nanoseconds timeout) {
  return connect_all(made_id(), ranks, who, timeout);
}

std::vector<Connected> connect_all(const UniqueId& id, u32 ranks, const std::vector<u32>& who,
                                   std::chrono::nanoseconds timeout) {
  std::vector<Connected> results;
  for (std::size_t i = 0; i < who.size(); ++i) results.emplace_back(refuse(Code::internal_error, "not run"));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < who.size(); ++i)
    threads.emplace_back([&, i] { results[i] = connect_rank(id, ranks, who[i], timeout); });
  threads.clear();
  return results;
}

void as_threads(u32 ranks, const std::function<void(Bootstrap&)>& body) {
  const UniqueId id = made_id();
  std::vector<std::jthread> threads;
  for (u32 rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto bootstrap = connect_rank(id, ranks, rank);
      ASSERT_TRUE(bootstrap) << bootstrap.error().text;
      body(**bootstrap);
    });
}

Child::Child(const std::function<int()>& body) : pid_(::fork()) {
  if (pid_ == 0) ::_exit(body());
}

Child::~Child() {
  if (pid_ <= 0) return;
  kill();
  static_cast<void>(wait());
}

void Child::kill() { ::kill(pid_, SIGKILL); }

int Child::wait() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

MeetingElsewhere meeting_elsewhere() {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const Fd from_server(ends[0]);
  Fd to_test(ends[1]);
  Child server([&] {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const UniqueId id = made_id();
    return ::write(to_test.get(), &id, sizeof id) > 0 ? ::pause() : 1;
  });
  to_test.reset();
  UniqueId id;
  if (::read(from_server.get(), &id, sizeof id) != static_cast<ssize_t>(sizeof id))
    throw std::runtime_error("nobody serves a meeting");
  return {std::move(server), id};
}

Bootstrap::News next_news(Bootstrap& bootstrap) {
  while (true) {
    pollfd polled{bootstrap.descriptor(), POLLIN, 0};
    ::poll(&polled, 1, -1);
    if (auto news = bootstrap.news()) return *news;
  }
}

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace softib::coll::test

#include "daemon/server.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error_text.h"
#include "fabric/aggregation.h"
#include "fabric/error.h"
#include "hca/engine/timers.h"
#include "ipc/passed_fds.h"

namespace softib::daemon {

namespace {

using fabric::refuse;

using std::chrono::milliseconds;

constexpr milliseconds first_interval{1};
constexpr milliseconds longest_interval{100};
constexpr int messages_in_a_row = 16;  // then the others get their turn

// Four descriptors a process, and more for its objects.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) < 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

Fd make_signal_fd() {
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGTERM);
  sigaddset(&wanted, SIGINT);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  // A peer that goes while it is answered, and a file size limit that the segment passes, are errors, not deaths.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  return Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

struct Incoming {
  ssize_t size;  // as recvmsg
  bool truncated;
  Fd descriptor;
};

// All descriptors are taken over, so that none stays behind; the first counts.
Fd take_descriptor(const msghdr& message) {
  Fd first;
  ipc::for_each_passed_fd(message, [&first](int fd) {
    Fd owned(fd);
    if (!first) first = std::move(owned);
  });
  return first;
}

Incoming receive(int socket, std::span<u8> buffer) {
  ipc::FdRoom<ipc::max_fds> control;
  iovec part{buffer.data(), buffer.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  control.lend_to(header);
  ssize_t got;
  do got = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return {got, false, {}};
  return {got, (header.msg_flags & MSG_TRUNC) != 0, take_descriptor(header)};
}

}  // namespace

fabric::Parsed<std::unique_ptr<Server>> Server::create(RuntimeFiles files, fabric::Fabric fabric, Programs programs) {
  std::unique_ptr<Server> server(new Server(std::move(files)));
  if (auto started = server->start(std::move(fabric), std::move(programs)); !started)
    return tl::unexpected<fabric::Error>(started.error());
  return server;
}

Server::Server(RuntimeFiles files) : files_(std::move(files)) {}

Server::~Server() = default;

fabric::Parsed<void> Server::start(fabric::Fabric fabric, Programs programs) {
  raise_descriptor_limit();
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  signals_ = make_signal_fd();
  reserve_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!epoll_ || !signals_ || !reserve_) return refuse("cannot set up the event loop: " + error_text());
  auto control = Control::create(std::move(fabric), *this);
  if (!control)
    return refuse(to_int(control.error()) == E2BIG ? "the fabric has more devices or ports than the segment holds"
                                                   : "cannot make the shared segment: " + error_text(control.error()));
  control_ = std::move(*control);
  if (auto up = bring_up(); !up) return up;
  auto listener = files_.listen();
  if (!listener) return tl::unexpected<fabric::Error>(listener.error());
  listener_ = std::move(*listener);
  watch(signals_.get(), Source::signal, 0, EPOLLIN);
  set_listening(true);
  if (auto started = start_hosts(programs); !started) return started;
  if (auto started = start_managers(programs); !started) return started;
  start_aggregation(std::move(programs));
  return {};
}

fabric::Parsed<void> Server::start_hosts(const Programs& programs) {
  hosts_ = std::make_unique<HostsKeeper>(control_->fabric(), files_.dir());
  if (auto started = hosts_->start(programs); !started) return started;
  if (hosts_->handle() >= 0) {
    watch(hosts_->handle(), Source::keeper, 0, EPOLLIN);
    watch(hosts_->socket(), Source::keeper_word, 0, EPOLLIN);
  }
  control_->show_hosts(hosts_.get());
  return {};
}

// They find the socket listening, and are answered once run() begins.
fabric::Parsed<void> Server::start_managers(const Programs& programs) {
  const fabric::Fabric& fabric = control_->fabric();
  if (!control_->plane() || fabric.sm != fabric::SubnetManager::opensm) return {};
  managers_ = std::make_unique<StockManagers>(fabric, files_.dir(), programs);
  if (auto started = managers_->start(); !started) return started;
  watch_managers();
  control_->show_managers(managers_.get());
  return {};
}

void Server::watch_managers() {
  for (u32 i = 0; i < managers_->all().size(); ++i)
    if (const Fd& handle = managers_->all()[i].handle) watch(handle.get(), Source::manager, i, EPOLLIN);
}

bool Server::run_stock_managers(bool run) {
  const bool any = managers_->kill();
  if (!run) return any;
  if (auto started = managers_->start(); !started) spdlog::error(started.error().text);
  watch_managers();
  return true;
}

// Without them all else works.
void Server::start_aggregation(Programs programs) {
  if (aggregation_hosts(control_->fabric()).empty()) return;
  aggregation_ = std::make_unique<AggregationPrograms>(control_->fabric(), files_.dir(), std::move(programs));
  control_->show_aggregation(aggregation_.get());
  (void)run_aggregation(true);
}

void Server::watch_aggregation() {
  for (u32 i = 0; i < aggregation_->all().size(); ++i) {
    const AggregationPrograms::Process& process = aggregation_->all()[i];
    if (process.handle) watch(process.handle.get(), Source::aggregation, i, EPOLLIN);
    if (process.word) watch(process.word.get(), Source::aggregation_word, i, EPOLLIN);
  }
}

bool Server::run_aggregation(bool run) {
  const bool any = aggregation_->kill();
  if (!run) return any;
  if (auto started = aggregation_->start(); !started) spdlog::error(started.error().text);
  watch_aggregation();
  return true;
}

// The subnet is up before the first program comes.
fabric::Parsed<void> Server::bring_up() {
  next_advance_ = control_->advance(hca::now_ns());
  if (auto written = files_.write(); !written) return written;
  control_->keep_trees_in(files_.dir());
  return {};
}

void Server::watch(int fd, Source source, u32 id, u32 events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = static_cast<u64>(source) << 32 | id;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0)
    spdlog::error("cannot watch descriptor {}: {}", fd, error_text());
}

// The missing reader is told once: afterwards the channel only waits for its CQs to go.
void Server::watch_channel(u32 channel, int fd) { watch(fd, Source::channel, channel, EPOLLONESHOT); }

void Server::watch_rdma_cm(u32 file, int fd) { watch(fd, Source::rdma_cm, file, EPOLLONESHOT); }

void Server::forget(int fd) { ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

// By the descriptor that was taken when it came: its number may be another's by now.
bool Server::kill(u32 peer) {
  auto found = connections_.find(peer);
  if (found == connections_.end() || !found->second.process || found->second.user != ::geteuid()) return false;
  return ::syscall(SYS_pidfd_send_signal, found->second.process.get(), SIGKILL, nullptr, 0) == 0;
}

void Server::run() {
  constexpr int batch = 64;
  epoll_event events[batch];
  while (!stopping_) {
    int count = ::epoll_wait(epoll_.get(), events, batch, wait_limit());
    if (count == 0) ::sched_yield();  // looking once more: nobody should have to wait for that
    for (int i = 0; i < count && !stopping_; ++i)
      handle_event(static_cast<Source>(events[i].data.u64 >> 32), static_cast<u32>(events[i].data.u64));
    if (count > 0) tick_interval_ = first_interval;
    tick_if_due();
    advance_if_due();
  }
}

void Server::handle_event(Source source, u32 id) {
  switch (source) {
    case Source::listener:
      return accept_all();
    case Source::peer:
      return serve(id);
    case Source::process:
      return drop(id);
    case Source::context:
      return control_->context_closed(id);
    case Source::channel:
      return control_->channel_unread(id);
    case Source::umad:
      control_->umad_readable(id, hca::now_ns());
      next_mad_due_.begin(hca::now_ns());
      return;
    case Source::rdma_cm:
      return control_->rdma_cm_unread(id, hca::now_ns());
    case Source::manager:
      return managers_->ended(id);
    case Source::aggregation:
      return aggregation_->ended(id);
    case Source::aggregation_word:
      return aggregation_->told(id);
    case Source::keeper:
      return hosts_->ended();
    case Source::keeper_word:
      return hosts_->told();
    case Source::signal:
      stopping_ = true;
      return;
  }
}

// -- connections

void Server::accept_all() {
  for (;;) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      accept_one(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE) make_room_for_one_refusal();
    return;
  }
}

// Left in the backlog, the connection would wake the loop again and again, and its process would wait for ever.
void Server::make_room_for_one_refusal() {
  spdlog::error("out of file descriptors: a process is refused");
  reserve_.reset();
  Fd refused(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  bool none_left = !refused && (errno == EMFILE || errno == ENFILE);
  refused.reset();
  reserve_ = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // Not even for that: newcomers wait until somebody goes.
  if (none_left) set_listening(false);
}

void Server::set_listening(bool on) {
  if (listening_ == on) return;
  listening_ = on;
  if (on)
    watch(listener_.get(), Source::listener, 0, EPOLLIN);
  else
    forget(listener_.get());
}

void Server::accept_one(Fd socket) {
  ucred who{};
  socklen_t size = sizeof who;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &who, &size) < 0) return;
  u32 peer = control_->connect(who.pid);
  Connection& connection = connections_[peer];
  connection.socket = std::move(socket);
  connection.user = who.uid;
  watch(connection.socket.get(), Source::peer, peer, EPOLLIN);
  if (who.pid <= 0) return;
  // A child that inherited the connection can hold it open beyond the death of its owner; this can't be held open.
  connection.process = Fd(static_cast<int>(::syscall(SYS_pidfd_open, who.pid, 0)));
  if (connection.process) watch(connection.process.get(), Source::process, peer, EPOLLIN);
}

void Server::serve(u32 peer) {
  for (int i = 0; i < messages_in_a_row; ++i) {
    auto found = connections_.find(peer);
    if (found == connections_.end() || !serve_one(peer, found->second)) return;
  }
}

bool Server::serve_one(u32 peer, Connection& connection) {
  Incoming incoming = receive(connection.socket.get(), message_);
  if (incoming.size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (incoming.size <= 0) {
    drop(peer);
    return false;
  }
  Reply reply;
  if (incoming.truncated)
    reply.header.error = EMSGSIZE;
  else
    reply =
        control_->handle(peer, {message_.data(), static_cast<size_t>(incoming.size)}, std::move(incoming.descriptor));
  if (answer(connection, reply)) return true;
  spdlog::warn("a process does not take its answer and is dropped");
  drop(peer);
  return false;
}

bool Server::answer(const Connection& connection, const Reply& reply) {
  ipc::ReplyHeader header = reply.header;
  iovec parts[2] = {{&header, sizeof header}, {const_cast<u8*>(reply.body.data()), reply.body.size()}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = reply.body.empty() ? 1 : 2;
  ipc::FdRoom<1> control{};
  if (reply.fd) ipc::attach_fd(message, control, reply.fd.get());
  return ::sendmsg(connection.socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

void Server::drop(u32 peer) {
  // Closed before Control buries the process, so that the loop hears no more of it.
  if (connections_.erase(peer)) control_->disconnect(peer);
  set_listening(true);
}

// -- deferred work

int Server::wait_limit() const {
  constexpr u64 nanoseconds = 1'000'000;
  constexpr u64 longest = 3'600'000;
  int limit = control_->has_deferred() ? static_cast<int>(tick_interval_.count()) : -1;
  const u64 now = hca::now_ns();
  if (control_->wants_advance() || next_mad_due_.is_on(now)) return 0;
  if (next_advance_ == hca::never) return limit;
  const u64 wait = next_advance_ <= now ? 0 : std::min((next_advance_ - now) / nanoseconds + 1, longest);
  return limit < 0 ? static_cast<int>(wait) : std::min(limit, static_cast<int>(wait));
}

// Also when a program did something to the network: what that changed is to be told, and it may have set a timer.
void Server::advance_if_due() {
  const u64 now = hca::now_ns();
  if (control_->wants_advance() || next_advance_ <= now) next_advance_ = control_->advance(now);
}

void Server::tick_if_due() {
  if (!control_->has_deferred()) return;
  auto now = Clock::now();
  if (now - last_tick_ < tick_interval_) return;
  last_tick_ = now;
  // What has to wait for a process that is stopped should not keep the machine awake.
  if (control_->tick()) tick_interval_ = std::min(tick_interval_ * 2, longest_interval);
}

}  // namespace softib::daemon

#include "hosts/keeper.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/error_text.h"
#include "fabric/error.h"
#include "ipc/passed_fds.h"

namespace softib::hosts {

namespace {

using fabric::refuse;

// Of larger fabrics a host is made when somebody first goes there.
constexpr size_t most_made_ahead = 32;

Fd make_signal_fd() {
  sigset_t wanted;
  sigemptyset(&wanted);
  for (int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&wanted, signal);
  ::sigprocmask(SIG_SETMASK, &wanted, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
}

bool is_same_user(int client) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

void send_reply(int client, const ipc::EnterReply& reply, int handle) {
  iovec part{const_cast<ipc::EnterReply*>(&reply), sizeof reply};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  ipc::FdRoom<1> room{};
  if (handle >= 0) ipc::attach_fd(message, room, handle);
  (void)::sendmsg(client, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Keeper::Keeper(KeeperOptions options, Fd daemon) : options_(std::move(options)), daemon_(std::move(daemon)) {}

int Keeper::run() {
  signals_ = make_signal_fd();
  if (auto started = start(); !started) {
    report(ipc::KeeperReport::Kind::refused, started.error().text);
    return 1;
  }
  report(ipc::KeeperReport::Kind::ready, fmt::format("{}", fmt::join(notes_, "\n")));
  watch_until_the_end();
  for (const auto& [name, place] : places_) ::kill(place.pid(), SIGKILL);
  for (const auto& [name, place] : places_) ::waitpid(place.pid(), nullptr, 0);
  return 0;
}

fabric::Parsed<void> Keeper::start() {
  auto closet = Closet::enter();
  if (!closet) return refuse(closet.error().text);
  closet_.emplace(std::move(*closet));
  // One at least: whether hosts can be made here is to be known now.
  const size_t ahead = options_.hosts.size() <= most_made_ahead ? options_.hosts.size() : 1;
  if (auto made = make(std::span(options_.hosts).first(ahead)); !made) return made;
  join_machine();
  return listen();
}

void Keeper::join_machine() {
  if (closet_->rights().user_namespace) return;
  const u32 hosts = options_.hosts.back().number + 1;  // they are in order
  if (auto joined = closet_->join_machine(options_.fabric, hosts); !joined) notes_.push_back(joined.error().text);
}

fabric::Parsed<void> Keeper::listen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = fmt::format("{}/{}", options_.around.folder, ipc::places_socket);
  if (path.size() >= sizeof address.sun_path) return refuse(path + " is too long for a socket's name");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  listener_ = Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const mode_t before = ::umask(0177);
  const bool bound = ::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::umask(before);
  if (!bound || ::listen(listener_.get(), SOMAXCONN) < 0)
    return refuse(fmt::format("cannot listen on {}: {}", path, error_text()));
  return {};
}

fabric::Parsed<void> Keeper::make(std::span<const PlaceSpec> specs) {
  for (const PlaceSpec& spec : specs) {
    auto place = Place::begin(options_.around, spec);
    if (!place) return refuse(place.error().text);
    Place& kept = places_.insert_or_assign(spec.name, std::move(*place)).first->second;
    kept.tell_where(options_.around.folder);
    if (auto connected = kept.connect(closet_->network(), Closet::bridge); !connected) return connected;
  }
  for (const PlaceSpec& spec : specs) {
    Notes notes;
    auto finished = places_.find(spec.name)->second.finish(notes);
    if (!finished) return finished;
    if (notes_.empty()) notes_ = notes;  // they would be the same of all hosts
  }
  return {};
}

void Keeper::report(ipc::KeeperReport::Kind kind, std::string_view text) {
  ipc::KeeperReport message{};
  message.kind = kind;
  message.user_namespace = closet_ && closet_->rights().user_namespace;
  ipc::put_text(message.link, closet_ ? closet_->link() : "");
  ipc::put_text(message.text, text);
  (void)::send(daemon_.get(), &message, sizeof message, MSG_NOSIGNAL);
}

// -- the loop

void Keeper::watch_until_the_end() {
  for (;;) {
    std::vector<pollfd> events{{daemon_.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const Fd& client : clients_) events.push_back({client.get(), POLLIN, 0});
    if (::poll(events.data(), events.size(), -1) < 0 && errno != EINTR) return;
    if (events[0].revents && !hear_daemon()) return;
    if (events[1].revents && !take_signals()) return;
    for (size_t i = 3; i < events.size(); ++i)
      if (events[i].revents) answer(events[i].fd);
    std::erase_if(clients_, [&events](const Fd& client) {
      return std::any_of(events.begin() + 3, events.end(),
                         [&client](const pollfd& event) { return event.fd == client.get() && event.revents; });
    });
    if (events[2].revents) accept_one();
  }
}

// It says nothing; what there is to hear is its end.
bool Keeper::hear_daemon() const {
  char byte;
  const ssize_t got = ::recv(daemon_.get(), &byte, 1, MSG_DONTWAIT);
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool Keeper::take_signals() {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) return false;
  for (pid_t pid; (pid = ::waitpid(-1, nullptr, WNOHANG)) > 0;) bury(pid);
  return true;
}

void Keeper::bury(pid_t pid) {
  auto found =
      std::find_if(places_.begin(), places_.end(), [pid](const auto& entry) { return entry.second.pid() == pid; });
  if (found == places_.end()) return;
  report(ipc::KeeperReport::Kind::host_lost,
         fmt::format("the process that held the namespaces of {} ended; the next program there gets new ones",
                     found->first));
  found->second.forget_where();
  places_.erase(found);
}

// -- who wants to enter

void Keeper::accept_one() {
  Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (client && is_same_user(client.get())) clients_.push_back(std::move(client));
}

void Keeper::answer(int client) {
  ipc::EnterRequest request{};
  if (::recv(client, &request, sizeof request, MSG_DONTWAIT) != sizeof request) return;
  ipc::EnterReply reply{};
  auto place = place_of(ipc::get_text(request.host));
  if (!place) {
    reply.error = EIO;
    ipc::put_text(reply.text, place.error().text);
    return send_reply(client, reply, -1);
  }
  reply.own_pids = options_.around.own_pids;
  reply.user_namespace = closet_->rights().inode;
  send_reply(client, reply, (*place)->handle());
}

fabric::Parsed<Place*> Keeper::place_of(std::string_view host) {
  auto spec = std::find_if(options_.hosts.begin(), options_.hosts.end(),
                           [host](const PlaceSpec& known) { return known.name == host; });
  if (spec == options_.hosts.end()) return refuse(fmt::format("there is no host '{}'", host));
  auto found = places_.find(host);
  if (found == places_.end()) {
    if (auto made = make(std::span(&*spec, 1)); !made) {
      places_.erase(spec->name);
      return refuse(made.error().text);
    }
    found = places_.find(host);
  }
  Notes notes;
  found->second.furnish(notes);
  for (const std::string& note : notes) fmt::print(stderr, "softib-hosts: {}: {}\n", host, note);
  return &found->second;
}

}  // namespace softib::hosts

#include "ipoib/service.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "ipoib/interface.h"

namespace softib::ipoib {

namespace {

// A port, and the interfaces on it; the first is the parent of those that are made for further P_Keys.
struct Served {
  std::unique_ptr<Port> port;
  std::unique_ptr<SaClient> client;
  std::vector<Interface*> interfaces;
};

class Service {
 public:
  [[nodiscard]] Told<void> start(const Options& options);
  ~Service() { loop_.forget_timers(); }  // address handles among them, which go before their device
  // An error: a device has gone, and what was made on it is of no use.
  [[nodiscard]] Told<void> run();
  void leave();

 private:
  [[nodiscard]] Told<void> watch_system();
  [[nodiscard]] Told<Served*> port_of(const InterfaceOptions& options);
  [[nodiscard]] Told<Interface*> add(InterfaceOptions options);
  void add_children(Served& served);
  void port_changed(Served& served, ibv_event_type event);
  void system_changed();
  void look_for_missing();
  void tell_when_ready(int fd, Time until);
  void stop_when_idle();

  Loop loop_;
  bool verbose_ = false;
  bool children_ = false;
  std::vector<InterfaceOptions> missing_;  // their devices are waited for
  std::string gone_;
  Fd signals_;
  Netlink netlink_;
  rtnl::Watch watch_;
  std::vector<std::unique_ptr<Served>> ports_;
  std::vector<std::unique_ptr<Interface>> interfaces_;
};

Told<void> Service::watch_system() {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ending, signal);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  signals_ = Fd(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
  auto netlink = Netlink::open();
  auto watch = rtnl::Watch::open();
  if (!signals_ || !netlink || !watch) return complain("netlink or signals can't be watched");
  netlink_ = std::move(*netlink);
  watch_ = std::move(*watch);
  loop_.watch(signals_.get(), [this] { loop_.stop(); });
  loop_.watch(watch_.fd(), [this] { system_changed(); });
  return {};
}

void Service::system_changed() {
  const rtnl::Changes changes = watch_.read();
  for (const auto& interface : interfaces_) {
    if (changes.addresses) interface->addresses_changed();
    if (changes.routes) interface->routes_changed();
    if (changes.addresses) interface->look_at_groups();
  }
}

Told<Served*> Service::port_of(const InterfaceOptions& options) {
  for (const auto& served : ports_)
    if (served->port->device() == options.device && served->port->number() == options.port) return served.get();
  auto served = std::make_unique<Served>();
  auto port = Port::open(options.device, options.port);
  if (!port) return tl::unexpected<Complaint>(port.error());
  served->port = std::move(*port);
  auto client = SaClient::open(loop_, *served->port);
  if (!client) return tl::unexpected<Complaint>(client.error());
  served->client = std::move(*client);
  served->port->watch(loop_, [this, raw = served.get()](ibv_event_type event) { port_changed(*raw, event); });
  ports_.push_back(std::move(served));
  return ports_.back().get();
}

Told<Interface*> Service::add(InterfaceOptions options) {
  auto served = port_of(options);
  if (!served) return complain(fmt::format("{}: {}", options.name, served.error().text));
  if (options.pkey == 0) options.pkey = (*served)->port->first_pkey();
  auto interface = Interface::make({loop_, netlink_, verbose_}, *(*served)->port, *(*served)->client, options);
  if (!interface) return tl::unexpected<Complaint>(interface.error());
  (*served)->interfaces.push_back(interface->get());
  interfaces_.push_back(std::move(*interface));
  return interfaces_.back().get();
}

void Service::port_changed(Served& served, ibv_event_type event) {
  if (event == IBV_EVENT_DEVICE_FATAL) {
    gone_ = served.port->device();
    return loop_.stop();
  }
  served.port->refresh();
  for (Interface* interface : served.interfaces) interface->port_changed(event);
  add_children(served);
}

Told<void> Service::run() {
  loop_.run();
  if (gone_.empty()) return {};
  return complain(gone_ + " has gone");
}

void Service::look_for_missing() {
  std::erase_if(missing_, [this](const InterfaceOptions& one) {
    if (!is_there(one.device)) return false;
    auto added = add(one);
    if (!added) {
      fmt::print(stderr, "softib-ipoib: {}\n", added.error().text);
      return true;
    }
    (*added)->start();
    for (const auto& served : ports_)
      if (served->interfaces.back() == *added) add_children(*served);
    return true;
  });
  constexpr milliseconds pause{500};
  if (!missing_.empty()) loop_.after(pause, [this] { look_for_missing(); });
}

// What can't be made is told, and is no reason to end.
void Service::add_children(Served& served) {
  if (!children_) return;
  for (const u16 pkey : served.port->pkeys()) {
    const bool there = std::any_of(served.interfaces.begin(), served.interfaces.end(),
                                   [&](const Interface* one) { return ((one->options().pkey ^ pkey) & 0x7fff) == 0; });
    const auto child = there ? std::nullopt : child_of(served.interfaces.front()->options(), pkey);
    if (!child) continue;
    if (auto added = add(*child))
      (*added)->start();
    else
      fmt::print(stderr, "softib-ipoib: {}\n", added.error().text);
  }
}

std::vector<InterfaceOptions> interfaces_of_all_ports() {
  std::vector<InterfaceOptions> wanted;
  for (const ListedPort& port : list_ports()) {
    InterfaceOptions one;
    one.device = port.device;
    one.port = port.number;
    one.name = fmt::format("ib{}", wanted.size());
    wanted.push_back(one);
  }
  return wanted;
}

Told<void> Service::start(const Options& options) {
  verbose_ = options.verbose;
  children_ = options.children;
  if (auto watched = watch_system(); !watched) return watched;
  const auto wanted = options.interfaces.empty() ? interfaces_of_all_ports() : options.interfaces;
  if (wanted.empty()) return complain("there is no InfiniBand port here");
  for (const InterfaceOptions& one : wanted)
    if (options.wait && !is_there(one.device))
      missing_.push_back(one);
    else if (auto added = add(one); !added)
      return tl::unexpected<Complaint>(added.error());
  for (const auto& interface : interfaces_) interface->start();
  for (const auto& served : ports_) add_children(*served);
  look_for_missing();
  constexpr std::chrono::seconds patience{5};
  if (options.ready_fd >= 0) tell_when_ready(options.ready_fd, Clock::now() + patience);
  return {};
}

void Service::tell_when_ready(int fd, Time until) {
  const bool settled =
      std::all_of(interfaces_.begin(), interfaces_.end(), [](const auto& one) { return one->is_settled(); });
  if (settled || Clock::now() >= until) {
    constexpr std::string_view line = "ready\n";
    [[maybe_unused]] const auto written = ::write(fd, line.data(), line.size());
    ::close(fd);
    return;
  }
  constexpr milliseconds look_again{5};
  loop_.after(look_again, [this, fd, until] { tell_when_ready(fd, until); });
}

// The subnet manager is told, and its answer waited for, but not for long.
void Service::leave() {
  for (const auto& interface : interfaces_) interface->leave();
  constexpr milliseconds patience{300};
  loop_.after(patience, [this] { loop_.stop(); });
  stop_when_idle();
  loop_.run();
}

void Service::stop_when_idle() {
  const bool idle = std::all_of(ports_.begin(), ports_.end(), [](const auto& one) { return one->client->is_idle(); });
  if (idle) return loop_.stop();
  constexpr milliseconds look_again{2};
  loop_.after(look_again, [this] { stop_when_idle(); });
}

}  // namespace

Told<void> serve(const Options& options) {
  try {
    Service service;
    if (auto started = service.start(options); !started) return started;
    if (auto ended = service.run(); !ended) return ended;
    service.leave();
  } catch (const std::exception& error) {  // out of memory or descriptors
    return complain(error.what());
  }
  return {};
}

}  // namespace softib::ipoib

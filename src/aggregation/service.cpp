#include "aggregation/service.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "aggregation/office.h"
#include "aggregation/watch.h"
#include "base/error_text.h"
#include "base/fd.h"
#include "base/processors.h"

namespace softib::aggregation {

namespace {

using coll::innetwork::Correspondent;
using coll::innetwork::Subnet;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr auto look_for_manager = seconds(2);
constexpr auto look_at_devices = seconds(1);
constexpr auto most_rest = milliseconds(100);

constexpr u32 looks_apart = 64;

void tell(const std::string& text) { fmt::print(stderr, "softib-aggregation: {}\n", text); }

class Service {
 public:
  explicit Service(const Options& options) : options_(options) {}

  [[nodiscard]] coll::Outcome<void> start();
  void run();

 private:
  [[nodiscard]] bool is_stopped();
  void look_at_ports(Clock::time_point now);
  void lose(std::size_t place);
  void open_stations();
  void on_time(Clock::time_point now);
  void find_manager(Clock::time_point now);
  void tell_manager(std::optional<Correspondent> manager);
  void look_at_readiness();
  [[nodiscard]] bool is_crowded() const;

  const Options& options_;
  Fd signals_;
  Watch watch_;  // before those that are watched
  StationPorts ports_;
  std::vector<std::unique_ptr<Station>> stations_;  // by port; none while a port isn't active
  std::unique_ptr<Office> office_;
  std::unique_ptr<Enquiries> enquiries_;  // for the manager, where it is elsewhere
  std::optional<Correspondent> manager_;
  Clock::time_point looked_{};
  Clock::time_point looked_at_ports_{};
  std::size_t manager_tried_ = 0;  // which one of several that are registered
  bool ready_ = false;
  std::size_t processors_ = allowed_processors().size();
};

coll::Outcome<void> Service::start() {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ending, signal);
  ::sigprocmask(SIG_BLOCK, &ending, nullptr);
  signals_ = Fd(::signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!watch_ || !signals_) return coll::refuse(coll::Code::system_error, "descriptors to wait at: " + error_text());
  watch_.add_descriptor(signals_.get());
  auto ports = open_ports(options_.devices, {});
  if (!ports) return tl::unexpected(ports.error());
  ports_ = std::move(*ports);
  if (ports_.empty()) return coll::refuse(coll::Code::system_error, "there is no InfiniBand port here");
  stations_.resize(ports_.size());
  looked_at_ports_ = Clock::now();
  return {};
}

// HCAs are taken out, and put in again: as other devices, whatever they are called.
void Service::look_at_ports(Clock::time_point now) {
  if (now - looked_at_ports_ < look_at_devices) return;
  looked_at_ports_ = now;
  for (std::size_t i = ports_.size(); i-- > 0;)
    if (!ports_[i]->is_there()) lose(i);
  auto found = open_ports(options_.devices, ports_);
  if (!found) return;  // it is being put in or taken out right now
  for (auto& port : *found) {
    tell(fmt::format("{} is there", port->description));
    ports_.push_back(std::move(port));
    stations_.emplace_back();
  }
}

void Service::lose(std::size_t place) {
  const StationPort& port = *ports_[place];
  tell(fmt::format("{} has been taken out", port.description));
  stations_[place].reset();
  if (enquiries_ && enquiries_->is_at(port)) enquiries_.reset();
  if (office_ && office_->is_at(port)) {
    office_.reset();  // another port takes it over, and knows of no job
    tell_manager(std::nullopt);
  }
  if (office_) office_->node_is_gone(port.guid);
  stations_.erase(stations_.begin() + static_cast<std::ptrdiff_t>(place));
  ports_.erase(ports_.begin() + static_cast<std::ptrdiff_t>(place));
}

bool Service::is_stopped() {
  signalfd_siginfo info{};
  return ::read(signals_.get(), &info, sizeof info) == sizeof info;
}

// Ports become active in their own time.
void Service::open_stations() {
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    if ((stations_[i] || !options_.node) && office_) continue;
    if (!ports_[i]->refresh()) continue;
    if (options_.manager && !office_) {
      auto made = Office::make(*ports_[i], options_, watch_, &tell);
      if (!made) {
        tell(made.error().text);
        continue;
      }
      office_ = std::move(*made);
      tell_manager(office_->address());
    }
    if (!options_.node || stations_[i]) continue;
    auto made = Station::make(*ports_[i], options_, watch_, &tell);
    if (made)
      stations_[i] = std::move(*made);
    else
      tell(made.error().text);
    if (stations_[i]) stations_[i]->set_manager(manager_);
  }
}

void Service::tell_manager(std::optional<Correspondent> manager) {
  manager_ = manager;
  for (const auto& station : stations_)
    if (station) station->set_manager(manager);
}

void Service::find_manager(Clock::time_point now) {
  if (options_.manager || ports_.empty() || now - looked_ < look_for_manager) return;
  looked_ = now;
  if (!enquiries_) enquiries_ = std::make_unique<Enquiries>(*ports_[0], watch_);
  enquiries_->ask(coll::innetwork::find_manager(), [this](const Subnet::Answer& answer) {
    std::vector<Correspondent> managers;
    for (const auto& record : answer.records)
      if (const auto address = coll::innetwork::parse_manager(record))
        managers.push_back({address->lid, address->pair});
    if (managers.empty()) return;
    // One that has died may be registered for a while yet.
    const bool welcome =
        std::all_of(stations_.begin(), stations_.end(), [](const auto& one) { return !one || one->is_welcome(); });
    if (!welcome) ++manager_tried_;
    tell_manager(managers[manager_tried_ % managers.size()]);
  });
}

void Service::on_time(Clock::time_point now) {
  look_at_ports(now);
  open_stations();
  find_manager(now);
  if (office_) office_->on_time(now);
  for (const auto& station : stations_)
    if (station) station->on_time(now);
  if (enquiries_) enquiries_->on_time(now);
  look_at_readiness();
}

void Service::look_at_readiness() {
  if (ready_) return;
  const bool there = std::all_of(stations_.begin(), stations_.end(),
                                 [&](const auto& one) { return !options_.node || (one && one->is_welcome()); });
  if (!there || (options_.manager && (!office_ || !office_->is_registered()))) return;
  ready_ = true;
  tell(fmt::format("ready: {} node{}{}", options_.node ? stations_.size() : 0, stations_.size() == 1 ? "" : "s",
                   options_.manager ? fmt::format(", the manager at LID {}", office_->address().lid) : ""));
  if (options_.ready_fd < 0) return;
  constexpr std::string_view line = "ready\n";
  [[maybe_unused]] const auto written = ::write(options_.ready_fd, line.data(), line.size());
  ::close(options_.ready_fd);
}

// Are there fewer processors than threads that want one, ranks among them? To yield the processor instead of sleeping
// would be no help there: who yields waits for as long as others may run in one go, milliseconds.
bool Service::is_crowded() const {
  unsigned runnable = 0;
  char text[64]{};  // "0.20 0.18 0.12 3/80 11206"
  const Fd file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  if (!file || ::read(file.get(), text, sizeof text - 1) <= 0) return false;
  return std::sscanf(text, "%*s %*s %*s %u/", &runnable) == 1 && runnable > processors_;
}

void Service::run() {
  auto timed = Clock::time_point{};
  u32 turns = 0;
  for (;;) {
    const auto now = Clock::now();
    if (now - timed >= (ready_ ? most_rest : milliseconds(10)) / 2) {
      if (is_stopped()) break;
      timed = now;
      on_time(now);
      watch_.set_lingers(!is_crowded());
    }
    static_cast<void>(watch_.turn(now));
    if (watch_.is_asleep())
      watch_.wait(ready_ ? most_rest : milliseconds(10));
    else if (++turns % looks_apart == 0)
      watch_.wait(milliseconds(0));  // others want to be heard too
  }
  if (office_) office_->leave();
}

}  // namespace

int serve(const Options& options) {
  try {
    Service service(options);
    if (auto started = service.start(); !started) {
      tell(started.error().text);
      return 1;
    }
    service.run();
  } catch (const std::exception& error) {  // out of memory
    tell(error.what());
    return 1;
  }
  return 0;
}

}  // namespace softib::aggregation

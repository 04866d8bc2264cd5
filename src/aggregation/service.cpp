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
  void open_stations();
  void on_time(Clock::time_point now);
  void find_manager(Clock::time_point now);
  void tell_manager(std::optional<Correspondent> manager);
  void look_at_readiness();
  [[nodiscard]] bool is_crowded() const;

  const Options& options_;
  Fd signals_;
  Watch watch_;  // before those that are watched
  std::vector<std::unique_ptr<StationPort>> ports_;
  std::vector<std::unique_ptr<Station>> stations_;  // by port; none while a port isn't active
  std::unique_ptr<Office> office_;
  std::unique_ptr<Enquiries> enquiries_;  // for the manager, where it is elsewhere
  std::optional<Correspondent> manager_;
  Clock::time_point looked_{};
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
  auto ports = open_ports(options_.devices);
  if (!ports) return tl::unexpected(ports.error());
  ports_ = std::move(*ports);
  stations_.resize(ports_.size());
  if (!options_.manager) enquiries_ = std::make_unique<Enquiries>(*ports_[0], watch_);
  return {};
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
  if (!enquiries_ || now - looked_ < look_for_manager) return;
  looked_ = now;
  enquiries_->ask(coll::innetwork::find_manager(), [this](const Subnet::Answer& answer) {
    for (const auto& record : answer.records)
      if (const auto address = coll::innetwork::parse_manager(record))
        return tell_manager(Correspondent{address->lid, address->pair});
  });
}

void Service::on_time(Clock::time_point now) {
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

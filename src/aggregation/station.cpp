#include "aggregation/station.h"

#include <endian.h>
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/error_text.h"
#include "coll/transport/verbs/resources.h"

namespace softib::aggregation {

using coll::Code;
using coll::Outcome;
using namespace coll::innetwork;

namespace {

constexpr auto hello_apart = std::chrono::seconds(1);

// How long a job without messages is polled. The next one of a program that calls often comes within it; to be woken
// costs both ends some ten microseconds.
constexpr auto job_lingers = std::chrono::microseconds(50);

Outcome<std::unique_ptr<StationPort>> open_port(ibv_device* device, u8 number) {
  auto port = std::make_unique<StationPort>();
  const std::string name = ::ibv_get_device_name(device);
  port->context.reset(::ibv_open_device(device));
  if (!port->context)
    return coll::refuse(Code::system_error, fmt::format("{} can't be opened: {}", name, error_text()));
  const int flags = ::fcntl(port->context->async_fd, F_GETFL);
  if (flags < 0 || ::fcntl(port->context->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
    return coll::refuse(Code::system_error, fmt::format("{}: events: {}", name, error_text()));
  port->domain.reset(::ibv_alloc_pd(port->context.get()));
  if (!port->domain)
    return coll::refuse(Code::system_error, fmt::format("{}: protection domain: {}", name, error_text()));
  port->open = {port->context.get(), port->domain.get(), name, number, 0, IBV_MTU_4096};
  port->description = fmt::format("{}:{}", name, number);
  static_cast<void>(port->refresh());
  return port;
}

bool is_infiniband(ibv_context* context, u8 number) {
  ibv_port_attr attributes{};
  return ::ibv_query_port(context, number, &attributes) == 0 && attributes.link_layer != IBV_LINK_LAYER_ETHERNET;
}

}  // namespace

bool StationPort::refresh() {
  ibv_port_attr attributes{};
  if (::ibv_query_port(context.get(), open.number, &attributes) != 0 || attributes.state != IBV_PORT_ACTIVE)
    return false;
  open.lid = attributes.lid;
  open.mtu = static_cast<u8>(attributes.active_mtu);
  ibv_gid raw{};
  if (::ibv_query_gid(context.get(), open.number, 0, &raw) == 0) {
    std::copy_n(raw.raw, gid.size(), gid.begin());
    std::memcpy(&guid, raw.raw + 8, sizeof guid);
    guid = be64toh(guid);
  }
  return open.lid != 0;
}

bool StationPort::is_there() {
  ibv_async_event event{};
  while (::ibv_get_async_event(context.get(), &event) == 0) {
    gone_ = gone_ || event.event_type == IBV_EVENT_DEVICE_FATAL;
    ::ibv_ack_async_event(&event);
  }
  return !gone_;
}

Outcome<StationPorts> open_ports(const std::vector<std::string>& wanted, const StationPorts& known) {
  const coll::verbs::DeviceList list;
  StationPorts ports;
  for (int i = 0; i < list.count; ++i) {
    const std::string name = ::ibv_get_device_name(list.devices[i]);
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    if (std::any_of(known.begin(), known.end(), [&](const auto& port) { return port->open.device == name; })) continue;
    const coll::verbs::ContextOwner context(::ibv_open_device(list.devices[i]));
    ibv_device_attr attributes{};
    if (!context || ::ibv_query_device(context.get(), &attributes) != 0) continue;
    for (u8 number = 1; number <= attributes.phys_port_cnt; ++number) {
      if (!is_infiniband(context.get(), number)) continue;
      auto port = open_port(list.devices[i], number);
      if (!port) return tl::unexpected(port.error());
      ports.push_back(std::move(*port));
    }
  }
  return ports;
}

Outcome<std::unique_ptr<Station>> Station::make(StationPort& port, const Options& options, Watch& watch, Log log) {
  std::unique_ptr<Station> station(new Station(port, options, watch, std::move(log)));
  auto post = Post::open(port.open, {});
  if (!post) return tl::unexpected(post.error());
  station->post_ = std::move(*post);
  watch.add(*station, {});
  return station;
}

Station::~Station() {
  for (const auto& [number, job] : jobs_) watch_.remove(*job);
  if (post_) watch_.remove(*this);
}

bool Station::turn(Time now) {
  bool any = post_->turn(now);
  while (const auto event = post_->mailbox().next_event()) {
    take(*event, now);
    any = true;
  }
  return bury(now) || any;
}

void Station::take(const Mailbox::Event& event, Time now) {
  if (event.kind == Mailbox::Event::Kind::question) {
    const auto words = parse_words(event.message);
    Words answer = Refused{"that can't be read"};
    // Anybody else could end jobs.
    if (event.peer != manager_)
      answer = Refused{"only the aggregation manager is heard here"};
    else if (words)
      answer = answer_to(*words, now);
    return post_->mailbox().answer(event.peer, event.transaction, emit(answer), now);
  }
  if (event.transaction != hello_) return;
  const auto words = event.kind == Mailbox::Event::Kind::answer ? parse_words(event.message) : std::nullopt;
  const auto* welcome = words ? std::get_if<Welcome>(&*words) : nullptr;
  welcome_ = welcome != nullptr;
  if (welcome == nullptr) return;
  for (const u32 job : welcome->forgotten) dismiss(job, "the aggregation manager knows this job no more", now);
}

Words Station::answer_to(const Words& words, Time now) {
  if (const auto* prepare_words = std::get_if<PrepareJob>(&words)) return prepare(*prepare_words, now);
  if (const auto* connect_words = std::get_if<ConnectJob>(&words)) return connect(*connect_words);
  if (const auto* dismiss_words = std::get_if<DismissJob>(&words)) {
    dismiss(dismiss_words->job, dismiss_words->why, now);
    return coll::innetwork::Done{};
  }
  return Refused{"that isn't for an aggregation node to hear"};
}

Words Station::prepare(const PrepareJob& words, Time now) {
  const auto no = [](std::string why) { return Refused{std::move(why)}; };
  if (jobs_.contains(words.job)) return no("that job is here already");
  if (jobs_.size() >= options_.jobs_of_node) return no(fmt::format("{} jobs are here already", jobs_.size()));
  if (words.children.empty() || words.children.size() > options_.most_children)
    return no(fmt::format("{} children, of {} that may be", words.children.size(), options_.most_children));
  const bool fits = words.quota.segment_bytes >= most_failure_text &&
                    words.quota.segment_bytes <= options_.segment_bytes && words.quota.outstanding >= 1 &&
                    words.quota.outstanding <= options_.outstanding && words.members <= words.children.size();
  if (!fits) return no("a quota beyond what this node has");
  const LinkTiming timing{.keep_alive = std::chrono::milliseconds(options_.keep_alive_ms)};
  auto made = NodeLinks::make(port_.open, words, timing, now);
  if (!made) return no(made.error().text);
  const Prepared ends = (*made)->ends();
  (*made)->when_over([this] { watch_.wake(*this); });
  watch_.add(**made, job_lingers);
  jobs_[words.job] = std::move(*made);
  return ends;
}

Words Station::connect(const ConnectJob& words) {
  const auto job = jobs_.find(words.job);
  if (job == jobs_.end()) return Refused{"no such job"};
  if (auto connected = job->second->connect(words); !connected) return Refused{connected.error().text};
  if (options_.verbose) log_(fmt::format("{}: job {:#x} is connected", port_.description, words.job));
  return coll::innetwork::Done{};
}

void Station::dismiss(u32 number, const std::string& why, Time now) {
  if (const auto job = jobs_.find(number); job != jobs_.end()) job->second->dismiss(why, now);
}

// Takes away what is over, and tells the manager. True: it is to be told.
bool Station::bury(Time now) {
  bool any = false;
  for (auto at = jobs_.begin(); at != jobs_.end();) {
    const auto& [number, job] = *at;
    if (!job->is_over()) {
      ++at;
      continue;
    }
    const auto& failure = job->node().failure();
    if (options_.verbose)
      log_(fmt::format("{}: job {:#x} is over after {} segments{}{}", port_.description, number, job->node().segments(),
                       failure ? ": " : "", failure.value_or("")));
    if (manager_)
      static_cast<void>(
          post_->mailbox().ask(*manager_, emit(JobOver{port_.guid, number, !failure, failure.value_or("")}), now));
    any = true;
    watch_.remove(*job);
    at = jobs_.erase(at);
  }
  return any;
}

void Station::say_hello(Time now) {
  if (!manager_ || now - greeted_ < hello_apart) return;
  greeted_ = now;
  NodeHello hello{port_.guid,
                  port_.open.lid,
                  post_->address().pair,
                  options_.jobs_of_node,
                  options_.most_children,
                  {options_.segment_bytes, options_.outstanding},
                  fmt::format("aggregation node {}", port_.description),
                  {}};
  for (const auto& [number, job] : jobs_) hello.jobs.push_back(number);
  post_->mailbox().forget(hello_);
  hello_ = post_->mailbox().ask(*manager_, emit(hello), now);
}

void Station::on_time(Time now) {
  say_hello(now);
  for (const auto& [number, job] : jobs_) job->on_time(now);
  static_cast<void>(bury(now));
  watch_.wake(*this);  // to send what is to be said
}

}  // namespace softib::aggregation

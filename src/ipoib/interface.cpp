// The link: what must be there before packets can flow, and what happens when it changes.
#include "ipoib/interface.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace softib::ipoib {

namespace {

constexpr milliseconds tick_interval{1000}, quick_tick_interval{250};
constexpr u32 default_datagram_mtu = 2044;

}  // namespace

Interface::Interface(Surroundings around, const Port& port, SaClient& client, const InterfaceOptions& options, Tun tun)
    : around_(around), port_(port), client_(client), options_(options), tun_(std::move(tun)) {}

// A completion queue waits for its events to be acknowledged before it goes.
Interface::~Interface() {
  if (received_events_) ::ibv_ack_cq_events(received_.get(), received_events_);
  if (sent_events_) ::ibv_ack_cq_events(sent_.get(), sent_events_);
}

Told<std::unique_ptr<Interface>> Interface::make(Surroundings around, const Port& port, SaClient& client,
                                                 const InterfaceOptions& options) {
  auto tun = Tun::open(options.name, options.tun_fd);
  if (!tun) return tl::unexpected<Complaint>(tun.error());
  auto interface = std::make_unique<Interface>(around, port, client, options, std::move(*tun));
  if (auto made = interface->make_queues(); !made) return tl::unexpected<Complaint>(made.error());
  if (auto configured = interface->configure(); !configured) return tl::unexpected<Complaint>(configured.error());
  return interface;
}

void Interface::note(const std::string& text) const {
  if (around_.verbose) fmt::print(stderr, "{}: {}\n", tun_.name(), text);
}

Told<void> Interface::make_queues() {
  const auto failed = [&](const char* what) {
    return complain(fmt::format("{}: no {} on {}: {}", tun_.name(), what, port_.name(), std::strerror(errno)));
  };
  channel_.reset(::ibv_create_comp_channel(port_.context()));
  if (!channel_) return failed("completion channel");
  ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  const int arrivals = Datagrams::receives + Connections::receives;
  received_.reset(::ibv_create_cq(port_.context(), arrivals, nullptr, channel_.get(), 0));
  sent_.reset(::ibv_create_cq(port_.context(), Datagrams::sends, nullptr, channel_.get(), 0));
  if (!received_ || !sent_) return failed("completion queue");
  auto slots = Slots::make(port_.domain());
  if (!slots) return failed("registered memory");
  slots_ = std::move(*slots);
  auto datagrams = Datagrams::make(port_, sent_.get(), received_.get(), slots_);
  if (!datagrams) return failed("UD queue pair");
  datagrams_ = std::move(*datagrams);

  const Deliver to_wire = [this](const Target& target, const Frame& frame) { deliver(target, frame); };
  paths_ = std::make_unique<Paths>(around_.loop, port_, client_, options_.pkey, to_wire);
  groups_ = std::make_unique<Groups>(around_.loop, port_, client_, datagrams_.pair(), options_.pkey,
                                     Groups::Uses{to_wire, [this](const GroupFacts& facts) { ready(facts); }});
  return options_.mode == Mode::connected ? make_connections() : Told<void>();
}

Told<void> Interface::make_connections() {
  Connections::Uses uses{sent_.get(), received_.get(), &slots_, paths_.get(), {}, {}};
  uses.send = [this](const Frame& frame) { send_frame(frame); };
  uses.resend = [this](const Frame& frame) {
    if (Slot* slot = fill_slot(frame.held)) send_to(*slot, frame.type, frame.to);
  };
  auto connections = Connections::make(around_.loop, port_, uses);
  if (!connections)
    return complain(
        fmt::format("{}: no buffers for connections: {}", tun_.name(), std::strerror(to_int(connections.error()))));
  connections_ = std::move(*connections);
  return {};
}

// Who handed a device over may have done this; then lacking rights is no fault.
Told<void> Interface::configure() {
  LinkSettings settings;
  settings.mtu = options_.mtu ? options_.mtu : options_.mode == Mode::connected ? connected_mtu : default_datagram_mtu;
  settings.most_segments = Slots::most_segments;
  settings.no_generated_address = true;
  std::array<u8, HardwareAddress::size> broadcast{0, 0xff, 0xff, 0xff};
  const GidBytes gid = groups_->broadcast();
  std::copy(gid.begin(), gid.end(), broadcast.begin() + 4);
  settings.broadcast = broadcast;
  Result<void> done = around_.netlink.set_link(tun_.index(), settings);
  LinkSettings up;
  up.up = true;
  if (done) done = around_.netlink.set_link(tun_.index(), up);
  std::vector<Prefixed> addresses = options_.addresses;
  constexpr u8 link_local_prefix = 64;
  addresses.push_back({link_local(port_.guid()), link_local_prefix});
  for (const Prefixed& address : addresses) {
    if (!done) break;
    done = around_.netlink.add_address(tun_.index(), address);
    if (done) continue;
    note(fmt::format("{}: {}", to_text(address.ip), std::strerror(to_int(done.error()))));
    // A namespace may be without IPv6.
    if (address.ip.family == Family::v6 && (to_int(done.error()) == EOPNOTSUPP || to_int(done.error()) == EACCES))
      done = {};
  }
  const bool may_lack = options_.tun_fd >= 0 && !done && to_int(done.error()) == EPERM;
  if (!done && !may_lack)
    return complain(fmt::format("{}: can't be configured: {}", tun_.name(), std::strerror(to_int(done.error()))));
  return {};
}

void Interface::start() {
  around_.loop.watch(tun_.fd(), [this] { readable_ = true; });
  around_.loop.watch(channel_->fd, [this] { take_queue_event(); });
  around_.loop.add_worker({[this] { return move(); }, [this] { return arm(); }});
  addresses_changed();
  tick();
  bring_up();
}

bool Interface::is_settled() const { return up_ || !port_.is_active() || groups_->tried(); }

void Interface::bring_up() {
  if (lost_ || !port_.is_active() || !port_.pkey_index(options_.pkey)) return;
  groups_->start();
}

void Interface::bring_down() {
  if (up_) note("down");
  up_ = false;
  tun_.set_carrier(false);
  if (connections_) connections_->stop(false);
  if (datagrams_.ready()) stop_datagrams();
  groups_->stop();
  paths_->clear();
  neighbours_.clear();
}

// Somebody has deleted the device.
void Interface::lose_device() {
  fmt::print(stderr, "softib-ipoib: {} is gone\n", tun_.name());
  around_.loop.unwatch(tun_.fd());
  leave();
  lost_ = true;
}

void Interface::stop_datagrams() {
  datagrams_.stop();
  constexpr milliseconds patience{100};
  for (const Time until = Clock::now() + patience; datagrams_.busy() && Clock::now() < until;) {
    take_sent();
    take_received();
  }
}

void Interface::recover() {
  if (!datagrams_.ready() || datagrams_.recover()) return;
  stop_datagrams();
  if (const auto done = datagrams_.restart(); !done)
    note(fmt::format("queue pair: {}", std::strerror(to_int(done.error()))));
}

void Interface::leave() {
  if (connections_) connections_->stop(true);
  groups_->leave();
  bring_down();
}

void Interface::raise_carrier() {
  tun_.set_carrier(true);
  constexpr int most_tries = 1000;
  for (int tries = 0; tries < most_tries && around_.netlink.is_about_to_send(tun_.index()).value_or(false); ++tries)
    std::this_thread::sleep_for(milliseconds(1));
}

// The broadcast group says what the link is like.
void Interface::ready(const GroupFacts& facts) {
  const auto index = port_.pkey_index(options_.pkey);
  if (!index) return;
  if (datagrams_.ready() && facts.mtu - encapsulation_size > mtu_) stop_datagrams();  // buffers are too small
  const auto started =
      datagrams_.ready() ? datagrams_.change_qkey(facts.qkey) : datagrams_.start(port_, *index, facts.qkey, facts.mtu);
  if (!started) {
    note(fmt::format("queue pair: {}", std::strerror(to_int(started.error()))));
    return;
  }
  mtu_ = facts.mtu - encapsulation_size;
  own_ = {HardwareAddress::takes_open, datagrams_.qpn(), port_.gid()};
  if (connections_) own_.flags |= HardwareAddress::takes_messages;
  if (connections_) connections_->start(own_, *index);
  if (options_.mode == Mode::datagram) {
    LinkSettings settings;
    settings.mtu = options_.mtu ? std::min(options_.mtu, mtu_) : mtu_;
    static_cast<void>(around_.netlink.set_link(tun_.index(), settings));
  }
  raise_carrier();
  up_ = true;
  note(fmt::format("up: QPN {:#x}, MTU {}, Q_Key {:#x}", own_.qpn, mtu_, facts.qkey));
  // Behind the join of the broadcast group itself, which is about to end.
  around_.loop.after(milliseconds(0), [this] {
    look_at_groups();
    announce();
  });
}

void Interface::port_changed(ibv_event_type event) {
  const bool key_moved = event == IBV_EVENT_PKEY_CHANGE || event == IBV_EVENT_GID_CHANGE;
  if (!port_.is_active() || key_moved) bring_down();
  if (!port_.is_active()) return;
  if (!up_) {
    bring_up();
    return;
  }
  // A new manager, or LID: what is known may be wrong, and may be right.
  paths_->clear();
  groups_->rejoin();
}

void Interface::addresses_changed() {
  auto found = around_.netlink.addresses(tun_.index());
  if (!found || *found == addresses_) return;
  addresses_ = std::move(*found);
  destinations_.clear();
  if (!up_) return;
  look_at_groups();
  announce();
}

// Those that the kernel has joined; and those that others ask for our addresses in, which the kernel leaves out where
// it does no neighbour discovery itself.
void Interface::look_at_groups() {
  if (!up_) return;
  std::vector<Ip> wanted = joined_groups(tun_.name());
  for (const Prefixed& own : addresses_)
    if (own.ip.family == Family::v6) wanted.push_back(solicited_node(own.ip));
  groups_->want(wanted);
}

void Interface::tick() {
  handle(neighbours_.tick(Clock::now()));
  if (connections_) connections_->tick(Clock::now());
  look_at_groups();
  around_.loop.after(neighbours_.asking() ? quick_tick_interval : tick_interval, [this] { tick(); });
}

// -- who is where

bool Interface::is_own(const Ip& ip) const {
  return std::any_of(addresses_.begin(), addresses_.end(), [&](const Prefixed& own) { return own.ip == ip; });
}

// The address to ask with: of the same network, else of the same kind.
Ip Interface::own_for(const Ip& target) const {
  Ip any{target.family, {}};
  for (const Prefixed& own : addresses_) {
    if (own.ip.family != target.family) continue;
    if (same_network(own.ip, target, own.prefix)) return own.ip;
    any = own.ip;
  }
  return any;
}

void Interface::take_news(const AddressNews& news) {
  const bool asks_us = news.kind == AskKind::question && is_own(news.target);
  if (news.sender_hardware && !news.probe && !is_own(news.sender)) {
    auto waiting = neighbours_.learn(news.sender, *news.sender_hardware, news.override, asks_us, Clock::now());
    const EtherType type = news.sender.family == Family::v4 ? EtherType::ipv4 : EtherType::ipv6;
    for (const Held& held : waiting)
      if (Slot* slot = fill_slot(held)) send_to(*slot, type, *news.sender_hardware);
  }
  if (asks_us) answer(news);
}

void Interface::answer(const AddressNews& question) {
  AddressNews news{AskKind::answer, question.target, own_, question.target, false, true};
  if (question.target.family == Family::v4) {
    if (!question.sender_hardware) return;
    news.target = question.sender;
    send_frame({EtherType::arp, {{}, emit_arp(news, *question.sender_hardware)}, *question.sender_hardware});
  } else if (question.probe || !question.sender_hardware) {
    const Ip to = question.probe ? all_nodes() : question.sender;
    Frame frame{EtherType::ipv6, {{}, emit_discovery(news, to, !question.probe)}, {}};
    if (question.probe) send_group_frame(groups_->gid_of(to), std::move(frame));
  } else {
    const HardwareAddress& to = *question.sender_hardware;
    send_frame({EtherType::ipv6, {{}, emit_discovery(news, question.sender, true)}, to});
  }
}

void Interface::ask(const Neighbours::Question& question) {
  const Ip own = own_for(question.ip);
  const AddressNews news{AskKind::question, own, own_, question.ip, false, true};
  const HardwareAddress to = question.hardware.value_or(HardwareAddress{});
  if (question.ip.family == Family::v4) {
    Frame frame{EtherType::arp, {{}, emit_arp(news, to)}, to};
    if (question.hardware)
      send_frame(frame);
    else
      send_group_frame(groups_->broadcast(), std::move(frame));
    return;
  }
  const Ip group = question.hardware ? question.ip : solicited_node(question.ip);
  Frame frame{EtherType::ipv6, {{}, emit_discovery(news, group, false)}, to};
  if (question.hardware)
    send_frame(frame);
  else
    send_group_frame(groups_->gid_of(group), std::move(frame));
}

void Interface::handle(Neighbours::Outcome outcome) {
  for (const HardwareAddress& silent : outcome.silent) paths_->forget(silent.gid);
  for (const auto& question : outcome.questions) ask(question);
  for (const Held& lost : outcome.undeliverable)
    if (const Bytes message = emit_unreachable(lost.packet); !message.empty()) tun_.write({}, message);
}

// To those who knew another hardware address of ours: the service was started anew.
void Interface::announce() {
  for (const Prefixed& address : addresses_) {
    if (address.ip.family == Family::v4) {
      const AddressNews news{AskKind::question, address.ip, own_, address.ip, false, true};
      send_group_frame(groups_->broadcast(), {EtherType::arp, {{}, emit_arp(news, {})}, {}});
    } else {
      const AddressNews news{AskKind::answer, address.ip, own_, address.ip, false, true};
      const Ip to = all_nodes();
      send_group_frame(groups_->gid_of(to), {EtherType::ipv6, {{}, emit_discovery(news, to, false)}, {}});
    }
  }
}

}  // namespace softib::ipoib

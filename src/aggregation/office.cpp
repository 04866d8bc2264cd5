#include "aggregation/office.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

namespace softib::aggregation {

using namespace coll::innetwork;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

constexpr auto answer_patience = seconds(6);
constexpr auto try_again = milliseconds(500);

u64 new_life() {
  std::random_device random;
  return u64{random()} << 32 | random();
}

std::string text_at(std::span<const u8> record, u32 at, u32 size) {
  const auto begin = record.begin() + at;
  const auto end = std::find(begin, begin + size, u8{0});
  return {begin, end};
}

}  // namespace

void Enquiries::open() {
  auto opened = Subnet::open(port_.open.device, port_.open.number);
  if (!opened) return;
  subnet_ = std::move(*opened);
  watch_.add(*this, {});
}

void Enquiries::close() {
  if (subnet_) watch_.remove(*this);
  subnet_.reset();
}

void Enquiries::ask(const Subnet::Question& question, Answered answered) {
  // Opened when it is needed, and again after it failed: the subnet manager may have moved.
  if (!subnet_) open();
  const auto number = subnet_ ? subnet_->ask(question) : std::nullopt;
  if (number) {
    waiting_[*number] = {std::move(answered), std::chrono::steady_clock::now() + answer_patience};
    return;
  }
  close();
  for (auto& [asked, waiting] : std::exchange(waiting_, {})) unasked_.push_back(std::move(waiting.answered));
  unasked_.push_back(std::move(answered));
}

bool Enquiries::turn(Time) {
  bool any = false;
  while (auto answer = subnet_ && !waiting_.empty() ? subnet_->next_answer() : std::nullopt) {
    any = true;
    auto entry = waiting_.extract(answer->number);
    if (!answer->answered && waiting_.empty()) close();
    if (!entry.empty()) entry.mapped().answered(*answer);
  }
  return any;
}

void Enquiries::on_time(Time now) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->second.until > now) {
      ++at;
      continue;
    }
    unasked_.push_back(std::move(at->second.answered));
    at = waiting_.erase(at);
  }
  Subnet::Answer none;
  none.answered = false;
  for (const Answered& answered : std::exchange(unasked_, {})) answered(none);
}

Office::Office(StationPort& port, const Options& options, Watch& watch, Log log)
    : port_(port),
      options_(options),
      watch_(watch),
      log_(std::move(log)),
      enquiries_(port, watch),
      manager_(new_life(), {.most_jobs = options.most_jobs}) {}

coll::Outcome<std::unique_ptr<Office>> Office::make(StationPort& port, const Options& options, Watch& watch, Log log) {
  std::unique_ptr<Office> office(new Office(port, options, watch, std::move(log)));
  auto post = Post::open(port.open, {});
  if (!post) return tl::unexpected(post.error());
  office->post_ = std::move(*post);
  watch.add(*office, {});
  return office;
}

Office::~Office() {
  if (post_) watch_.remove(*this);
}

bool Office::turn(Time now) {
  bool any = post_->turn(now);
  while (const auto event = post_->mailbox().next_event()) {
    take(*event, now);
    any = true;
  }
  return carry_out(now) || any;
}

void Office::take(const Mailbox::Event& event, Time now) {
  const auto words = event.kind == Mailbox::Event::Kind::unanswered ? std::nullopt : parse_words(event.message);
  if (event.kind == Mailbox::Event::Kind::question) {
    if (words) return manager_.heard(event.peer, event.transaction, *words, now);
    return post_->mailbox().answer(event.peer, event.transaction, emit(Refused{"that can't be read"}), now);
  }
  const auto tag = tags_.extract(event.transaction);
  if (!tag.empty()) manager_.answered(tag.mapped(), words);
}

bool Office::carry_out(Time now) {
  bool any = false;
  while (auto output = manager_.next_output()) {
    any = true;
    if (auto* ask = std::get_if<Manager::Ask>(&*output)) {
      tags_[post_->mailbox().ask(ask->to, emit(ask->words), now)] = ask->tag;
    } else if (auto* answer = std::get_if<Manager::Answer>(&*output)) {
      post_->mailbox().answer(answer->to, answer->transaction, emit(answer->words), now);
    } else if (auto* tell = std::get_if<Manager::Tell>(&*output)) {
      log_(tell->text);
    } else {
      read_topology();
    }
  }
  return any;
}

void Office::read_topology() {
  topology_ = {};
  enquiries_.ask({.type = wire::RecordType::node}, [this](const Subnet::Answer& answer) { take_nodes(answer); });
}

void Office::take_nodes(const Subnet::Answer& answer) {
  if (!answer.answered) return topology_read(tl::unexpected<std::string>("subnet administration doesn't answer"));
  for (const Octets& record : answer.records) {
    if (record.size() < node_record::size || wire::get(record, node_record::type) != node_record::is_switch) continue;
    topology_.add_switch(static_cast<u16>(wire::get(record, node_record::lid)),
                         text_at(record, node_record::description_at, 64));
  }
  enquiries_.ask({.type = wire::RecordType::link}, [this](const Subnet::Answer& links) { take_links(links); });
}

void Office::take_links(const Subnet::Answer& answer) {
  if (!answer.answered) return topology_read(tl::unexpected<std::string>("subnet administration doesn't answer"));
  for (const Octets& record : answer.records)
    if (record.size() >= link_record::size)
      topology_.add_cable(static_cast<u16>(wire::get(record, link_record::from)),
                          static_cast<u16>(wire::get(record, link_record::to)));
  topology_read(topology_);
}

// Not within one's own turn: who is to hear of it has to be woken.
void Office::topology_read(const tl::expected<Topology, std::string>& topology) {
  manager_.topology_read(topology);
  watch_.wake(*this);
}

ManagerService Office::service() const {
  return {
      port_.gid, options_.lease_s, {post_->address().lid, protocol_version, post_->address().pair, management_qkey}};
}

// Renewed when a third of the lease is over.
void Office::register_service(Time now) {
  register_at_ = now + seconds(std::max(1U, options_.lease_s / 3));
  enquiries_.ask(register_manager(service()), [this](const Subnet::Answer& answer) {
    registered_ = answer.answered && answer.status == 0;
    if (registered_) {
      complained_ = false;
      return;
    }
    register_at_ = std::chrono::steady_clock::now() + try_again;
    if (std::exchange(complained_, true)) return;
    log_(answer.answered ? fmt::format("subnet administration refuses the service record (status {:#x})", answer.status)
                         : std::string("subnet administration doesn't answer; trying on"));
  });
}

void Office::on_time(Time now) {
  enquiries_.on_time(now);
  manager_.on_time(now);
  if (now >= register_at_) register_service(now);
  watch_.wake(*this);  // to say what is to be said
}

void Office::leave() {
  if (!registered_) return;
  bool done = false;
  enquiries_.ask(unregister_manager(service()), [&done](const Subnet::Answer&) { done = true; });
  for (const auto end = std::chrono::steady_clock::now() + milliseconds(500);
       !done && std::chrono::steady_clock::now() < end;) {
    enquiries_.turn(std::chrono::steady_clock::now());
    enquiries_.on_time(std::chrono::steady_clock::now());
    if (!done) ::usleep(1000);
  }
}

}  // namespace softib::aggregation

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

void Enquiries::ask(const Subnet::Question& question, Answered answered) {
  // Opened when it is needed, and again after it failed: the subnet manager may have moved.
  if (!subnet_) {
    auto opened = Subnet::open(port_.open.device, port_.open.number);
    if (opened) subnet_ = std::move(*opened);
  }
  const auto number = subnet_ ? subnet_->ask(question) : std::nullopt;
  if (number) {
    waiting_[*number] = {std::move(answered), std::chrono::steady_clock::now() + answer_patience};
  } else {
    subnet_.reset();
    waiting_.clear();
    unasked_.push_back(std::move(answered));
  }
}

bool Enquiries::turn() {
  Subnet::Answer none;
  none.answered = false;
  for (const Answered& answered : std::exchange(unasked_, {})) answered(none);
  bool any = false;
  // To look costs a system call, and this is asked for each message of the data path.
  while (auto answer = subnet_ && !waiting_.empty() ? subnet_->next_answer() : std::nullopt) {
    any = true;
    auto entry = waiting_.extract(answer->number);
    if (!answer->answered && waiting_.empty()) subnet_.reset();
    if (!entry.empty()) entry.mapped().answered(*answer);
  }
  return any;
}

void Enquiries::on_time(std::chrono::steady_clock::time_point now) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (at->second.until > now) {
      ++at;
      continue;
    }
    unasked_.push_back(std::move(at->second.answered));
    at = waiting_.erase(at);
  }
}

void Enquiries::add_descriptors(std::vector<int>& descriptors) const {
  if (subnet_) descriptors.push_back(subnet_->descriptor());
}

Office::Office(StationPort& port, const Options& options, Log log)
    : port_(port),
      options_(options),
      log_(std::move(log)),
      enquiries_(port),
      manager_(new_life(), {.most_jobs = options.most_jobs}) {}

coll::Outcome<std::unique_ptr<Office>> Office::make(StationPort& port, const Options& options, Log log) {
  std::unique_ptr<Office> office(new Office(port, options, std::move(log)));
  auto post = Post::open(port.open, {});
  if (!post) return tl::unexpected(post.error());
  office->post_ = std::move(*post);
  return office;
}

bool Office::turn(Time now) {
  bool any = post_->turn(now);
  any |= enquiries_.turn();
  while (const auto event = post_->mailbox().next_event()) {
    take(*event, now);
    any = true;
  }
  carry_out(now);
  return any;
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

void Office::carry_out(Time now) {
  while (auto output = manager_.next_output()) {
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
}

void Office::read_topology() {
  topology_ = {};
  enquiries_.ask({.type = wire::RecordType::node}, [this](const Subnet::Answer& answer) { take_nodes(answer); });
}

void Office::take_nodes(const Subnet::Answer& answer) {
  if (!answer.answered)
    return manager_.topology_read(tl::unexpected<std::string>("subnet administration doesn't answer"));
  for (const Octets& record : answer.records) {
    if (record.size() < node_record::size || wire::get(record, node_record::type) != node_record::is_switch) continue;
    topology_.add_switch(static_cast<u16>(wire::get(record, node_record::lid)),
                         text_at(record, node_record::description_at, 64));
  }
  enquiries_.ask({.type = wire::RecordType::link}, [this](const Subnet::Answer& links) { take_links(links); });
}

void Office::take_links(const Subnet::Answer& answer) {
  if (!answer.answered)
    return manager_.topology_read(tl::unexpected<std::string>("subnet administration doesn't answer"));
  for (const Octets& record : answer.records)
    if (record.size() >= link_record::size)
      topology_.add_cable(static_cast<u16>(wire::get(record, link_record::from)),
                          static_cast<u16>(wire::get(record, link_record::to)));
  manager_.topology_read(topology_);
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
  carry_out(now);
}

void Office::add_descriptors(std::vector<int>& descriptors) const {
  descriptors.push_back(post_->descriptor());
  enquiries_.add_descriptors(descriptors);
}

void Office::leave() {
  if (!registered_) return;
  bool done = false;
  enquiries_.ask(unregister_manager(service()), [&done](const Subnet::Answer&) { done = true; });
  for (const auto end = std::chrono::steady_clock::now() + milliseconds(500);
       !done && std::chrono::steady_clock::now() < end;) {
    enquiries_.turn();
    if (!done) ::usleep(1000);
  }
}

}  // namespace softib::aggregation

#include "coll/innetwork/verbs_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "coll/kernels/kernels.h"
#include "coll/log.h"

namespace softib::coll::innetwork {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto keep_alive = seconds(1);
constexpr auto farewell = milliseconds(50);

// Names of work requests: receives by slot, the others above.
constexpr u64 segment_sent = u64{1} << 32;
constexpr u64 word_sent = u64{2} << 32;
constexpr u64 probed = u64{3} << 32;

constexpr u32 spare = 4;  // receives beyond the quota: for a failure's words

u8 code_of_mtu(u32 bytes) { return static_cast<u8>(std::bit_width(bytes >> 8)); }

}  // namespace

Outcome<std::unique_ptr<VerbsTree>> VerbsTree::make(const Environment& environment, i32 rank) {
  std::unique_ptr<VerbsTree> tree(new VerbsTree(rank));
  tree->devices_ = verbs::Devices::open(environment);
  const auto& ports = tree->devices_.ports;
  const auto port = std::find_if(ports.begin(), ports.end(), [](const verbs::Port& one) {
    return one.layer == verbs::LinkLayer::infiniband && one.lid != 0;
  });
  if (ports.empty()) return refuse(Code::system_error, tree->devices_.why_none());
  if (port == ports.end()) return refuse(Code::system_error, "no port is InfiniBand");
  const verbs::Device& device = tree->devices_.all[port->device];
  tree->port_ = {device.context.get(), device.domain.get(), device.name,
                 port->number,         port->lid,           code_of_mtu(port->mtu)};
  tree->settings_ = {environment.ib_pkey, environment.ib_sl, environment.ib_timeout, environment.ib_retry_cnt};
  auto completions = Completions::make(tree->port_.context, 2 * most_outstanding + 2 * spare);
  if (!completions) return tl::unexpected(completions.error());
  tree->completions_ = std::move(*completions);
  auto pair = Pair::make(tree->port_, tree->completions_.queue.get(), most_outstanding + spare,
                         most_outstanding + spare, tree->settings_);
  if (!pair) return tl::unexpected(pair.error());
  tree->pair_ = std::move(*pair);
  return tree;
}

VerbsTree::~VerbsTree() { give_up(); }

Outcome<void> VerbsTree::connect(const Place& place) {
  place_ = place;
  place_.quota.outstanding = std::clamp(place.quota.outstanding, 1U, most_outstanding);
  const u32 outstanding = place_.quota.outstanding;
  auto region = Region::make(port_.domain, std::size_t{2 * outstanding + spare} * slot_bytes() + segment_header);
  if (!region) return tl::unexpected(region.error());
  region_ = std::move(*region);
  for (u32 number = 0; number < outstanding + spare; ++number)
    if (!post_receive(number)) return refuse(Code::system_error, "receives can't be posted");
  auto connected = pair_.connect(place.node);
  if (!connected) return refuse(connected.error().code, fmt::format("{}: {}", place_.name, connected.error().text));
  connected_ = true;
  say(SegmentKind::hello);
  return {};
}

std::span<std::byte> VerbsTree::send_slot(u64 sequence) const {
  return region_.bytes().subspan(sequence % place_.quota.outstanding * slot_bytes(), slot_bytes());
}

std::span<std::byte> VerbsTree::receive_slot(u32 number) const {
  return region_.bytes().subspan(std::size_t{place_.quota.outstanding + number} * slot_bytes(), slot_bytes());
}

bool VerbsTree::post_receive(u32 number) { return pair_.receive(number, receive_slot(number), region_.key()); }

// One word at a time is under way: they have one place.
void VerbsTree::say(SegmentKind kind) {
  const std::span<std::byte> place = region_.bytes().last(segment_header);
  emit(Segment{.kind = kind, .job = place_.job}, place.data());
  if (pair_.send(word_sent, place, region_.key())) ++words_;
}

void VerbsTree::begin(Aggregation& aggregation) {
  const auto entry = std::find_if(queue_.begin(), queue_.end(), [&](const Entry& one) {
    return one.stream == aggregation.stream && one.aggregation == nullptr;
  });
  if (failure_ || entry == queue_.end()) {
    aggregation.state = State::failed;
    return;
  }
  entry->aggregation = &aggregation;
  pump();
}

bool VerbsTree::may_send() const {
  const u64 quota = place_.quota.outstanding;
  return !failure_ && sending_ < queue_.size() && queue_[sending_].aggregation != nullptr && next_ < results_ + quota &&
         next_ < sends_over_ + quota;
}

bool VerbsTree::pump() {
  bool any = false;
  while (may_send()) {
    any = true;
    Entry& entry = queue_[sending_];
    if (!send_segment(entry)) {
      fail(fmt::format("{}: it can't be sent to", place_.name));
      return true;
    }
    if (entry.sent == entry.aggregation->bytes) ++sending_;
  }
  return any;
}

bool VerbsTree::send_segment(Entry& entry) {
  const Aggregation& aggregation = *entry.aggregation;
  Segment segment{.kind = SegmentKind::contribution,
                  .type = aggregation.type,
                  .op = aggregation.op,
                  .gives = aggregation.gives,
                  .job = place_.job,
                  .sequence = next_};
  segment.bytes = static_cast<u32>(std::min<u64>(place_.quota.segment_bytes, aggregation.bytes - entry.sent));
  const std::span<std::byte> slot = send_slot(next_);
  emit(segment, slot.data());
  if (segment.data_bytes() != 0)
    kernels::copy(slot.data() + segment_header, aggregation.from + entry.sent, segment.bytes, kernels::Stores::cached);
  entry.sent += segment.bytes;
  ++next_;
  return pair_.send(segment_sent, slot.first(segment_header + segment.data_bytes()), region_.key());
}

bool VerbsTree::progress() {
  if (failure_ || !connected_) return false;
  std::array<ibv_wc, 32> done{};
  const int count = ::ibv_poll_cq(completions_.queue.get(), static_cast<int>(done.size()), done.data());
  for (int i = 0; i < count && !failure_; ++i) complete(done[static_cast<std::size_t>(i)]);
  if (count > 0) pump();
  return count > 0;
}

void VerbsTree::complete(const ibv_wc& completion) {
  ++moves_;
  if (completion.status != IBV_WC_SUCCESS) {
    const bool silent = completion.status == IBV_WC_RETRY_EXC_ERR;
    return fail(fmt::format("{}: {}{}", place_.name, ::ibv_wc_status_str(completion.status),
                            silent ? "; its process, its port or the way there may be down" : ""));
  }
  if (completion.wr_id == segment_sent) {
    ++sends_over_;
  } else if (completion.wr_id == word_sent) {
    --words_;
  } else if (completion.wr_id == probed) {
    probing_ = false;
  } else {
    const auto number = static_cast<u32>(completion.wr_id);
    take(receive_slot(number).first(completion.byte_len));
    if (!failure_ && !post_receive(number)) fail(fmt::format("{}: receives can't be posted", place_.name));
  }
}

void VerbsTree::take(std::span<const std::byte> message) {
  const std::optional<Segment> segment = parse_segment(message);
  const bool ours = segment && segment->job == place_.job;
  if (ours && segment->kind == SegmentKind::result) return take_result(*segment, message.subspan(segment_header));
  if (!ours || segment->kind != SegmentKind::failure)
    return fail(fmt::format("{} sends what can't be read", place_.name));
  const auto text = message.subspan(segment_header);
  fail(fmt::format("{} tells: {}", place_.name,
                   std::string_view(reinterpret_cast<const char*>(text.data()), text.size())));
}

void VerbsTree::take_result(const Segment& segment, std::span<const std::byte> data) {
  Entry* entry = queue_.empty() ? nullptr : &queue_.front();
  Aggregation* aggregation = entry == nullptr ? nullptr : entry->aggregation;
  const bool fits = aggregation != nullptr && results_ < next_ && segment.sequence == results_ &&
                    segment.type == aggregation->type &&
                    segment.bytes == std::min<u64>(place_.quota.segment_bytes, aggregation->bytes - entry->received);
  if (!fits) return fail(fmt::format("{} sends a result that nobody waits for", place_.name));
  if (!data.empty())
    kernels::copy(aggregation->to + entry->received, data.data(), data.size(), kernels::Stores::cached);
  entry->received += data.size();
  ++results_;
  if (entry->received != aggregation->bytes) return;
  aggregation->state = State::done;
  queue_.pop_front();
  --sending_;
}

// A node that took what was sent to it, and then went away, is noticed by nothing else.
void VerbsTree::look(std::chrono::steady_clock::time_point now) {
  if (failure_ || !connected_) return;
  const bool waits = results_ < next_ && sends_over_ == next_;
  if (!waits || moves_ != moves_seen_) {
    moves_seen_ = moves_;
    moved_at_ = now;
    return;
  }
  if (probing_ || now - moved_at_ < keep_alive) return;
  moved_at_ = now;
  probing_ = pair_.probe(probed);
}

void VerbsTree::fail(std::string why) {
  if (failure_) return;
  failure_ = std::move(why);
  log::info(rank_, Subsystem::net, "NET/COLLNET : {}", *failure_);
  for (const Entry& entry : std::exchange(queue_, {}))
    if (entry.aggregation != nullptr) entry.aggregation->state = State::failed;
  sending_ = 0;
}

// Until nothing of what was said is under way any more, but not for long. False: the queue pair is broken.
bool VerbsTree::settle_words() {
  for (const auto end = std::chrono::steady_clock::now() + farewell; words_ != 0;) {
    std::array<ibv_wc, 16> done{};
    const int count = ::ibv_poll_cq(completions_.queue.get(), static_cast<int>(done.size()), done.data());
    for (int i = 0; i < count; ++i) {
      const ibv_wc& one = done[static_cast<std::size_t>(i)];
      if (one.status != IBV_WC_SUCCESS) return false;
      if (one.wr_id == word_sent) --words_;
    }
    if (std::chrono::steady_clock::now() > end) return false;
  }
  return true;
}

// Who leaves says so, that the node needn't find out.
void VerbsTree::give_up() {
  if (std::exchange(connected_, false) && settle_words()) {
    say(SegmentKind::bye);
    static_cast<void>(settle_words());
  }
  fail("this rank has left");
  pair_.close();
}

Error VerbsTree::failure() const {
  return {Code::remote_error, fmt::format("in-network reduction failed: {}", failure_.value_or("no cause is known"))};
}

// Completions that came before the arming bring no event.
bool VerbsTree::arm() { return completions_.arm() && !progress(); }

}  // namespace softib::coll::innetwork

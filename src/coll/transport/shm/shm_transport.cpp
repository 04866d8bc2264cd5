#include "coll/transport/shm/shm_transport.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "base/error_text.h"
#include "coll/bootstrap/crowding.h"
#include "coll/transport/shm/incoming.h"

namespace softib::coll::shm {

namespace {

struct SharedPeer {
  SharedPeer(u32 peer_rank, std::string for_people, Mapping mapping, Channel& in, Arena& arena, PeerMemory its_memory,
             std::byte* scratch, FetchChoices* choices, StoreChoices& stores)
      : rank(peer_rank),
        name(std::move(for_people)),
        theirs(std::move(mapping)),
        memory(std::move(its_memory)),
        outgoing(*reinterpret_cast<Channel*>(theirs.data()), in.sender, arena, memory, stores, health),
        incoming(in, outgoing, arena, memory, scratch, choices, health) {}

  [[nodiscard]] bool idle() const { return incoming.idle() && outgoing.idle(); }

  u32 rank;
  std::string name;  // "rank 3 on host1"
  bool alive = true;
  bool active = false;  // has something under way, and progress() looks at it
  Health health;
  Mapping theirs;
  PeerMemory memory;
  Outgoing outgoing;
  Incoming incoming;
};

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(std::shared_ptr<Arena> arena) : arena_(std::move(arena)) {}

  ~ShmTransport() override {
    for (const auto& peer : peers_)
      if (peer->alive) end(*peer);
  }

  // Collective.
  Outcome<void> connect(Bootstrap& bootstrap, std::span<const u32> peers, const Options& options) {
    scratch_.resize(Incoming::scratch_bytes);
    crowded_ = is_crowded(bootstrap.members(), bootstrap.rank());
    Fd file;
    std::string trouble = prepare(file, peers.size());
    std::vector<Gift> gifts;
    for (u32 index = 0; index < peers.size(); ++index) gifts.push_back({file.get(), arena_->descriptor(), index});
    auto received = hand_over(bootstrap, peers, gifts, key_, trouble);
    if (!received) return tl::unexpected(received.error());
    trouble.clear();
    by_rank_.resize(bootstrap.members().size());
    for (u32 index = 0; index < peers.size() && trouble.empty(); ++index)
      trouble = add(bootstrap.members()[peers[index]], index, (*received)[index], options);
    return agree(bootstrap, trouble);
  }

  [[nodiscard]] const char* name() const override { return "shm"; }

  void send(Send& send) override {
    SharedPeer& peer = *by_rank_[send.peer];
    send.state = peer.alive ? State::waiting : State::failed;
    if (!peer.alive) return;
    peer.outgoing.send(send);
    if (send.state == State::waiting) activate(peer);
  }

  void receive(Receive& receive) override {
    SharedPeer& peer = *by_rank_[receive.peer];
    receive.state = peer.alive ? State::waiting : State::failed;
    if (!peer.alive) return;
    // What moved may have been another message, which progress() is to tell of.
    moved_ |= peer.incoming.receive(receive);
    if (receive.state == State::waiting) activate(peer);
    check(peer);
  }

  void release(Receive& receive) override {
    SharedPeer& peer = *by_rank_[receive.peer];
    if (!peer.alive) return;
    peer.incoming.release(receive);
    if (!peer.outgoing.idle()) activate(peer);
    check(peer);
  }

  bool progress() override {
    bool moved = std::exchange(moved_, false);
    for (std::size_t i = 0; i < active_.size();) {
      SharedPeer& peer = *active_[i];
      const bool its = peer.alive && move(peer);
      moved |= its;
      // Who has just had something soon has more.
      if (!its && peer.idle()) {
        peer.active = false;
        active_[i] = active_.back();
        active_.pop_back();
      } else {
        ++i;
      }
    }
    return moved;
  }

  void give_up(u32 rank) override {
    SharedPeer* peer = rank < by_rank_.size() ? by_rank_[rank] : nullptr;
    if (peer && peer->alive) end(*peer);
  }

  [[nodiscard]] std::optional<PeerFailure> broken() override {
    if (broken_.empty()) return std::nullopt;
    PeerFailure failure = std::move(broken_.front());
    broken_.pop_front();
    return failure;
  }

 private:
  // The outcome is what went wrong, for people.
  std::string prepare(Fd& file, std::size_t peers) {
    if (!random_key(key_)) return fmt::format("no random numbers: {}", error_text());
    if (peers == 0) return {};
    auto made = make_memory_file("softib-channels", peers * sizeof(Channel));
    auto mapping = made ? Mapping::of(made->get(), 0, peers * sizeof(Channel)) : fail(made.error());
    if (!mapping) return fmt::format("no shared memory: {}", error_text(mapping.error()));
    mine_ = std::move(*mapping);
    file = std::move(*made);
    return {};
  }

  std::string add(const Member& member, u32 index, Received& received, const Options& options) {
    const auto size = sealed_size(received.channels.get());
    const u64 offset = u64{received.channel} * sizeof(Channel);
    auto arena = PeerArena::of(std::move(received.arena));
    if (!size || offset + sizeof(Channel) > *size || !arena)
      return name_of(member) + " gave something else than its memory";
    auto theirs = Mapping::of(received.channels.get(), offset, sizeof(Channel));
    if (!theirs) return fmt::format("can't map memory of rank {}: {}", member.rank, error_text(theirs.error()));
    PeerMemory memory{std::move(*arena), {}, received.process};
    if (options.read_peers.value_or(true))
      memory.process = ProcessMemory::of(received.process, received.key, received.key_address);
    FetchChoices* choices = options.read_peers || crowded_ ? nullptr : &choices_;
    auto* channels = reinterpret_cast<Channel*>(mine_.data());
    peers_.push_back(std::make_unique<SharedPeer>(member.rank, name_of(member), std::move(*theirs), channels[index],
                                                  *arena_, std::move(memory), scratch_.data(), choices, stores_));
    by_rank_[member.rank] = peers_.back().get();
    return {};
  }

  static Outcome<void> agree(Bootstrap& bootstrap, const std::string& trouble) {
    const auto all = bootstrap.all_gather(std::as_bytes(std::span(trouble)));
    if (!all) return tl::unexpected(all.error());
    for (const Bytes& one : *all)
      if (!one.empty())
        return refuse(Code::system_error, std::string(reinterpret_cast<const char*>(one.data()), one.size()));
    return {};
  }

  bool move(SharedPeer& peer) {
    bool moved = peer.incoming.progress();
    if (peer.outgoing.held()) moved |= peer.outgoing.progress();
    check(peer);
    return moved;
  }

  void activate(SharedPeer& peer) {
    if (std::exchange(peer.active, true)) return;
    active_.push_back(&peer);
  }

  // A peer that wrote nonsense is one that nothing more is had from.
  void check(SharedPeer& peer) {
    if (!peer.health.good) [[unlikely]]
      part_with(peer);
  }

  void part_with(SharedPeer& peer) {
    if (!peer.alive) return;
    end(peer);
    Error error = peer.health.error;
    error.text = fmt::format("{} {}", peer.name, error.text);
    broken_.push_back({peer.rank, std::move(error)});
  }

  void end(SharedPeer& peer) {
    peer.alive = false;
    peer.outgoing.fail_all();
    peer.incoming.fail_all();
  }

  std::shared_ptr<Arena> arena_;
  bool crowded_ = false;  // more ranks than processors
  FetchChoices choices_;
  StoreChoices stores_;
  Key key_{};  // peers read it, to see whether they can
  Mapping mine_;
  std::vector<std::byte> scratch_;
  std::vector<std::unique_ptr<SharedPeer>> peers_;
  std::vector<SharedPeer*> by_rank_;
  std::vector<SharedPeer*> active_;
  std::deque<PeerFailure> broken_;
  bool moved_ = false;
};

}  // namespace

Outcome<std::unique_ptr<Transport>> make_transport(Bootstrap& bootstrap, std::shared_ptr<Arena> arena,
                                                   std::span<const u32> peers, const Options& options) {
  auto transport = std::make_unique<ShmTransport>(std::move(arena));
  if (auto connected = transport->connect(bootstrap, peers, options); !connected)
    return tl::unexpected(connected.error());
  return transport;
}

}  // namespace softib::coll::shm

// sendrecv, hypercube: made of messages between two ranks.
#include <array>
#include <cstring>

#include "perf/collective.h"
#include "perf/pattern.h"

namespace softib::perf {

namespace {

using coll::PointToPoint;

// Round a ring: to the next rank, from the one before.
class SendReceive : public Collective {
 public:
  [[nodiscard]] Operators operators() const override { return Operators::listed; }  // as in nccl-tests
  // A message that is sent from where another one arrives may be either.
  [[nodiscard]] InPlace in_place() const override { return InPlace::undefined; }
  [[nodiscard]] Shape shape(u64 count, u64 /*element_size*/, u32 /*ranks*/) const override {
    return {count, count, count, 0, 0};
  }
  void fill_input(const Setting& setting, void* memory) const override {
    write_stream(memory, setting.type, setting.rank * setting.shape.sent, setting.shape.sent, setting.seed);
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    const u64 count = setting.shape.received;
    write_stream(memory, setting.type, before(setting) * count, count, setting.seed);
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    const u64 bytes = setting.bytes(setting.shape.count);
    const std::array<PointToPoint, 2> both{{
        {PointToPoint::Kind::send, (setting.rank + 1) % setting.ranks, const_cast<void*>(in), bytes},
        {PointToPoint::Kind::receive, before(setting), out, bytes},
    }};
    return communicator.start_messages(both);
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count), seconds, 1);
  }

 private:
  static u32 before(const Setting& setting) { return (setting.rank + setting.ranks - 1) % setting.ranks; }
};

// An all-gather of exchanges across one dimension after another.
class HyperCube : public Collective {
 public:
  [[nodiscard]] Operators operators() const override { return Operators::blank; }
  [[nodiscard]] std::optional<std::string> skipped(u32 ranks) const override {
    if ((ranks & (ranks - 1)) == 0) return std::nullopt;
    return "nRanks " + std::to_string(ranks) + " is not a power of 2, skipping";
  }
  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    const u64 part = part_of(count, element_size, ranks);
    return {part, part * ranks, part, part, 0};
  }
  void fill_input(const Setting& setting, void* memory) const override {
    write_stream(memory, setting.type, setting.rank * setting.shape.sent, setting.shape.sent, setting.seed);
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    write_stream(memory, setting.type, 0, setting.shape.received, setting.seed);
  }
  // Each dimension needs what the one before brought, so all but the last are waited for here.
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    const u64 bytes = setting.bytes(setting.shape.count);
    auto* blocks = static_cast<std::byte*>(out);
    std::byte* own = blocks + setting.rank * bytes;
    if (own != in && bytes != 0) std::memcpy(own, in, bytes);
    coll::Request last;
    for (u32 side = 1; side < setting.ranks; side *= 2) {
      if (auto done = communicator.wait(last); !done) return tl::unexpected(done.error());
      auto started = exchange(communicator, setting.rank, side, blocks, bytes);
      if (!started) return started;
      last = *started;
    }
    return last;
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count * (setting.ranks - 1)), seconds, 1);
  }

 private:
  static coll::Started exchange(coll::Communicator& communicator, u32 rank, u32 side, std::byte* blocks, u64 bytes) {
    const u32 mine = rank & ~(side - 1);  // the first block of those that I have
    const std::array<PointToPoint, 2> both{{
        {PointToPoint::Kind::send, rank ^ side, blocks + mine * bytes, side * bytes},
        {PointToPoint::Kind::receive, rank ^ side, blocks + (mine ^ side) * bytes, side * bytes},
    }};
    return communicator.start_messages(both);
  }
};

}  // namespace

std::unique_ptr<Collective> make_send_receive() { return std::make_unique<SendReceive>(); }
std::unique_ptr<Collective> make_hypercube() { return std::make_unique<HyperCube>(); }

}  // namespace softib::perf

// alltoallv: by a matrix, or more to more distant ranks.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "perf/collective.h"
#include "perf/environment.h"
#include "perf/pattern.h"
#include "perf/traffic.h"

namespace softib::perf {

namespace {

// Counts of one rank, in elements, and where the parts begin when they lie one behind the other.
struct Places {
  std::vector<u64> counts;
  std::vector<u64> offsets;
};

class AllToAllV : public Collective {
 public:
  explicit AllToAllV(coll::Outcome<Traffic> traffic) : traffic_(std::move(traffic)) {}

  // What comes from a rank needs other room than what went there had.
  [[nodiscard]] InPlace in_place() const override { return InPlace::impossible; }

  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    const u64 part = traffic_->is_matrix() ? 0 : part_of(count, element_size, ranks);
    const u64 total = part * ranks * element_size;
    Shape shape{0, 0, part, 0, 0};
    for (u32 rank = 0; rank < ranks; ++rank) {
      u64 sent = 0;
      u64 received = 0;
      for (u32 peer = 0; peer < ranks; ++peer) {
        sent += traffic_->bytes(rank, peer, ranks, total) / element_size;
        received += traffic_->bytes(peer, rank, ranks, total) / element_size;
      }
      shape.sent = std::max(shape.sent, sent);
      shape.received = std::max(shape.received, received);
    }
    return shape;
  }

  void fill_input(const Setting& setting, void* memory) const override {
    const Places sent = sent_by(setting, setting.rank);
    write_stream(memory, setting.type, 0, sent.offsets.back(), stream_of(setting, setting.rank));
  }

  void fill_expected(const Setting& setting, void* memory) const override {
    auto* out = static_cast<std::byte*>(memory);
    for (u32 from = 0; from < setting.ranks; ++from) {
      const Places sent = sent_by(setting, from);
      const u64 count = sent.counts[setting.rank];
      write_stream(out, setting.type, sent.offsets[setting.rank], count, stream_of(setting, from));
      out += setting.bytes(count);
    }
  }

  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    const Places sent = sent_by(setting, setting.rank);
    const Places received = received_by(setting, setting.rank);
    const std::span<const u64> sent_offsets = std::span(sent.offsets).first(setting.ranks);
    const std::span<const u64> received_offsets = std::span(received.offsets).first(setting.ranks);
    return communicator.start_all_to_all_v(in, {sent.counts, sent_offsets}, out, {received.counts, received_offsets},
                                           setting.type);
  }

  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    const u64 most = std::max(setting.shape.sent, setting.shape.received);
    return bandwidth_of(setting.bytes(most), seconds, others(setting.ranks));
  }

  [[nodiscard]] std::optional<std::string> refused(u64 least, u64 most, u32 ranks) const override {
    if (!traffic_) return traffic_.error().text;
    if (!traffic_->is_matrix()) return std::nullopt;
    if (ranks > traffic_->dimension())
      return fmt::format("{}: of {} ranks, and there are {}", traffic_->name(), traffic_->dimension(), ranks);
    if (least != most)
      return std::string("with a traffic matrix there is one size: set -b and -e to the same, as -b 32M -e 32M");
    const Shape bytes = shape(most, 1, ranks);
    const u64 needed = std::max(bytes.sent, bytes.received);
    if (needed <= most) return std::nullopt;
    return fmt::format("maxbytes (-e) must be at least {} bytes as required by traffic matrix file {} (got {})", needed,
                       traffic_->name(), most);
  }

  [[nodiscard]] std::string remark(const Setting& setting, double seconds) const override {
    const char* wanted = tests_variable("ALLTOALLV_PRINT_SUMMARY");
    if (wanted == nullptr || std::atoi(wanted) == 0) return {};
    std::string text = heading(setting, seconds);
    for (u32 rank = 0; rank < setting.ranks; ++rank) {
      const u64 sent = setting.bytes(sent_by(setting, rank).offsets.back());
      const u64 received = setting.bytes(received_by(setting, rank).offsets.back());
      const Bandwidth rate = bandwidth_of(std::max(sent, received), seconds, others(setting.ranks));
      text += fmt::format("#   rank={} send_bytes={} recv_bytes={} alg_bw={:.2f} bus_bw={:.2f}\n", rank, sent, received,
                          rate.algorithm, rate.bus);
    }
    return text;
  }

 private:
  static u64 stream_of(const Setting& setting, u32 rank) { return setting.seed * 4096 + rank; }
  static u64 total_of(const Setting& setting) { return setting.bytes(setting.shape.count * setting.ranks); }

  [[nodiscard]] std::string heading(const Setting& setting, double seconds) const {
    constexpr const char* name = "# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY:";
    if (traffic_->is_matrix())
      return fmt::format("{} mode=matrix nranks={} matrix_dim={} scale={:.3f} time_usec={:.2f}\n", name, setting.ranks,
                         traffic_->dimension(), traffic_->scale(), seconds * 1e6);
    return fmt::format("{} mode=generated nranks={} total_bytes={} spread={:.3f} time_usec={:.2f}\n", name,
                       setting.ranks, total_of(setting), traffic_->spread(), seconds * 1e6);
  }

  // The last offset is the end of all.
  template <typename Bytes>
  static Places places(const Setting& setting, Bytes bytes) {
    Places places{{}, {0}};
    for (u32 peer = 0; peer < setting.ranks; ++peer) {
      places.counts.push_back(bytes(peer) / coll::size_of(setting.type));
      places.offsets.push_back(places.offsets.back() + places.counts.back());
    }
    return places;
  }
  [[nodiscard]] Places sent_by(const Setting& setting, u32 rank) const {
    return places(setting, [&](u32 peer) { return traffic_->bytes(rank, peer, setting.ranks, total_of(setting)); });
  }
  [[nodiscard]] Places received_by(const Setting& setting, u32 rank) const {
    return places(setting, [&](u32 peer) { return traffic_->bytes(peer, rank, setting.ranks, total_of(setting)); });
  }

  coll::Outcome<Traffic> traffic_;
};

}  // namespace

std::unique_ptr<Collective> make_all_to_all_v() { return std::make_unique<AllToAllV>(Traffic::of_environment()); }

}  // namespace softib::perf

// A collective as the benchmark sees it: how large its buffers are, what goes into them and must come out, how it is
// started, and what its time means as a bandwidth. One small class for each; the frame (rank.h) does the rest.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "coll/communicator.h"

namespace softib::perf {

// Of one size, in elements. In place, rank r's smaller buffer begins r * in_place_... elements into the larger one.
struct Shape {
  u64 sent = 0;
  u64 received = 0;
  u64 count = 0;  // what the call is given
  u64 in_place_input = 0;
  u64 in_place_output = 0;
};

// One rank's part in one operation, and its data.
struct Setting {
  coll::DataType type{};
  coll::Op op = coll::Op::sum;
  u32 ranks = 1;
  u32 rank = 0;
  u32 root = 0;
  Shape shape;
  u64 seed = 0;

  [[nodiscard]] u64 bytes(u64 elements) const { return elements * coll::size_of(type); }
  [[nodiscard]] coll::Reduction reduction() const;
};

struct Bandwidth {
  double algorithm = 0;  // GB/s
  double bus = 0;        // ... that the links see: comparable between collectives and numbers of ranks
};

// What a row's column of the operator shows, and so what is iterated over.
enum class Operators : u8 { listed, none, blank };

// What happens in place. `undefined`: it runs, and what comes of it may be anything. `impossible`: it is run out of
// place once more, as nccl-tests has a column for it. Both are not checked, and the column says so.
enum class InPlace : u8 { checked, undefined, impossible };

class Collective {
 public:
  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  [[nodiscard]] virtual Operators operators() const { return Operators::none; }
  [[nodiscard]] virtual bool has_root() const { return false; }
  [[nodiscard]] virtual InPlace in_place() const { return InPlace::checked; }

  // For a row of `bytes / element size` elements in the larger buffer.
  [[nodiscard]] virtual Shape shape(u64 count, u64 element_size, u32 ranks) const = 0;
  // What this rank gives, at `memory`: setting.shape.sent elements, or nothing where it gives none.
  virtual void fill_input(const Setting& setting, void* memory) const = 0;
  // What this rank must get. `memory` holds what its output had before: setting.shape.received elements.
  virtual void fill_expected(const Setting& setting, void* memory) const = 0;
  [[nodiscard]] virtual coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                            void* out) const = 0;
  [[nodiscard]] virtual Bandwidth bandwidth(const Setting& setting, double seconds) const = 0;

  // Why so many ranks can't do it, as one line; the run then ends well, with no rows.
  [[nodiscard]] virtual std::optional<std::string> skipped(u32 /*ranks*/) const { return std::nullopt; }
  // Why it can't run with these sizes.
  [[nodiscard]] virtual std::optional<std::string> refused(u64 /*least*/, u64 /*most*/, u32 /*ranks*/) const {
    return std::nullopt;
  }
  // More to say about a row, as lines that begin with '#'.
  [[nodiscard]] virtual std::string remark(const Setting& /*setting*/, double /*seconds*/) const { return {}; }
};

// "all_reduce", "alltoallv": null for other names. The environment's settings are read here.
[[nodiscard]] std::unique_ptr<Collective> make_collective(std::string_view name);

std::unique_ptr<Collective> make_all_reduce();
std::unique_ptr<Collective> make_reduce();
std::unique_ptr<Collective> make_reduce_scatter();
std::unique_ptr<Collective> make_all_gather();
std::unique_ptr<Collective> make_broadcast();
std::unique_ptr<Collective> make_gather();
std::unique_ptr<Collective> make_scatter();
std::unique_ptr<Collective> make_all_to_all();
std::unique_ptr<Collective> make_all_to_all_v();
std::unique_ptr<Collective> make_send_receive();
std::unique_ptr<Collective> make_hypercube();

// As nccl-tests divides a size between ranks: each rank's part is a multiple of 16 bytes, and may be nothing.
[[nodiscard]] constexpr u64 part_of(u64 count, u64 element_size, u32 ranks) {
  return count / ranks & ~(16 / element_size - 1);
}

// `factor` of what is moved: bytes / 1e9 / seconds.
[[nodiscard]] constexpr Bandwidth bandwidth_of(u64 bytes, double seconds, double factor) {
  const double rate = static_cast<double>(bytes) / 1e9 / seconds;
  return {rate, rate * factor};
}

// Of all that is moved, the share that leaves a rank.
[[nodiscard]] constexpr double others(u32 ranks) { return static_cast<double>(ranks - 1) / ranks; }

}  // namespace softib::perf

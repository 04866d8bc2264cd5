// What the timing program asks of a library of collectives: one small adapter for each, so that all are measured alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace softib::bench {

// copy: no call at all, but memcpy by every rank at once, for comparison.
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, copy };
// in: the result comes where the input was. Of a broadcast both are the same call.
enum class Placement : std::uint8_t { out, in };
enum class Memory : std::uint8_t { ordinary, allocated };

// One call, of floats that are summed. `count` is the whole of all_reduce and broadcast (from rank 0), and one rank's
// block of the others. In place in == out, except all_gather's, whose `in` is this rank's block of `out`.
struct Operation {
  Collective collective;
  Placement placement;
  const float* in;
  float* out;
  std::size_t count;
};

// Which rank this is, where no launcher of the library's own says so, and where ranks leave word for each other.
struct Place {
  int rank = 0;
  int ranks = 1;
  std::string meeting;    // a folder
  std::string interface;  // for TCP
};

class Library {
 public:
  Library() = default;
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  virtual ~Library() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int ranks() const = 0;
  // Not timed: for those that set up an object for each place and size first.
  virtual void prepare(const Operation&) {}
  virtual void run(const Operation& operation) = 0;
  virtual void barrier() = 0;
  [[nodiscard]] virtual double most(double mine) = 0;  // of all ranks
  // Memory for buffers that this library gives out itself; nullptr where it has none to offer.
  [[nodiscard]] virtual void* allocate(std::size_t) { return nullptr; }
};

[[noreturn]] void die(std::string_view why);

// Each adapter has its own.
[[nodiscard]] std::unique_ptr<Library> open_library(const Place& place);

}  // namespace softib::bench

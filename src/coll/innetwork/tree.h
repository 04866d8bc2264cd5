// The network as something that combines what ranks give it: what an executor needs to know of an aggregation tree.
#pragma once

#include <chrono>
#include <span>

#include "coll/transport/transport.h"
#include "coll/types.h"

namespace softib::coll {

// What all members of the tree give, combined, comes to all of them. `bytes` and `stream` as of a message.
struct Aggregation : Operation {
  bool gives = true;  // false: this member only gets
  const std::byte* from = nullptr;
  std::byte* to = nullptr;  // may be `from`
  DataType type = DataType::int8;
  Op op = Op::sum;
};

class Tree {
 public:
  Tree() = default;
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  virtual ~Tree() = default;

  // Aggregations go in the order in which they are expected, the same on all members, whatever is begun first: one that
  // can't begin here yet holds up those behind it, as it does elsewhere.
  virtual void expect(Stream stream) = 0;
  virtual void begin(Aggregation& aggregation) = 0;
  virtual bool progress() = 0;

  // Now and then while anything is waited for: is the node still there?
  virtual void look(std::chrono::steady_clock::time_point now) = 0;
  // All aggregations fail, and the other members hear of it.
  virtual void give_up() = 0;
  // Why aggregations fail.
  [[nodiscard]] virtual Error failure() const = 0;

  // Ranks, this one among them.
  [[nodiscard]] virtual std::span<const u32> members() const = 0;
  // As Transport::descriptors() and arm(), in which aggregations may end.
  [[nodiscard]] virtual int descriptor() const = 0;
  [[nodiscard]] virtual bool arm() = 0;
};

}  // namespace softib::coll

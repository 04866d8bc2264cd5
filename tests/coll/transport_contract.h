// What any transport must do, as tests. The test program of a transport has transport_contract.cpp among its sources
// and says how its transport is made:
//
//   INSTANTIATE_TEST_SUITE_P(Tcp, TransportContract, testing::ValuesIn(contract_settings(tcp_kind)), setting_name);
//
// SOFTIB_TEST_SEED repeats a random run, SOFTIB_TEST_ROUNDS makes it longer.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coll/transport/transport.h"
#include "ranks.h"

namespace softib::coll::test {

struct TransportKind {
  std::string name;
  // Collective. `peers`: the other ranks.
  std::function<Outcome<std::unique_ptr<Transport>>(Bootstrap&, std::span<const u32> peers)> create;
  // Memory for messages, of a kind that the transport treats in a way of its own; plain memory without.
  std::function<std::shared_ptr<std::byte>(Transport&, u64 bytes)> allocate{};
  // False where ranks of one process don't work (or where that shows nothing new).
  bool threads = true;
  bool processes = true;
};

struct ContractSetting {
  TransportKind kind;
  As as = As::threads;
};

[[nodiscard]] std::vector<ContractSetting> contract_settings(const TransportKind& kind);
[[nodiscard]] std::string setting_name(const testing::TestParamInfo<ContractSetting>& info);
void PrintTo(const ContractSetting& setting, std::ostream* out);

// One rank of a test: its transport, and how to drive it.
class Node {
 public:
  Node(const TransportKind& kind, Bootstrap& bootstrap);

  [[nodiscard]] u32 rank() const { return rank_; }
  [[nodiscard]] u32 ranks() const { return ranks_; }
  [[nodiscard]] u32 peer() const { return 1 - rank_; }  // of two
  [[nodiscard]] Transport& transport() { return *transport_; }
  [[nodiscard]] Bootstrap& bootstrap() { return bootstrap_; }
  [[nodiscard]] std::shared_ptr<std::byte> memory(u64 bytes);

  // Progress until `holds`; false, and a failure of the test, if a rank ended or a peer broke before.
  bool drive_until(const std::function<bool()>& holds);
  bool finish(const Operation& operation);
  // Progress, but nobody expects it to lead anywhere.
  void drive_a_while();
  // Meets the other ranks, without progress while waiting; gives what each said.
  std::vector<u64> meet(u64 word = 0);
  // Meets them with progress while waiting, by messages over the transport itself.
  void barrier();
  // Before the end: sees to it that nobody needs this rank's progress any more.
  void part();

 private:
  bool harmed();

  const TransportKind& kind_;
  Bootstrap& bootstrap_;
  u32 rank_ = 0;
  u32 ranks_ = 0;
  u64 barriers_ = 0;
  std::unique_ptr<Transport> transport_;
};

class TransportContract : public testing::TestWithParam<ContractSetting> {
 protected:
  void run(u32 ranks, const std::function<void(Node&)>& body, const std::set<u32>& mortal = {});
};

}  // namespace softib::coll::test

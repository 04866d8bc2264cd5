#include "plain_transport.h"

#include "transport_contract.h"

namespace softib::coll::test {

namespace {

TransportKind plain_kind() {
  auto hub = std::make_shared<PlainHub>();
  return {.name = "plain",
          .create = [hub](Bootstrap& bootstrap, std::span<const u32>) -> Outcome<std::unique_ptr<Transport>> {
            return hub->join(bootstrap.rank());
          },
          .processes = false};
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(Plain, TransportContract, testing::ValuesIn(contract_settings(plain_kind())), setting_name);

}  // namespace softib::coll::test

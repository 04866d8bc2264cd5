// Any text as a scenario: it is refused with one line of text, or gives faults that their own words describe, in order
// of time.
#include <string_view>

#include "../require.h"
#include "fabric/faults/plan.h"

using softib::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace softib::fabric;
  static const Fabric fabric = *parse(
      "{hosts: [a, b, {name: big, hcas: [{name: mlx5_0, ports: 2}, mlx5_1]}],"
      " switches: [{name: leaf0, ports: 8}, {name: leaf1, ports: 8}, {name: spine, ports: 4}],"
      " cables: [[a/mlx5_0, leaf0/1], [b/mlx5_0, leaf1/1], [leaf0/8, spine/1], [leaf1/8, spine/2]]}",
      "lab");
  auto scenario = parse_scenario(fabric, {reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!scenario) {
    require(scenario.error().text.starts_with("fuzz:"));
    require(scenario.error().text.find('\n') == std::string::npos);
    return 0;
  }
  ScenarioPlan plan(*scenario, fabric, 1);
  softib::u64 before = 0;
  constexpr int most = 200;  // it may have no end
  for (int i = 0; i < most; ++i) {
    const auto planned = plan.next();
    if (!planned) return 0;
    require(planned->at >= before);
    before = planned->at;
    for (const auto& fault : planned->faults) {
      const auto words = fault_words(fabric, fault);
      const auto again = parse_fault(fabric, split_words(words));
      require(again && fault_words(fabric, *again) == words);
    }
  }
  return 0;
}

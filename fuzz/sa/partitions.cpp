// Any text as a partitions.conf: each error is one line that names its line, and every port gets keys that fit.
#include <string_view>

#include "../require.h"
#include "fabric/partitions.h"

using softib::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace softib::fabric;
  const Partitions partitions = parse_partitions({reinterpret_cast<const char*>(data), size});
  for (const auto& error : partitions.errors) {
    require(error.starts_with("partitions.conf:"));
    require(error.size() < 2 * size + 200);
  }
  for (const NodeType type : {NodeType::ca, NodeType::sw, NodeType::router})
    for (const auto key : partitions.keys(type, 0x1234, type == NodeType::ca)) require((key & default_key) != 0);
  require(!partitions.keys(NodeType::ca, 0x1234, true).empty());
  for (const auto& group : partitions.groups) require(group.mgid[0] == 0xff);
  return 0;
}

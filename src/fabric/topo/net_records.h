// The line form that ibnetdiscover prints and ibsim reads, as records: what is written, not yet what it means.
//
//   vendid=0x2c9
//   devid=0xd2f0
//   sysimgguid=0x248a0703004b2f40
//   switchguid=0x248a0703004b2f40(248a0703004b2f40)
//   Switch  40 "S-248a0703004b2f40"   # "leaf 1" enhanced port 0 lid 3 lmc 0
//   [1]     "H-98039b0300a1b2c0"[1](98039b0300a1b2c0)   # "node17 mlx5_0" lid 4 4xHDR
//
//   caguid=0x98039b0300a1b2c0
//   Ca      1 "H-98039b0300a1b2c0"    # "node17 mlx5_0"
//   [1](98039b0300a1b2c0)   "S-248a0703004b2f40"[1]     # lid 4 lmc 0 "leaf 1" lid 3 4xHDR
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"

namespace softib::fabric::topo {

enum class Dialect : u8 { ibnetdiscover, ibsim };
enum class RecordKind : u8 { sw, ca, router };

struct RecordPort {
  int line = 0;
  u32 number = 0;
  u64 guid = 0;  // 0: not said
  std::string remote{};
  u32 remote_port = 0;
  std::optional<u16> lid{};  // of this port (CAs and routers)
  u8 lmc = 0;
  std::optional<u16> remote_lid{};
  std::optional<Speed> speed{};
  std::optional<Width> width{};
};

struct Record {
  int line = 0;
  RecordKind kind = RecordKind::ca;
  u32 port_count = 0;
  std::string id;     // as between the quotes
  u64 id_guid = 0;    // from an id such as S-0002c9...; 0: it has none
  u64 guid = 0;       // from switchguid=, caguid=, rtguid=; 0: not said
  u64 port_guid = 0;  // of port 0
  u64 system_guid = 0;
  u32 vendor_id = 0;
  u32 device_id = 0;
  std::string description;
  bool enhanced_port0 = false;
  u16 lid = 0;  // of a switch
  u8 lmc = 0;
  std::vector<RecordPort> ports;
};

struct Records {
  std::vector<Record> nodes;
  std::vector<std::string> warnings;
};

[[nodiscard]] Parsed<Records> read_records(std::string_view text, std::string_view source, Dialect dialect);

}  // namespace softib::fabric::topo

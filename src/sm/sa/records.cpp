#include "sm/sa/records.h"

#include <algorithm>
#include <array>

namespace softib::sm::sa {

namespace {

constexpr auto any = Role::any;
constexpr auto sel = Role::selector;

constexpr Component node_components[] = {{0, 16},   {16, 16, any}, {32, 8},   {40, 8},   {48, 8},
                                         {56, 8},   {64, 64},      {128, 64}, {192, 64}, {256, 16},
                                         {272, 16}, {288, 32},     {320, 8},  {328, 24}, {352, 512}};

// PortInfo lies at bit 32. The capability mask is compared as set bits, which ClassPortInfo tells.
constexpr Component port_info_components[] = {{0, 16},
                                              {16, 8},
                                              {24, 8, any},  // LID, port, options
                                              {32, 64},
                                              {96, 64},
                                              {160, 16},  // M_Key, GID prefix, base LID
                                              {176, 16},
                                              {192, 32, Role::bits},
                                              {224, 16},  // SM LID, capability mask, diagnostic code
                                              {240, 16},
                                              {256, 8},
                                              {264, 8},  // lease, local port, width enabled
                                              {272, 8},
                                              {280, 8},
                                              {288, 4},  // width supported, width active, speed supported
                                              {292, 4},
                                              {296, 4},
                                              {300, 4},  // state, physical state, down default
                                              {304, 2},
                                              {306, 3, any},
                                              {309, 3},  // M_Key protection, -, LMC
                                              {312, 4},
                                              {316, 4},
                                              {320, 4},  // speed active, speed enabled, neighbour MTU
                                              {324, 4},
                                              {328, 4},
                                              {332, 4},  // SM SL, VL cap, init type
                                              {336, 8},
                                              {344, 8},
                                              {352, 8},  // VL high limit, arbitration caps
                                              {360, 4},
                                              {364, 4},
                                              {368, 3},  // init type reply, MTU cap, stall count
                                              {371, 5},
                                              {376, 4},
                                              {380, 1},  // HOQ life, operational VLs, enforcement
                                              {381, 1},
                                              {382, 1},
                                              {383, 1},  // enforcement, raw filters
                                              {384, 16},
                                              {400, 16},
                                              {416, 16},  // violations
                                              {432, 8},
                                              {440, 1},
                                              {441, 2, any},  // GUID cap, reregister
                                              {443, 5},
                                              {448, 3, any},
                                              {451, 5},  // subnet time-out, -, response time
                                              {456, 4},
                                              {460, 4},
                                              {464, 16},  // error thresholds, credit hint
                                              {480, 8, any},
                                              {488, 24},
                                              {512, 16, Role::bits},  // -, round trip, capability mask 2
                                              {528, 4},
                                              {532, 4},
                                              {536, 3, any},  // extended speeds
                                              {539, 5}};

constexpr Component sl_to_vl_components[] = {{0, 16}, {16, 8}, {24, 8}, {32, 32, any}, {64, 64}};
constexpr Component switch_info_components[] = {{0, 16},   {16, 16, any}, {32, 16},      {48, 16}, {64, 16}, {80, 16},
                                                {96, 8},   {104, 8},      {112, 8},      {120, 5}, {125, 1}, {126, 2},
                                                {128, 16}, {144, 16},     {160, 1},      {161, 1}, {162, 1}, {163, 1},
                                                {164, 1},  {165, 3, any}, {168, 8, any}, {176, 16}};
constexpr Component linear_components[] = {{0, 16}, {16, 16}, {32, 32, any}, {64, 512}};
constexpr Component multicast_components[] = {{0, 16}, {16, 4}, {20, 3, any}, {23, 9}, {32, 32, any}, {64, 512}};
constexpr Component sm_info_components[] = {{0, 16}, {16, 16, any}, {32, 64}, {96, 64}, {160, 32}, {192, 4}, {196, 4}};
constexpr Component link_components[] = {{0, 16}, {16, 8}, {24, 8}, {32, 16}};
constexpr Component guid_info_components[] = {{0, 16},   {16, 8},   {24, 8, any}, {32, 32, any}, {64, 64},  {128, 64},
                                              {192, 64}, {256, 64}, {320, 64},    {384, 64},     {448, 64}, {512, 64}};
constexpr Component pkey_components[] = {{0, 16}, {16, 16}, {32, 8}, {40, 8, any}, {48, 16, any}, {64, 512}};
constexpr Component arbitration_components[] = {{0, 16}, {16, 8}, {24, 8}, {32, 32, any}, {64, 512}};

constexpr auto service_components = [] {
  std::array<Component, 37> all{{{0, 64}, {64, 128}, {192, 16}, {208, 16, any}, {224, 32}, {256, 128}, {384, 512}}};
  for (u16 i = 0; i < 16; ++i) all[7 + i] = {static_cast<u16>(896 + 8 * i), 8};
  for (u16 i = 0; i < 8; ++i) all[23 + i] = {static_cast<u16>(1024 + 16 * i), 16};
  for (u16 i = 0; i < 4; ++i) all[31 + i] = {static_cast<u16>(1152 + 32 * i), 32};
  for (u16 i = 0; i < 2; ++i) all[35 + i] = {static_cast<u16>(1280 + 64 * i), 64};
  return all;
}();

// Service id, traffic class and the like say what a path is wanted for, not what it is like.
constexpr Component path_components[] = {{0, 8, any},    {8, 56, any},
                                         {64, 128},      {192, 128},
                                         {320, 16},      {336, 16},
                                         {352, 1},       {353, 3, any},
                                         {356, 20, any}, {376, 8, any},
                                         {384, 8, any},  {392, 1},
                                         {393, 7, any},  {400, 16, any},
                                         {416, 12, any}, {428, 4, any},
                                         {432, 2, sel},  {434, 6, Role::number},
                                         {440, 2, sel},  {442, 6, Role::rate},
                                         {448, 2, sel},  {450, 6, Role::number}};

constexpr Component member_components[] = {{0, 128},
                                           {128, 128},
                                           {256, 32},
                                           {288, 16},
                                           {304, 2, sel},
                                           {306, 6, Role::number},
                                           {312, 8},
                                           {320, 16},
                                           {336, 2, sel},
                                           {338, 6, Role::rate},
                                           {344, 2, sel},
                                           {346, 6, Role::number},
                                           {352, 4},
                                           {356, 20},
                                           {376, 8},
                                           {384, 4},
                                           {388, 4, Role::bits},
                                           {392, 1}};

constexpr Component inform_components[] = {
    {0, 128}, {128, 16}, {144, 48, any}, {192, 128},     {320, 16},     {336, 16}, {352, 16, any}, {368, 8},
    {376, 8}, {384, 16}, {400, 16},      {416, 24, any}, {440, 3, any}, {443, 5},  {448, 8, any},  {456, 24}};
constexpr Component trace_components[] = {{0, 64}};

constexpr Layout layouts[] = {
    {RecordType::node, 112, true, node_components},
    {RecordType::port_info, 72, true, port_info_components},
    {RecordType::sl_to_vl, 16, true, sl_to_vl_components},
    {RecordType::switch_info, 24, true, switch_info_components},
    {RecordType::linear_forwarding, 72, true, linear_components},
    {RecordType::multicast_forwarding, 72, true, multicast_components},
    {RecordType::sm_info, 32, true, sm_info_components},
    {RecordType::link, 8, true, link_components},
    {RecordType::guid_info, 72, true, guid_info_components},
    {RecordType::service, 176, false, service_components},
    {RecordType::pkey_table, 72, true, pkey_components},
    {RecordType::path, 64, false, path_components},
    {RecordType::vl_arbitration, 72, true, arbitration_components},
    {RecordType::multicast_member, 56, false, member_components},
    {RecordType::trace, 48, false, trace_components},
    {RecordType::inform_info_record, 64, false, inform_components},
};

// Any width; what is wider than 64 bits lies at whole bytes.
bool same(std::span<const u8> a, std::span<const u8> b, const Component& component) {
  if (component.width <= 64) {
    const wire::Field field{component.at, static_cast<u8>(component.width)};
    return wire::get(a, field) == wire::get(b, field);
  }
  const std::size_t from = component.at / 8U, bytes = component.width / 8U;
  if (from + bytes > a.size() || from + bytes > b.size()) return false;
  return std::equal(a.begin() + static_cast<std::ptrdiff_t>(from),
                    a.begin() + static_cast<std::ptrdiff_t>(from + bytes),
                    b.begin() + static_cast<std::ptrdiff_t>(from));
}

// A value with its selector before it.
bool selected(std::span<const u8> query, std::span<const u8> record, const Component& selector,
              const Component& value) {
  const auto how = static_cast<Selector>(wire::get(query, {selector.at, 2}));
  const wire::Field field{value.at, static_cast<u8>(value.width)};
  u64 asked = wire::get(query, field), actual = wire::get(record, field);
  if (value.role == Role::rate) {
    asked = rate_mbps(static_cast<u8>(asked));
    actual = rate_mbps(static_cast<u8>(actual));
  }
  return satisfies(how, asked, actual);
}

bool bits_are_set(std::span<const u8> query, std::span<const u8> record, const Component& component) {
  const wire::Field field{component.at, static_cast<u8>(component.width)};
  const u64 asked = wire::get(query, field);
  return (wire::get(record, field) & asked) == asked;
}

// Rate codes by speed.
struct RateRow {
  u8 code;
  u32 mbps;
};
constexpr RateRow rates[] = {{2, 2500},    {5, 5000},    {3, 10000},   {11, 14000},  {6, 20000},   {15, 25000},
                             {19, 28000},  {4, 30000},   {7, 40000},   {20, 50000},  {12, 56000},  {8, 60000},
                             {9, 80000},   {16, 100000}, {13, 112000}, {10, 120000}, {14, 168000}, {17, 200000},
                             {18, 300000}, {21, 400000}, {22, 600000}, {23, 800000}, {24, 1200000}};

}  // namespace

const Layout* find_layout(RecordType type) {
  for (const Layout& layout : layouts)
    if (layout.type == type) return &layout;
  return nullptr;
}

bool satisfies(Selector selector, u64 asked, u64 actual) {
  switch (selector) {
    case Selector::greater:
      return actual > asked;
    case Selector::less:
      return actual < asked;
    case Selector::exactly:
      return actual == asked;
    case Selector::largest:
      return true;
  }
  return true;
}

u32 rate_mbps(u8 code) {
  for (const RateRow& row : rates)
    if (row.code == code) return row.mbps;
  return 0;
}

u8 slower_rate(u8 code) {
  u8 before = 0;
  for (const RateRow& row : rates) {
    if (row.code == code) return before;
    before = row.code;
  }
  return 0;
}

bool matches(const Layout& layout, std::span<const u8> query, u64 mask, std::span<const u8> record, bool bits) {
  for (u32 i = 0; i < layout.components.size() && mask >> i != 0; ++i) {
    if (!(mask >> i & 1)) continue;
    const Component& component = layout.components[i];
    switch (component.role) {
      case Role::any:
      case Role::selector:
        break;
      case Role::equal:
        if (!same(query, record, component)) return false;
        break;
      case Role::bits:
        if (!(bits ? bits_are_set(query, record, component) : same(query, record, component))) return false;
        break;
      case Role::rate:
      case Role::number:  // without its selector a value says nothing
        if ((mask >> (i - 1) & 1) && !selected(query, record, layout.components[i - 1], component)) return false;
        break;
    }
  }
  return true;
}

}  // namespace softib::sm::sa

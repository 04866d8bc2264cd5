// Every transition of every type against the table of the specification, written down here a second time in words.
#include "hca/rules/qp_transitions.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

namespace softib::hca {
namespace {

using ipc::QpState;
using ipc::QpType;

const std::map<std::string, QpAttr> attribute_names{{"cur", QpAttr::cur_state},
                                                    {"notify", QpAttr::en_sqd_async_notify},
                                                    {"access", QpAttr::access_flags},
                                                    {"pkey", QpAttr::pkey_index},
                                                    {"port", QpAttr::port},
                                                    {"qkey", QpAttr::qkey},
                                                    {"av", QpAttr::av},
                                                    {"mtu", QpAttr::path_mtu},
                                                    {"timeout", QpAttr::timeout},
                                                    {"retry", QpAttr::retry_count},
                                                    {"rnr", QpAttr::rnr_retry},
                                                    {"rq_psn", QpAttr::rq_psn},
                                                    {"rd", QpAttr::max_rd_atomic},
                                                    {"alt", QpAttr::alt_path},
                                                    {"rnr_timer", QpAttr::min_rnr_timer},
                                                    {"sq_psn", QpAttr::sq_psn},
                                                    {"dest_rd", QpAttr::max_dest_rd_atomic},
                                                    {"mig", QpAttr::path_mig_state},
                                                    {"cap", QpAttr::cap},
                                                    {"dest", QpAttr::dest_qpn},
                                                    {"rate", QpAttr::rate_limit}};

const std::map<std::string, QpState> state_names{
    {"RESET", QpState::reset}, {"INIT", QpState::init}, {"RTR", QpState::rtr}, {"RTS", QpState::rts},
    {"SQD", QpState::sqd},     {"SQE", QpState::sqe},   {"ERR", QpState::err}};

const std::map<std::string, QpType> type_names{{"RC", QpType::rc}, {"UC", QpType::uc}, {"UD", QpType::ud}};

// Type, from, to: required | optional. Beyond these, any state may go to RESET, and any but RESET to ERR, with nothing
// but the new state.
constexpr std::array specification{
    "RC RESET INIT : pkey port access |",
    "UC RESET INIT : pkey port access |",
    "UD RESET INIT : pkey port qkey |",
    "RC INIT INIT : | pkey port access",
    "UC INIT INIT : | pkey port access",
    "UD INIT INIT : | pkey port qkey",
    "RC INIT RTR : av mtu dest rq_psn dest_rd rnr_timer | alt access pkey",
    "UC INIT RTR : av mtu dest rq_psn | alt access pkey",
    "UD INIT RTR : | pkey qkey",
    "RC RTR RTS : timeout retry rnr sq_psn rd | cur alt access rnr_timer mig",
    "UC RTR RTS : sq_psn | cur alt access mig",
    "UD RTR RTS : sq_psn | cur qkey",
    "RC RTS RTS : | cur access alt mig rnr_timer",
    "UC RTS RTS : | cur access alt mig",
    "UD RTS RTS : | cur qkey",
    "RC RTS SQD : | notify",
    "UC RTS SQD : | notify",
    "UD RTS SQD : | notify",
    "RC SQD RTS : | cur alt access rnr_timer mig",
    "UC SQD RTS : | cur alt access mig",
    "UD SQD RTS : | cur qkey",
    "RC SQD SQD : | port av timeout retry rnr rd dest_rd alt access pkey rnr_timer mig",
    "UC SQD SQD : | av alt access pkey mig",
    "UD SQD SQD : | pkey qkey",
    "UC SQE RTS : | cur access",
    "UD SQE RTS : | cur qkey",
};

using Way = std::tuple<QpType, QpState, QpState>;
struct Masks {
  std::set<QpAttr> required;
  std::set<QpAttr> optional;
};

std::map<Way, Masks> expected_table() {
  std::map<Way, Masks> table;
  for (const char* line : specification) {
    std::istringstream words(line);
    std::string type, from, to, colon, word;
    words >> type >> from >> to >> colon;
    Masks masks;
    bool optional = false;
    while (words >> word) {
      if (word == "|")
        optional = true;
      else
        (optional ? masks.optional : masks.required).insert(attribute_names.at(word));
    }
    table[{type_names.at(type), state_names.at(from), state_names.at(to)}] = masks;
  }
  for (auto [type_name, type] : type_names)
    for (auto [state_name, state] : state_names) {
      table[{type, state, QpState::reset}] = {};
      if (state != QpState::reset) table[{type, state, QpState::err}] = {};
    }
  return table;
}

QpAttr all_of(const std::set<QpAttr>& attributes) {
  QpAttr mask = QpAttr::state;
  for (QpAttr attribute : attributes) mask = mask | attribute;
  return mask;
}

std::string describe(const Way& way) {
  auto [type, from, to] = way;
  return "type " + std::to_string(static_cast<int>(type)) + ": " + std::to_string(static_cast<u32>(from)) + " -> " +
         std::to_string(static_cast<u32>(to));
}

bool accepted(const Way& way, QpAttr mask) {
  auto [type, from, to] = way;
  auto result = check_transition(type, from, to, mask);
  if (!result) {
    EXPECT_EQ(to_int(result.error()), EINVAL);
  }
  return result.has_value();
}

TEST(QpTransitions, EveryRequiredAttributeIsRequired) {
  for (const auto& [way, masks] : expected_table()) {
    EXPECT_TRUE(accepted(way, all_of(masks.required))) << describe(way);
    for (QpAttr missing : masks.required)
      EXPECT_FALSE(accepted(way, all_of(masks.required) & ~missing)) << describe(way) << " without " << u32(missing);
  }
}

TEST(QpTransitions, OptionalAttributesMayComeAloneAndTogether) {
  for (const auto& [way, masks] : expected_table()) {
    for (QpAttr optional : masks.optional)
      EXPECT_TRUE(accepted(way, all_of(masks.required) | optional)) << describe(way) << " with " << u32(optional);
    EXPECT_TRUE(accepted(way, all_of(masks.required) | all_of(masks.optional))) << describe(way);
  }
}

TEST(QpTransitions, EveryOtherAttributeIsForbidden) {
  for (const auto& [way, masks] : expected_table())
    for (u32 bit = 1; bit < 32; ++bit) {
      auto attribute = static_cast<QpAttr>(1U << bit);
      if (masks.required.contains(attribute) || masks.optional.contains(attribute)) continue;
      EXPECT_FALSE(accepted(way, all_of(masks.required) | attribute)) << describe(way) << " with bit " << bit;
    }
}

TEST(QpTransitions, AllOtherWaysAreClosed) {
  auto expected = expected_table();
  int closed = 0;
  for (auto [type_name, type] : type_names)
    for (auto [from_name, from] : state_names)
      for (auto [to_name, to] : state_names) {
        if (expected.contains({type, from, to})) continue;
        ++closed;
        EXPECT_EQ(find_transition(type, from, to), nullptr) << type_name << " " << from_name << " " << to_name;
        for (u32 bit = 0; bit < 32; ++bit) EXPECT_FALSE(accepted({type, from, to}, static_cast<QpAttr>(1U << bit)));
      }
  EXPECT_EQ(closed, 3 * 49 - static_cast<int>(expected.size()));
}

TEST(QpTransitions, UnknownTypesAndStatesAreRefused) {
  EXPECT_FALSE(check_transition(QpType::none, QpState::reset, QpState::init, QpAttr::state));
  EXPECT_FALSE(check_transition(static_cast<QpType>(9), QpState::reset, QpState::init, QpAttr::state));
  EXPECT_FALSE(check_transition(QpType::rc, static_cast<QpState>(7), QpState::reset, QpAttr::state));
  EXPECT_FALSE(check_transition(QpType::rc, QpState::destroyed, QpState::reset, QpAttr::state));
  EXPECT_FALSE(check_transition(QpType::rc, QpState::reset, QpState::destroyed, QpAttr::state));
}

}  // namespace
}  // namespace softib::hca

#include "hca/rules/qp_transitions.h"

#include <array>

namespace softib::hca {

namespace {

using enum QpAttr;
using S = ipc::QpState;

constexpr QpAttr init_connected = pkey_index | port | access_flags;
constexpr QpAttr init_datagram = pkey_index | port | qkey;
constexpr QpAttr rtr_uc = av | path_mtu | dest_qpn | rq_psn;
constexpr QpAttr rtr_rc = rtr_uc | max_dest_rd_atomic | min_rnr_timer;
constexpr QpAttr rtr_optional = alt_path | access_flags | pkey_index;
constexpr QpAttr rts_rc = timeout | retry_count | rnr_retry | sq_psn | max_rd_atomic;
constexpr QpAttr run_uc = cur_state | access_flags | alt_path | path_mig_state;
constexpr QpAttr run_rc = run_uc | min_rnr_timer;
constexpr QpAttr run_ud = cur_state | qkey;
constexpr QpAttr drained_uc = av | alt_path | access_flags | pkey_index | path_mig_state;
constexpr QpAttr drained_rc =
    drained_uc | port | timeout | retry_count | rnr_retry | max_rd_atomic | max_dest_rd_atomic | min_rnr_timer;
constexpr QpAttr notify = en_sqd_async_notify;

// clang-format off
constexpr std::array table{
    //         from      to        RC                        UC                        UD
    Transition{S::reset, S::reset, {},                       {},                       {}},
    Transition{S::reset, S::init,  {init_connected, none},   {init_connected, none},   {init_datagram, none}},
    Transition{S::init,  S::reset, {},                       {},                       {}},
    Transition{S::init,  S::err,   {},                       {},                       {}},
    Transition{S::init,  S::init,  {none, init_connected},   {none, init_connected},   {none, init_datagram}},
    Transition{S::init,  S::rtr,   {rtr_rc, rtr_optional},   {rtr_uc, rtr_optional},   {none, pkey_index | qkey}},
    Transition{S::rtr,   S::reset, {},                       {},                       {}},
    Transition{S::rtr,   S::err,   {},                       {},                       {}},
    Transition{S::rtr,   S::rts,   {rts_rc, run_rc},         {sq_psn, run_uc},         {sq_psn, run_ud}},
    Transition{S::rts,   S::reset, {},                       {},                       {}},
    Transition{S::rts,   S::err,   {},                       {},                       {}},
    Transition{S::rts,   S::rts,   {none, run_rc},           {none, run_uc},           {none, run_ud}},
    Transition{S::rts,   S::sqd,   {none, notify},           {none, notify},           {none, notify}},
    Transition{S::sqd,   S::reset, {},                       {},                       {}},
    Transition{S::sqd,   S::err,   {},                       {},                       {}},
    Transition{S::sqd,   S::rts,   {none, run_rc},           {none, run_uc},           {none, run_ud}},
    Transition{S::sqd,   S::sqd,   {none, drained_rc},       {none, drained_uc},       {none, pkey_index | qkey}},
    Transition{S::sqe,   S::reset, {},                       {},                       {}},
    Transition{S::sqe,   S::err,   {},                       {},                       {}},
    Transition{S::sqe,   S::rts,   {},                       {none, cur_state | access_flags}, {none, run_ud}},
    Transition{S::err,   S::reset, {},                       {},                       {}},
    Transition{S::err,   S::err,   {},                       {},                       {}},
};
// clang-format on

bool is_known(ipc::QpType type) {
  return type == ipc::QpType::rc || type == ipc::QpType::uc || type == ipc::QpType::ud;
}

// An error on the send queue of an RC QP takes the whole QP to ERR, so there is no SQE to come back from.
bool exists_for(ipc::QpType type, const Transition& row) {
  return !(type == ipc::QpType::rc && row.from == S::sqe && row.to == S::rts);
}

}  // namespace

std::span<const Transition> transition_table() { return table; }

const Transition* find_transition(ipc::QpType type, ipc::QpState from, ipc::QpState to) {
  if (!is_known(type)) return nullptr;
  for (const Transition& row : table)
    if (row.from == from && row.to == to) return exists_for(type, row) ? &row : nullptr;
  return nullptr;
}

Result<void> check_transition(ipc::QpType type, ipc::QpState from, ipc::QpState to, QpAttr mask) {
  const Transition* row = find_transition(type, from, to);
  if (!row) return fail(EINVAL);
  const AttrMasks& masks = row->masks(type);
  if (!has(mask, masks.required)) return fail(EINVAL);
  if (any(mask & ~(masks.required | masks.optional | state))) return fail(EINVAL);
  return {};
}

}  // namespace softib::hca

// Which state changes a queue pair allows, and which attributes each of them needs and takes: the transition table of
// the InfiniBand specification (volume 1, section 10.2.4 and 11.2.5.2) for RC, UC and UD.
#pragma once

#include <span>

#include "base/types.h"
#include "hca/rules/bits.h"
#include "ipc/segment.h"

namespace softib::hca {

struct AttrMasks {
  QpAttr required = QpAttr::none;
  QpAttr optional = QpAttr::none;
};

struct Transition {
  ipc::QpState from;
  ipc::QpState to;
  AttrMasks rc;
  AttrMasks uc;
  AttrMasks ud;

  [[nodiscard]] const AttrMasks& masks(ipc::QpType type) const {
    return type == ipc::QpType::rc ? rc : type == ipc::QpType::uc ? uc : ud;
  }
};

// Every legal transition, "any to RESET" and "any to ERR" written out. SQE exists for UC and UD only.
[[nodiscard]] std::span<const Transition> transition_table();

// nullptr: illegal for this type.
[[nodiscard]] const Transition* find_transition(ipc::QpType type, ipc::QpState from, ipc::QpState to);

// EINVAL: an illegal transition, a required attribute missing, or one that has no place in it. `state` itself is
// always allowed.
[[nodiscard]] Result<void> check_transition(ipc::QpType type, ipc::QpState from, ipc::QpState to, QpAttr mask);

}  // namespace softib::hca

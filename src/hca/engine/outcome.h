// How one try at a send work request ended.
#pragma once

#include "hca/engine/verbs.h"

namespace softib::hca {

enum class Verdict : u8 {
  completed,   // with `status`
  not_ready,   // RNR NAK: try again after `rnr_timer`
  lost,        // no answer will come: try again after the ACK time-out
  on_its_way,  // goes on at requester.deadline
};

struct Outcome {
  Verdict verdict;
  WcStatus status = WcStatus::success;
  u8 rnr_timer = 0;
  u32 byte_len = 0;  // of READ and atomics

  static Outcome success(u64 bytes = 0) { return {Verdict::completed, WcStatus::success, 0, static_cast<u32>(bytes)}; }
  static Outcome failure(WcStatus status) { return {Verdict::completed, status, 0, 0}; }
  static Outcome not_ready(u8 timer) { return {Verdict::not_ready, WcStatus::success, timer, 0}; }
  static Outcome lost() { return {Verdict::lost, WcStatus::success, 0, 0}; }
  static Outcome on_its_way() { return {Verdict::on_its_way, WcStatus::success, 0, 0}; }
};

}  // namespace softib::hca

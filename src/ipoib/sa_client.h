// Questions to subnet administration, by libibumad: sent, and answered later.
#pragma once

#include <functional>
#include <unordered_map>

#include "ipoib/packets.h"
#include "ipoib/port.h"
#include "wire/mad.h"

namespace softib::ipoib {

class SaClient {
 public:
  [[nodiscard]] static Told<std::unique_ptr<SaClient>> open(Loop& loop, const Port& port);
  ~SaClient();

  // The record of the answer. ETIMEDOUT: nobody answered; EREMOTEIO: refused.
  using Answer = std::function<void(Result<std::span<const u8>>)>;
  struct Request {
    wire::Method method;
    u16 attribute;
    u64 mask;
    std::span<const u8> record;
  };
  void ask(const Request& request, Answer answer);
  [[nodiscard]] bool is_idle() const { return waiting_.empty(); }

 private:
  void take_answers();
  void take_answer(std::span<const u8> mad, int status);

  const Port* port_ = nullptr;
  Loop* loop_ = nullptr;
  int umad_ = -1;
  int agent_ = -1;
  Bytes buffer_;
  u32 transaction_ = 0;
  std::unordered_map<u32, Answer> waiting_;
};

}  // namespace softib::ipoib

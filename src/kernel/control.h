// What the uverbs commands need from the rest of the process, so that tests and fuzzers can drive them with no daemon.
#pragma once

#include "base/fd.h"
#include "base/types.h"
#include "hca/engine.h"
#include "hca/memory.h"
#include "hca/session.h"
#include "ipc/client.h"
#include "ipc/protocol.h"
#include "ipc/segment.h"

namespace softib::kernel {

class Control {
 public:
  virtual ~Control() = default;

  [[nodiscard]] virtual ipc::Segment& segment() = 0;
  [[nodiscard]] virtual hca::Engine& engine() = 0;
  [[nodiscard]] virtual hca::ProcessMemory& memory() = 0;

  // One call to softibd, as ipc::Client makes it. `received` takes the descriptor that comes back, where one does.
  virtual Result<void> exchange(ipc::Op op, u32 context, const void* request, u32 request_size, void* reply,
                                u32 reply_size, Fd* received) = 0;

  template <typename Call>
  Result<typename Call::Reply> call(u32 context, const typename Call::Request& request, Fd* received = nullptr) {
    typename Call::Reply reply{};
    auto done = exchange(Call::op, context, &request, ipc::payload_size<typename Call::Request>, &reply,
                         ipc::payload_size<typename Call::Reply>, received);
    if (!done) return fail(done.error());
    return reply;
  }
};

// The real thing: this process's session.
class SessionControl final : public Control {
 public:
  explicit SessionControl(hca::Session& session) : session_(session) {}

  ipc::Segment& segment() override { return session_.segment(); }
  hca::Engine& engine() override { return session_.engine(); }
  hca::ProcessMemory& memory() override { return session_.memory(); }
  Result<void> exchange(ipc::Op op, u32 context, const void* request, u32 request_size, void* reply, u32 reply_size,
                        Fd* received) override {
    return session_.client().exchange(op, context, request, request_size, reply, reply_size, -1, received);
  }

 private:
  hca::Session& session_;
};

}  // namespace softib::kernel

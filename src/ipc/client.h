// A process's connection to softibd.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/fd.h"
#include "base/types.h"
#include "ipc/protocol.h"

namespace softib::ipc {

template <typename T>
inline constexpr u32 payload_size = std::is_empty_v<T> ? 0 : sizeof(T);

class Client {
 public:
  // Connects to `<fabric_dir>/daemon.sock`. ECONNREFUSED or ENOENT: no daemon there (the caller words the message).
  static Result<std::unique_ptr<Client>> connect(const std::string& fabric_dir);

  // Over a connected SOCK_SEQPACKET socket.
  static std::unique_ptr<Client> adopt(Fd socket) { return std::unique_ptr<Client>(new Client(std::move(socket))); }

  // One call. EIO: the daemon died or broke the protocol; every later call then fails the same way.
  template <typename Call>
  Result<typename Call::Reply> call(u32 context, const typename Call::Request& request) {
    typename Call::Reply reply{};
    auto done = exchange(Call::op, context, &request, payload_size<typename Call::Request>, &reply,
                         payload_size<typename Call::Reply>, -1, nullptr);
    if (!done) return fail(done.error());
    return reply;
  }

  // A call that sends a descriptor (send_fd, or -1) and receives one (into *received, or nullptr).
  template <typename Call>
  Result<typename Call::Reply> call_fd(u32 context, const typename Call::Request& request, int send_fd, Fd* received) {
    typename Call::Reply reply{};
    auto done = exchange(Call::op, context, &request, payload_size<typename Call::Request>, &reply,
                         payload_size<typename Call::Reply>, send_fd, received);
    if (!done) return fail(done.error());
    return reply;
  }

  // What call() and call_fd() are made of, for callers that choose the operation at run time.
  Result<void> exchange(Op op, u32 context, const void* request, u32 request_size, void* reply, u32 reply_size,
                        int send_fd, Fd* received);

  [[nodiscard]] int fd() const { return socket_.get(); }

  // In the child of a fork: closes this process's copy of the connection without a word to the daemon.
  void abandon() { socket_.reset(); }

 private:
  explicit Client(Fd socket) : socket_(std::move(socket)) {}

  std::mutex mutex_;
  Fd socket_;
};

// The first call of a connection that is no program's on a host: it may ask everything. `program` is for the daemon's
// log.
[[nodiscard]] Result<void> attach_as_tool(Client& client, std::string_view program);

}  // namespace softib::ipc

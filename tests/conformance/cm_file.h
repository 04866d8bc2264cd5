// /dev/infiniband/rdma_cm with no library in between: commands as the kernel takes them, and events as words. Nothing
// here knows what a right answer is.
#pragma once

#include <netinet/in.h>  // before the kernel's headers, which then define nothing of it again

#include <rdma/rdma_user_cm.h>

#include <cstring>
#include <string>

#include "numbers.h"

namespace conformance {

struct CmEvent {
  std::string words;  // "CONNECT_REQUEST 0"
  rdma_ucm_event_resp response{};
  bool came = false;
};

class CmFile {
 public:
  CmFile();
  CmFile(const CmFile&) = delete;
  CmFile& operator=(const CmFile&) = delete;
  ~CmFile() { close(); }

  void close();
  [[nodiscard]] int fd() const { return fd_; }

  // 0 or an errno.
  template <typename Request>
  int call(u32 command, const Request& request) {
    return write(command, &request, sizeof request, 0);
  }
  template <typename Request, typename Response>
  int call(u32 command, Request request, Response& response) {
    request.response = reinterpret_cast<u64>(&response);
    return write(command, &request, sizeof request, sizeof response);
  }
  // Any bytes behind any header.
  int write(u32 command, const void* request, size_t size, size_t room);

  // -- ids: 0 or an errno each
  int create(u32& id, u16 space = RDMA_PS_TCP, u8 qp_type = 0);
  u32 made(u16 space = RDMA_PS_TCP);  // one that must succeed
  int destroy(u32 id, u32* events = nullptr);
  int bind(u32 id, const sockaddr_storage& address);
  int listen(u32 id, u32 backlog = 0) { return call(RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{id, backlog}); }
  int resolve(u32 id, const sockaddr_storage& to, u32 timeout_ms = 300, const sockaddr_storage* from = nullptr);
  int route(u32 id) { return call(RDMA_USER_CM_CMD_RESOLVE_ROUTE, rdma_ucm_resolve_route{id, 300}); }
  int connect(u32 id, const rdma_ucm_conn_param& parameters);
  int accept(u32 id, const rdma_ucm_conn_param& parameters, u64 uid = 1);
  int reject(u32 id, u8 reason, u8 private_data_len);
  int disconnect(u32 id) { return call(RDMA_USER_CM_CMD_DISCONNECT, rdma_ucm_disconnect{id}); }
  int option(u32 id, u32 level, u32 name, const void* value, u32 size);
  int join(u32 id, const sockaddr_storage& address, u16 flags, u32& group);
  int leave(u32 group);
  int migrate_from(int fd, u32 id, u32* events = nullptr);

  // What comes within `wait_ms`, else "nothing".
  CmEvent event(int wait_ms = 3000);

 private:
  int fd_ = -1;
  u64 last_uid_ = 0;
};

sockaddr_storage address_of(const std::string& text, u16 port = 0);
u32 size_of(const sockaddr_storage& address);
rdma_ucm_conn_param parameters(u8 private_data_len = 0);
std::string errno_name(int error);

}  // namespace conformance

// All handlers of the tables, by the file that they stand in. Overloads: one for the ioctl method, one for the write
// command.
#pragma once

#include "kernel/attributes.h"
#include "kernel/command.h"
#include "kernel/interpreter.h"

namespace softib::kernel::methods {

// context.cpp
Result<void> get_context(Interpreter&, Attributes&);
Result<void> get_context(Interpreter&, Command&);
Result<void> query_context(Interpreter&, Attributes&);
Result<void> alloc_async_fd(Interpreter&, Attributes&);
Result<void> create_channel(Interpreter&, Command&);
Result<void> invoke_write(Interpreter&, Attributes&);
Result<void> list_handles(Interpreter&, Attributes&);

// query.cpp
Result<void> query_device(Interpreter&, Command&);
Result<void> query_device_extended(Interpreter&, Command&);
Result<void> query_port(Interpreter&, Attributes&);
Result<void> query_port(Interpreter&, Command&);
Result<void> query_gid_table(Interpreter&, Attributes&);
Result<void> query_gid_entry(Interpreter&, Attributes&);

// memory.cpp
Result<void> alloc_pd(Interpreter&, Command&);
Result<void> dealloc_pd(Interpreter&, Attributes&);
Result<void> dealloc_pd(Interpreter&, Command&);
Result<void> reg_mr(Interpreter&, Command&);
Result<void> rereg_mr(Interpreter&, Command&);
Result<void> dereg_mr(Interpreter&, Attributes&);
Result<void> dereg_mr(Interpreter&, Command&);
Result<void> query_mr(Interpreter&, Attributes&);
Result<void> advise_mr(Interpreter&, Attributes&);
Result<void> reg_dmabuf_mr(Interpreter&, Attributes&);
Result<void> alloc_mw(Interpreter&, Command&);
Result<void> dealloc_mw(Interpreter&, Attributes&);
Result<void> dealloc_mw(Interpreter&, Command&);

// completion.cpp
Result<void> create_cq(Interpreter&, Attributes&);
Result<void> create_cq(Interpreter&, Command&);
Result<void> create_cq_extended(Interpreter&, Command&);
Result<void> resize_cq(Interpreter&, Command&);
Result<void> poll_cq(Interpreter&, Command&);
Result<void> request_notify(Interpreter&, Command&);
Result<void> destroy_cq(Interpreter&, Attributes&);
Result<void> destroy_cq(Interpreter&, Command&);

// queue_pair.cpp
Result<void> create_qp(Interpreter&, Attributes&);
Result<void> create_qp(Interpreter&, Command&);
Result<void> create_qp_extended(Interpreter&, Command&);
Result<void> modify_qp(Interpreter&, Command&);
Result<void> modify_qp_extended(Interpreter&, Command&);
Result<void> query_qp(Interpreter&, Command&);
Result<void> destroy_qp(Interpreter&, Attributes&);
Result<void> destroy_qp(Interpreter&, Command&);
Result<void> post_send(Interpreter&, Command&);

// shared_receive.cpp
Result<void> create_srq(Interpreter&, Attributes&);
Result<void> create_srq(Interpreter&, Command&);
Result<void> create_srq_extended(Interpreter&, Command&);
Result<void> modify_srq(Interpreter&, Command&);
Result<void> query_srq(Interpreter&, Command&);
Result<void> destroy_srq(Interpreter&, Attributes&);
Result<void> destroy_srq(Interpreter&, Command&);

// address.cpp
Result<void> create_ah(Interpreter&, Command&);
Result<void> destroy_ah(Interpreter&, Attributes&);
Result<void> destroy_ah(Interpreter&, Command&);
Result<void> attach_multicast(Interpreter&, Command&);
Result<void> detach_multicast(Interpreter&, Command&);

// What softibd calls EINVAL at a destroy call is an unknown handle, which is ENOENT to the program.
template <typename T>
Result<T> as_lookup(Result<T> result) {
  if (!result && result.error() == static_cast<Errno>(EINVAL)) return fail(ENOENT);
  return result;
}

}  // namespace softib::kernel::methods

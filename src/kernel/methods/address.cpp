#include "kernel/methods/address.h"

#include "kernel/methods/handlers.h"

namespace softib::kernel::methods {

namespace {

// A provider that makes room for it learns the AH's number and names it in its work requests; older ones copy the
// whole address vector there.
Result<void> answer_create_ah(Command& command, u32 ah) {
  if (command.driver().expect_room<rxe_create_ah_resp>()) {
    if (auto told = command.driver().respond(rxe_create_ah_resp{ah, 0}); !told) return told;
  }
  return command.respond(ib_uverbs_create_ah_resp{ah});
}

}  // namespace

Result<void> create_ah(Interpreter& file, Command& command) {
  ib_uverbs_create_ah request{};
  if (auto read = command.read(request); !read) return read;
  if (!file.find_port(request.attr.port_num)) return fail(EINVAL);
  auto made = file.call<ipc::CreateAh>({request.pd_handle, 0, to_address(request.attr)});
  if (!made) return fail(made.error());
  auto done = answer_create_ah(command, made->ah);
  if (!done) file.undo<ipc::DestroyAh>({made->ah});
  return done;
}

namespace {

Result<void> end_ah(Interpreter& file, u32 ah) {
  auto ended = as_lookup(file.call<ipc::DestroyAh>({ah}));
  return ended ? Result<void>{} : fail(ended.error());
}

template <typename Call, typename Request>
Result<void> change_membership(Interpreter& file, Command& command) {
  Request request{};
  if (auto read = command.read(request); !read) return read;
  if (!file.find_qp(request.qp_handle)) return fail(EINVAL);
  typename Call::Request change{request.qp_handle, request.mlid, 0, {}};
  std::memcpy(change.gid.raw, request.gid, sizeof change.gid.raw);
  auto done = file.call<Call>(change);
  return done ? Result<void>{} : fail(done.error());
}

}  // namespace

Result<void> destroy_ah(Interpreter& file, Attributes& attributes) {
  return end_ah(file, attributes.handle(UVERBS_ATTR_DESTROY_AH_HANDLE));
}

Result<void> destroy_ah(Interpreter& file, Command& command) {
  ib_uverbs_destroy_ah request{};
  if (auto read = command.read(request); !read) return read;
  return end_ah(file, request.ah_handle);
}

Result<void> attach_multicast(Interpreter& file, Command& command) {
  return change_membership<ipc::AttachMulticast, ib_uverbs_attach_mcast>(file, command);
}

Result<void> detach_multicast(Interpreter& file, Command& command) {
  return change_membership<ipc::DetachMulticast, ib_uverbs_detach_mcast>(file, command);
}

}  // namespace softib::kernel::methods

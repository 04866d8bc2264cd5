// Shared receive queues.
#include "hca/rules/bits.h"
#include "kernel/methods/handlers.h"

namespace softib::kernel::methods {

using hca::SrqAttr;

namespace {

Result<ipc::CreateSrq::Reply> make_srq(Interpreter& file, const ipc::CreateSrq::Request& request,
                                       const DriverData& driver) {
  if (auto room = driver.expect_room<rxe_create_srq_resp>(); !room) return fail(room.error());
  auto made = file.call<ipc::CreateSrq>(request);
  if (!made) return made;
  rxe_create_srq_resp info{};
  info.mi = {made->ring, made->ring_size, 0};
  info.srq_num = made->srq;
  if (auto told = driver.respond(info); !told) {
    file.undo<ipc::DestroySrq>({made->srq});
    return fail(told.error());
  }
  file.rings().put(made->ring, made->ring_size);
  return made;
}

void undo_srq(Interpreter& file, const ipc::CreateSrq::Reply& made) {
  file.rings().drop(made.ring);
  file.undo<ipc::DestroySrq>({made.srq});
}

// Other than basic SRQs need an XRC domain or a CQ first; a device without them fails there.
Result<void> check_type(Interpreter& file, u64 type, u32 cq) {
  switch (type) {
    case IB_UVERBS_SRQT_BASIC:
      return {};
    case IB_UVERBS_SRQT_TM:
      return fail(file.find_cq(cq) ? EOPNOTSUPP : EINVAL);
    default:
      return fail(EINVAL);
  }
}

Result<ipc::CreateSrq::Request> read_srq_request(const Attributes& attributes) {
  auto max_wr = attributes.read<u32>(UVERBS_ATTR_CREATE_SRQ_MAX_WR);
  auto max_sge = attributes.read<u32>(UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
  auto limit = attributes.read<u32>(UVERBS_ATTR_CREATE_SRQ_LIMIT);
  auto user_handle = attributes.read<u64>(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE);
  if (!max_wr || !max_sge || !limit || !user_handle) return fail(EFAULT);
  u32 pd = attributes.handle(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE);
  return ipc::CreateSrq::Request{pd, *max_wr, *max_sge, *limit, *user_handle};
}

Result<void> answer_create(Interpreter& file, const ipc::CreateSrq::Request& wish, Command& command) {
  auto made = make_srq(file, wish, command.driver());
  if (!made) return fail(made.error());
  ib_uverbs_create_srq_resp response{};
  response.srq_handle = made->srq;
  response.max_wr = made->max_wr;
  response.max_sge = made->max_sge;
  auto done = command.respond(response);
  if (!done) undo_srq(file, *made);
  return done;
}

}  // namespace

Result<void> create_srq(Interpreter& file, Attributes& attributes) {
  auto wish = read_srq_request(attributes);
  if (!wish) return fail(wish.error());
  auto type = attributes.constant(UVERBS_ATTR_CREATE_SRQ_TYPE, 0xffff'ffffU);
  if (!type) return fail(type.error());
  if (auto good = check_type(file, *type, attributes.handle(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE)); !good) return good;
  auto made = make_srq(file, *wish, attributes.driver());
  if (!made) return fail(made.error());
  auto done = attributes.write(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, made->max_wr);
  if (done) done = attributes.write(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, made->max_sge);
  if (done) done = attributes.write_object(UVERBS_ATTR_CREATE_SRQ_HANDLE, made->srq);
  if (!done) undo_srq(file, *made);
  return done;
}

Result<void> create_srq(Interpreter& file, Command& command) {
  ib_uverbs_create_srq request{};
  if (auto read = command.read(request); !read) return read;
  ipc::CreateSrq::Request wish{request.pd_handle, request.max_wr, request.max_sge, request.srq_limit,
                               request.user_handle};
  return answer_create(file, wish, command);
}

Result<void> create_srq_extended(Interpreter& file, Command& command) {
  ib_uverbs_create_xsrq request{};
  if (auto read = command.read(request); !read) return read;
  if (auto good = check_type(file, request.srq_type, request.cq_handle); !good) return good;
  ipc::CreateSrq::Request wish{request.pd_handle, request.max_wr, request.max_sge, request.srq_limit,
                               request.user_handle};
  return answer_create(file, wish, command);
}

namespace {

// The provider learns of its new ring through an address in its part of the command; it is told before the entries
// move, since afterwards there is no way back.
Result<void> move_srq(Interpreter& file, u32 srq, const ipc::ModifySrq::Reply& fresh, u64 info_address) {
  auto mask = file.ring_mask(fresh.ring, fresh.ring_size);
  if (!mask) return fail(mask.error());
  mminfo info{fresh.ring, fresh.ring_size, 0};
  if (auto told = file.memory().copy_out(info_address, &info, sizeof info); !told) return told;
  return file.control().engine().move_srq_ring(srq, fresh.ring, *mask);
}

Result<void> replace_ring(Interpreter& file, u32 srq, u64 old_ring, const ipc::ModifySrq::Reply& fresh,
                          u64 info_address) {
  auto moved = move_srq(file, srq, fresh, info_address);
  if (moved) {
    file.rings().drop(old_ring);  // before its offset can be given out again
    file.rings().put(fresh.ring, fresh.ring_size);
  }
  file.undo<ipc::FreeRing>({moved ? old_ring : fresh.ring});
  return moved;
}

}  // namespace

Result<void> modify_srq(Interpreter& file, Command& command) {
  ib_uverbs_modify_srq request{};
  if (auto read = command.read(request); !read) return read;
  const ipc::Srq* srq = file.find_srq(request.srq_handle);
  if (!srq) return fail(EINVAL);
  auto extra = command.driver().request<rxe_modify_srq_cmd>();
  if (!extra) return fail(extra.error());
  auto mask = static_cast<SrqAttr>(request.attr_mask);
  u64 old_ring = srq->ring;
  auto changed = file.call<ipc::ModifySrq>({request.srq_handle, request.attr_mask, request.max_wr, request.srq_limit});
  if (!changed) return fail(changed.error());
  if (has(mask, SrqAttr::max_wr)) {
    auto done = replace_ring(file, request.srq_handle, old_ring, *changed, extra->mmap_info_addr);
    if (!done) return done;
  }
  if (has(mask, SrqAttr::limit)) file.control().engine().srq_limit_armed(request.srq_handle);
  return {};
}

Result<void> query_srq(Interpreter& file, Command& command) {
  ib_uverbs_query_srq request{};
  if (auto read = command.read(request); !read) return read;
  auto found = file.call<ipc::QuerySrq>({request.srq_handle});
  if (!found) return fail(found.error());
  return command.respond(ib_uverbs_query_srq_resp{found->max_wr, found->max_sge, found->limit, 0});
}

namespace {

Result<ib_uverbs_destroy_srq_resp> end_srq(Interpreter& file, u32 id) {
  const ipc::Srq* srq = file.find_srq(id);
  if (!srq) return fail(ENOENT);
  file.rings().drop(srq->ring);  // before the offset can be given out again
  auto ended = as_lookup(file.call<ipc::DestroySrq>({id}));
  if (!ended) return fail(ended.error());
  return ib_uverbs_destroy_srq_resp{ended->async_events_reported};
}

}  // namespace

Result<void> destroy_srq(Interpreter& file, Attributes& attributes) {
  auto ended = end_srq(file, attributes.handle(UVERBS_ATTR_DESTROY_SRQ_HANDLE));
  if (!ended) return fail(ended.error());
  return attributes.write(UVERBS_ATTR_DESTROY_SRQ_RESP, *ended);
}

Result<void> destroy_srq(Interpreter& file, Command& command) {
  ib_uverbs_destroy_srq request{};
  if (auto read = command.read(request); !read) return read;
  auto ended = end_srq(file, request.srq_handle);
  if (!ended) return fail(ended.error());
  return command.respond(*ended);
}

}  // namespace softib::kernel::methods

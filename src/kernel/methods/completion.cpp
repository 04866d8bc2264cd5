// Completion queues.
#include "hca/limits.h"
#include "kernel/methods/handlers.h"

namespace softib::kernel::methods {

namespace {

struct CqWish {
  u32 entries;
  u32 vector;
  u32 flags;
  u64 user_handle;
  int channel_fd;  // negative: none
};

mminfo ring_info(u64 ring, u32 size) { return {ring, size, 0}; }

// Timestamps are not in the provider's completion entries, and a ring that may overrun can't be shared with a reader
// that trusts its producer index.
Result<ipc::CreateCq::Request> plan_cq(Interpreter& file, const CqWish& wish) {
  ipc::CreateCq::Request request{};
  if (wish.vector >= hca::limits::max_comp_vectors) return fail(EINVAL);
  if (wish.flags) return fail(EOPNOTSUPP);
  request.entries = wish.entries;
  request.comp_vector = wish.vector;
  request.user_handle = wish.user_handle;
  if (wish.channel_fd < 0) return request;
  auto channel = file.fds().channel_of_fd(wish.channel_fd, file.context());
  if (!channel) return fail(channel.error());
  request.channel = channel->channel;
  return request;
}

Result<ipc::CreateCq::Reply> make_cq(Interpreter& file, const CqWish& wish, const DriverData& driver) {
  auto request = plan_cq(file, wish);
  if (!request) return fail(request.error());
  if (auto room = driver.expect_room<rxe_create_cq_resp>(); !room) return fail(room.error());
  auto made = file.call<ipc::CreateCq>(*request);
  if (!made) return made;
  if (auto told = driver.respond(rxe_create_cq_resp{ring_info(made->ring, made->ring_size)}); !told) {
    file.undo<ipc::DestroyCq>({made->cq});
    return fail(told.error());
  }
  file.rings().put(made->ring, made->ring_size);
  return made;
}

void undo_cq(Interpreter& file, const ipc::CreateCq::Reply& made) {
  file.rings().drop(made.ring);
  file.undo<ipc::DestroyCq>({made.cq});
}

Result<CqWish> read_wish(const Attributes& attributes) {
  auto entries = attributes.read<u32>(UVERBS_ATTR_CREATE_CQ_CQE);
  auto vector = attributes.read<u32>(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR);
  auto user_handle = attributes.read<u64>(UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
  if (!entries || !vector || !user_handle) return fail(EFAULT);
  auto flags = attributes.flags(UVERBS_ATTR_CREATE_CQ_FLAGS,
                                IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION | IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN);
  if (!flags) return fail(flags.error());
  if (attributes.has(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL) && attributes.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL) < 0)
    return fail(EBADF);
  return CqWish{*entries, *vector, static_cast<u32>(*flags), *user_handle,
                attributes.fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL)};
}

}  // namespace

Result<void> create_cq(Interpreter& file, Attributes& attributes) {
  auto wish = read_wish(attributes);
  if (!wish) return fail(wish.error());
  auto made = make_cq(file, *wish, attributes.driver());
  if (!made) return fail(made.error());
  auto done = attributes.write(UVERBS_ATTR_CREATE_CQ_RESP_CQE, made->entries);
  if (done) done = attributes.write_object(UVERBS_ATTR_CREATE_CQ_HANDLE, made->cq);
  if (!done) undo_cq(file, *made);
  return done;
}

Result<void> create_cq(Interpreter& file, Command& command) {
  ib_uverbs_create_cq request{};
  if (auto read = command.read(request); !read) return read;
  CqWish wish{request.cqe, request.comp_vector, 0, request.user_handle, request.comp_channel};
  auto made = make_cq(file, wish, command.driver());
  if (!made) return fail(made.error());
  ib_uverbs_create_cq_resp response{};
  response.cq_handle = made->cq;
  response.cqe = made->entries;
  auto done = command.respond(response);
  if (!done) undo_cq(file, *made);
  return done;
}

Result<void> create_cq_extended(Interpreter& file, Command& command) {
  ib_uverbs_ex_create_cq request{};
  if (auto read = command.read(request); !read) return read;
  if (request.comp_mask || request.reserved) return fail(EINVAL);
  CqWish wish{request.cqe, request.comp_vector, request.flags, request.user_handle, request.comp_channel};
  auto made = make_cq(file, wish, command.driver());
  if (!made) return fail(made.error());
  ib_uverbs_ex_create_cq_resp response{};
  response.base.cq_handle = made->cq;
  response.base.cqe = made->entries;
  response.response_length = command.response_length<ib_uverbs_ex_create_cq_resp>();
  auto done = command.respond(response);
  if (!done) undo_cq(file, *made);
  return done;
}

namespace {

// Tells the program of the new ring before the entries move: after the move there is no way back.
Result<void> move_cq(Interpreter& file, u32 cq, const ipc::ResizeCq::Reply& fresh, Command& command) {
  auto mask = file.ring_mask(fresh.ring, fresh.ring_size);
  if (!mask) return fail(mask.error());
  if (auto told = command.driver().respond(rxe_resize_cq_resp{ring_info(fresh.ring, fresh.ring_size)}); !told)
    return told;
  ib_uverbs_resize_cq_resp response{};
  response.cqe = fresh.entries;
  if (auto told = command.respond(response); !told) return told;
  return file.control().engine().move_cq_ring(cq, fresh.ring, *mask);
}

}  // namespace

Result<void> resize_cq(Interpreter& file, Command& command) {
  ib_uverbs_resize_cq request{};
  if (auto read = command.read(request); !read) return read;
  const ipc::Cq* cq = file.find_cq(request.cq_handle);
  if (!cq) return fail(EINVAL);
  if (auto room = command.driver().expect_room<rxe_resize_cq_resp>(); !room) return room;
  u64 old_ring = cq->ring;
  auto fresh = file.call<ipc::ResizeCq>({request.cq_handle, request.cqe});
  if (!fresh) return fail(fresh.error());
  auto moved = move_cq(file, request.cq_handle, *fresh, command);
  if (moved) {
    file.rings().drop(old_ring);  // before its offset can be given out again
    file.rings().put(fresh->ring, fresh->ring_size);
  }
  file.undo<ipc::FreeRing>({moved ? old_ring : fresh->ring});
  return moved;
}

namespace {

constexpr u32 log2_entry_size = 6;  // of an ib_uverbs_wc in the ring

// Takes entries out of a CQ's ring as the provider does. The ring's consumer index is the reader's to write.
class CqReader {
 public:
  explicit CqReader(rxe_queue_buf* ring, u32 mask) : ring_(ring), mask_(mask) {}

  [[nodiscard]] const ib_uverbs_wc* next() const {
    u32 producer = std::atomic_ref(ring_->producer_index).load(std::memory_order_acquire) & mask_;
    u32 consumer = ring_->consumer_index & mask_;
    if (producer == consumer) return nullptr;
    return reinterpret_cast<const ib_uverbs_wc*>(reinterpret_cast<const u8*>(ring_) + abi::ring_head_size +
                                                 (u64{consumer} << log2_entry_size));
  }

  void consume() {
    u32 after = (ring_->consumer_index + 1) & mask_;
    std::atomic_ref(ring_->consumer_index).store(after, std::memory_order_release);
  }

 private:
  rxe_queue_buf* ring_;
  u32 mask_;
};

Result<CqReader> open_reader(Interpreter& file, const ipc::Cq& cq) {
  u64 ring = cq.ring;
  u64 size = abi::ring_head_size + ((u64{cq.mask} + 1) << log2_entry_size);
  if (ring >= ipc::arena_size || size > ipc::arena_size - ring) return fail(EIO);
  auto* head = reinterpret_cast<rxe_queue_buf*>(file.control().segment().arena + ring);
  if (head->log2_elem_size != log2_entry_size) return fail(EIO);
  return CqReader(head, cq.mask);
}

Result<void> write_count(Command& command, u32 count) {
  u32 head[2] = {count, 0};
  static_assert(sizeof head == sizeof(ib_uverbs_poll_cq_resp));
  return command.memory().copy_out(command.out().address, head, sizeof head);
}

}  // namespace

// No rdma-core with the rxe provider polls this way (it reads the ring), but any program may.
Result<void> poll_cq(Interpreter& file, Command& command) {
  ib_uverbs_poll_cq request{};
  if (auto read = command.read(request); !read) return read;
  const ipc::Cq* cq = file.find_cq(request.cq_handle);
  if (!cq) return fail(EINVAL);
  auto reader = open_reader(file, *cq);
  if (!reader) return fail(reader.error());
  u64 at = command.out().address + sizeof(ib_uverbs_poll_cq_resp);
  u32 room = (command.out().size - sizeof(ib_uverbs_poll_cq_resp)) / sizeof(ib_uverbs_wc);
  u32 count = 0;
  for (; count < std::min(request.ne, room); ++count) {
    const ib_uverbs_wc* entry = reader->next();
    if (!entry) break;
    if (auto done = command.memory().copy_out(at, entry, sizeof *entry); !done) return done;
    reader->consume();
    at += sizeof *entry;
  }
  command.mark_responded();
  return write_count(command, count);
}

Result<void> request_notify(Interpreter& file, Command& command) {
  ib_uverbs_req_notify_cq request{};
  if (auto read = command.read(request); !read) return read;
  int error = file.control().engine().arm_cq(request.cq_handle, file.context(), request.solicited_only != 0);
  return error ? fail(error) : Result<void>{};
}

namespace {

Result<ib_uverbs_destroy_cq_resp> end_cq(Interpreter& file, u32 id) {
  const ipc::Cq* cq = file.find_cq(id);
  if (!cq) return fail(ENOENT);
  file.rings().drop(cq->ring);  // before the offset can be given out again
  auto ended = as_lookup(file.call<ipc::DestroyCq>({id}));
  if (!ended) return fail(ended.error());
  return ib_uverbs_destroy_cq_resp{ended->comp_events_reported, ended->async_events_reported};
}

}  // namespace

Result<void> destroy_cq(Interpreter& file, Attributes& attributes) {
  auto ended = end_cq(file, attributes.handle(UVERBS_ATTR_DESTROY_CQ_HANDLE));
  if (!ended) return fail(ended.error());
  return attributes.write(UVERBS_ATTR_DESTROY_CQ_RESP, *ended);
}

Result<void> destroy_cq(Interpreter& file, Command& command) {
  ib_uverbs_destroy_cq request{};
  if (auto read = command.read(request); !read) return read;
  auto ended = end_cq(file, request.cq_handle);
  if (!ended) return fail(ended.error());
  return command.respond(*ended);
}

}  // namespace softib::kernel::methods

#include "kernel/interpreter.h"

#include "kernel/methods/memory.h"

namespace softib::kernel {

using ipc::ObjectKind;

// A region's keys end with the context, which softibd ends when it sees the last copy of the command file go. What a
// peer may still write until then goes to pages that stay where they are; only those that the program has unmapped
// already are given back here.
Interpreter::~Interpreter() {
  auto regions = regions_.take_all();
  if (regions.empty()) return;
  control_.engine().wait_quiescent();
  for (const Region& region : regions) release_pages(control_.memory(), region);
}

const ipc::Cq* Interpreter::find_cq(u32 id) const {
  if (id == 0 || id >= ipc::max_cqs) return nullptr;
  const ipc::Cq& cq = segment().cqs[id];
  return cq.generation.load(std::memory_order_acquire) != 0 && cq.context == context_ ? &cq : nullptr;
}

const ipc::Srq* Interpreter::find_srq(u32 id) const {
  if (id == 0 || id >= ipc::max_srqs) return nullptr;
  const ipc::Srq& srq = segment().srqs[id];
  return srq.generation.load(std::memory_order_acquire) != 0 && srq.context == context_ ? &srq : nullptr;
}

const ipc::Qp* Interpreter::find_qp(u32 id) const {
  if (id == 0 || id >= ipc::max_qps) return nullptr;
  const ipc::Qp& qp = segment().qps[id];
  return qp.generation.load(std::memory_order_acquire) != 0 && qp.context == context_ ? &qp : nullptr;
}

const ipc::Ah* Interpreter::find_ah(u32 id) const {
  if (id == 0 || id >= ipc::max_ahs) return nullptr;
  const ipc::Ah& ah = segment().ahs[id];
  return ah.generation.load(std::memory_order_acquire) != 0 && ah.context == context_ ? &ah : nullptr;
}

// Looks at the record's kind, not at its key: an unbound or invalidated window has none.
const ipc::Key* Interpreter::find_region(u32 id) const {
  if (id == 0 || id >= ipc::max_keys) return nullptr;
  const ipc::Key& key = segment().keys[id];
  return key.kind == ipc::KeyKind::region && key.context == context_ ? &key : nullptr;
}

const ipc::Key* Interpreter::find_window(u32 id) const {
  if (id == 0 || id >= ipc::max_keys) return nullptr;
  const ipc::Key& key = segment().keys[id];
  bool window = key.kind == ipc::KeyKind::window1 || key.kind == ipc::KeyKind::window2;
  return window && key.context == context_ ? &key : nullptr;
}

bool Interpreter::exists(ObjectKind kind, u32 id) const {
  switch (kind) {
    case ObjectKind::cq:
      return find_cq(id) != nullptr;
    case ObjectKind::srq:
      return find_srq(id) != nullptr;
    case ObjectKind::qp:
      return find_qp(id) != nullptr;
    case ObjectKind::ah:
      return find_ah(id) != nullptr;
    case ObjectKind::mr:
      return find_region(id) != nullptr;
    case ObjectKind::mw:
      return find_window(id) != nullptr;
    default:
      return true;
  }
}

const ipc::Device& Interpreter::device() const { return segment().devices[device_ & (ipc::max_devices - 1)]; }

const ipc::Port* Interpreter::find_port(u64 number) const {
  const ipc::Device& own = device();
  if (number == 0 || number > own.port_count) return nullptr;
  u64 index = own.first_port + number - 1;
  return index < ipc::max_ports ? &segment().ports[index] : nullptr;
}

Result<u32> Interpreter::ring_mask(u64 ring, u32 size) const {
  if (size < abi::ring_head_size || ring >= ipc::arena_size || size > ipc::arena_size - ring) return fail(EIO);
  const auto* head = reinterpret_cast<const rxe_queue_buf*>(segment().arena + ring);
  u64 slots = u64{head->index_mask} + 1;
  if (!std::has_single_bit(slots) || head->log2_elem_size > 20) return fail(EIO);
  if ((slots << head->log2_elem_size) > size - abi::ring_head_size) return fail(EIO);
  return static_cast<u32>(slots - 1);
}

}  // namespace softib::kernel

// Protection domains, memory regions, memory windows.
#include "kernel/methods/memory.h"

#include "hca/rules/access.h"
#include "kernel/methods/handlers.h"

namespace softib::kernel::methods {

using Access = hca::AccessBits;
using hca::RemapFlag;

namespace {

constexpr u64 page_mask = ipc::page_size - 1;
constexpr Access writing = Access::local_write | Access::remote_write | Access::remote_atomic | Access::mw_bind;

// Addresses in a zero-based region count from its first byte.
u64 iova_of(Access access, u64 asked) { return has(access, Access::zero_based) ? 0 : asked; }

struct Pinned {
  Region region;
  hca::AddressRange shared;
};

// On-demand regions hold nothing: each access finds the pages as they are then.
Result<Pinned> pin(Interpreter& file, u64 address, u64 length, Access access) {
  Pinned result{{address, length, !has(access, Access::on_demand)}, {}};
  if (!result.region.pinned) return result;
  hca::ProcessMemory& memory = file.control().memory();
  if (auto charged = memory.charge(address, length); !charged) return fail(charged.error());
  auto shared = memory.share(address, length, any(access & writing));
  if (!shared) {
    memory.uncharge(address, length);
    return fail(shared.error());
  }
  result.shared = *shared;
  return result;
}

bool is_wholly_shared(const Pinned& pinned) {
  const Region& region = pinned.region;
  return pinned.shared.begin <= region.address && pinned.shared.end >= region.address + region.length;
}

void release(Interpreter& file, const Region& region) { release_pages(file.control().memory(), region); }

void remember(Interpreter& file, u32 id, const Region& region) {
  if (auto stale = file.regions().put(id, region)) release(file, *stale);
}

ipc::RegMr::Request describe(u32 pd, Access access, u64 iova, const Pinned& pinned) {
  ipc::RegMr::Request request{};
  request.pd = pd;
  request.access = static_cast<u32>(access);
  request.iova = iova;
  request.address = pinned.region.address;
  request.length = pinned.region.length;
  request.shared_begin = pinned.shared.begin;
  request.shared_end = pinned.shared.end;
  return request;
}

// The order matters. The entry goes first: once softibd has ended the region, another thread may get its id. And no
// peer may be inside the pages when they are given back.
Result<void> deregister(Interpreter& file, u32 id) {
  if (!file.find_region(id)) return fail(ENOENT);
  auto region = file.regions().take(id);
  if (auto done = as_lookup(file.call<ipc::DeregMr>({id})); !done) {
    if (region) remember(file, id, *region);
    return fail(done.error());
  }
  file.control().engine().wait_quiescent();
  if (region) release(file, *region);
  return {};
}

}  // namespace

Result<void> alloc_pd(Interpreter& file, Command& command) {
  ib_uverbs_alloc_pd request{};
  if (auto read = command.read(request); !read) return read;
  auto made = file.call<ipc::AllocPd>({});
  if (!made) return fail(made.error());
  auto done = command.respond(ib_uverbs_alloc_pd_resp{made->pd});
  if (!done) file.undo<ipc::DeallocPd>({made->pd});
  return done;
}

namespace {

Result<void> dealloc_pd(Interpreter& file, u32 pd) {
  auto done = as_lookup(file.call<ipc::DeallocPd>({pd}));
  return done ? Result<void>{} : fail(done.error());
}

}  // namespace

Result<void> dealloc_pd(Interpreter& file, Attributes& attributes) {
  return dealloc_pd(file, attributes.handle(UVERBS_ATTR_DESTROY_PD_HANDLE));
}

Result<void> dealloc_pd(Interpreter& file, Command& command) {
  ib_uverbs_dealloc_pd request{};
  if (auto read = command.read(request); !read) return read;
  return dealloc_pd(file, request.pd_handle);
}

Result<void> reg_mr(Interpreter& file, Command& command) {
  ib_uverbs_reg_mr request{};
  if (auto read = command.read(request); !read) return read;
  if ((request.start & page_mask) != (request.hca_va & page_mask)) return fail(EINVAL);
  auto access = static_cast<Access>(request.access_flags);
  if (auto good = hca::check_access(access); !good) return good;
  u64 iova = iova_of(access, request.hca_va);
  if (auto good = hca::check_range(access, request.start, request.length, iova); !good) return good;

  auto pinned = pin(file, request.start, request.length, access);
  if (!pinned) return fail(pinned.error());
  auto made = file.call<ipc::RegMr>(describe(request.pd_handle, access, iova, *pinned));
  if (!made) {
    release(file, pinned->region);
    return fail(made.error());
  }
  remember(file, made->mr, pinned->region);
  if (!is_wholly_shared(*pinned)) file.control().engine().serve_peers();
  auto done = command.respond(ib_uverbs_reg_mr_resp{made->mr, made->lkey, made->rkey});
  if (!done) (void)deregister(file, made->mr);
  return done;
}

namespace {

struct Rereg {
  u32 id;
  RemapFlag flags;
  ipc::RegMr::Request to;
  std::optional<Pinned> fresh;  // pages pinned for the region's new range or rights
};

Result<void> check_rereg(const ib_uverbs_rereg_mr& request) {
  auto flags = static_cast<RemapFlag>(request.flags);
  if (!any(flags)) return fail(EINVAL);
  if (any(flags & ~(RemapFlag::translation | RemapFlag::pd | RemapFlag::access))) return fail(EOPNOTSUPP);
  if (has(flags, RemapFlag::translation) && (request.start & page_mask) != (request.hca_va & page_mask))
    return fail(EINVAL);
  if (has(flags, RemapFlag::access)) return hca::check_access(static_cast<Access>(request.access_flags));
  return {};
}

// Rights that the pages as they are held now can't give: writing, or being held at all.
bool needs_other_pages(Access before, Access after) {
  bool gains_writing = any(after & writing) && !any(before & writing);
  return gains_writing || has(before, Access::on_demand) != has(after, Access::on_demand);
}

// What the region will be. Its pages are pinned anew when the range changes, or when the rights ask for it; a region
// that another process registered keeps its own then.
Result<Rereg> plan_rereg(Interpreter& file, const ib_uverbs_rereg_mr& request, const ipc::Key& key) {
  auto flags = static_cast<RemapFlag>(request.flags);
  bool moves = has(flags, RemapFlag::translation);
  auto access =
      has(flags, RemapFlag::access) ? static_cast<Access>(request.access_flags) : static_cast<Access>(key.access);
  u64 address = moves ? request.start : key.address;
  u64 length = moves ? request.length : key.length;
  u64 iova = iova_of(access, moves ? request.hca_va : key.iova);
  if (auto good = hca::check_range(access, address, length, iova); !good) return fail(good.error());

  Rereg plan{request.mr_handle, flags, {}, {}};
  bool local = file.regions().find(request.mr_handle).has_value();
  bool repin = moves || (local && needs_other_pages(static_cast<Access>(key.access), access));
  Pinned pinned{{address, length, false}, {key.shared_begin, key.shared_end}};
  if (repin) {
    auto fresh = pin(file, address, length, access);
    if (!fresh) return fail(fresh.error());
    pinned = *fresh;
    plan.fresh = *fresh;
  }
  plan.to = describe(request.pd_handle, access, iova, pinned);
  return plan;
}

Result<ipc::ReregMr::Reply> carry_out(Interpreter& file, const Rereg& plan) {
  auto changed = file.call<ipc::ReregMr>({plan.id, static_cast<u32>(plan.flags), plan.to});
  if (!changed) {
    if (plan.fresh) release(file, plan.fresh->region);
    return changed;
  }
  file.control().engine().wait_quiescent();
  if (plan.fresh) {
    remember(file, plan.id, plan.fresh->region);
    if (!is_wholly_shared(*plan.fresh)) file.control().engine().serve_peers();
  }
  return changed;
}

}  // namespace

Result<void> rereg_mr(Interpreter& file, Command& command) {
  ib_uverbs_rereg_mr request{};
  if (auto read = command.read(request); !read) return read;
  if (auto good = check_rereg(request); !good) return good;
  const ipc::Key* key = file.find_region(request.mr_handle);
  if (!key) return fail(ENOENT);
  auto plan = plan_rereg(file, request, *key);
  if (!plan) return fail(plan.error());
  auto changed = carry_out(file, *plan);
  if (!changed) return fail(changed.error());
  return command.respond(ib_uverbs_rereg_mr_resp{changed->lkey, changed->rkey});
}

Result<void> dereg_mr(Interpreter& file, Attributes& attributes) {
  return deregister(file, attributes.handle(UVERBS_ATTR_DESTROY_MR_HANDLE));
}

Result<void> dereg_mr(Interpreter& file, Command& command) {
  ib_uverbs_dereg_mr request{};
  if (auto read = command.read(request); !read) return read;
  return deregister(file, request.mr_handle);
}

Result<void> query_mr(Interpreter& file, Attributes& attributes) {
  const ipc::Key* key = file.find_region(attributes.handle(UVERBS_ATTR_QUERY_MR_HANDLE));
  if (!key) return fail(ENOENT);
  u32 value = key->key.load(std::memory_order_acquire);
  if (auto done = attributes.write(UVERBS_ATTR_QUERY_MR_RESP_LKEY, value); !done) return done;
  if (auto done = attributes.write(UVERBS_ATTR_QUERY_MR_RESP_RKEY, value); !done) return done;
  if (auto done = attributes.write(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, key->length); !done) return done;
  return attributes.write(UVERBS_ATTR_QUERY_MR_RESP_IOVA, key->iova);
}

namespace {

// The user addresses that an advice's entry means. EFAULT: no such key, out of its region's bounds, or it wants to
// write where the region does not allow it.
Result<u64> advised_address(Interpreter& file, u32 pd, const ib_uverbs_sge& entry, u64 advice) {
  const ipc::Key* key = file.find_region(entry.lkey >> 8);
  if (!key || key->key.load(std::memory_order_acquire) != entry.lkey || key->pd != pd) return fail(EFAULT);
  if (entry.addr < key->iova || entry.length > key->length) return fail(EFAULT);
  if (entry.addr - key->iova > key->length - entry.length) return fail(EFAULT);
  bool writes = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  if (writes && !has(static_cast<Access>(key->access), Access::local_write)) return fail(EFAULT);
  return key->address + (entry.addr - key->iova);
}

Result<void> advise_entry(Interpreter& file, u32 pd, const Input& list, u32 index, u64 advice) {
  ib_uverbs_sge entry;
  if (auto done = list.copy(file.memory(), &entry, index * sizeof entry, sizeof entry); !done) return done;
  auto address = advised_address(file, pd, entry, advice);
  if (!address) return fail(address.error());
  bool local = file.regions().find(entry.lkey >> 8).has_value();  // else its pages are another process's
  if (!local || advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return {};
  return file.memory().prefetch(*address, entry.length, advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE);
}

}  // namespace

Result<void> advise_mr(Interpreter& file, Attributes& attributes) {
  auto advice = attributes.constant(UVERBS_ATTR_ADVISE_MR_ADVICE, 0xffff'ffffU);
  if (!advice) return fail(advice.error());
  auto flags = attributes.flags(UVERBS_ATTR_ADVISE_MR_FLAGS, IB_UVERBS_ADVISE_MR_FLAG_FLUSH);
  if (!flags) return fail(flags.error());
  if (*advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return fail(EOPNOTSUPP);
  Input list = attributes.input(UVERBS_ATTR_ADVISE_MR_SGE_LIST);
  if (list.size() % sizeof(ib_uverbs_sge) != 0) return fail(EINVAL);
  u32 pd = attributes.handle(UVERBS_ATTR_ADVISE_MR_PD_HANDLE);
  for (u32 index = 0; index < list.size() / sizeof(ib_uverbs_sge); ++index) {
    if (auto done = advise_entry(file, pd, list, index, *advice); !done) return done;
  }
  return {};
}

Result<void> reg_dmabuf_mr(Interpreter&, Attributes&) { return fail(EOPNOTSUPP); }

Result<void> alloc_mw(Interpreter& file, Command& command) {
  ib_uverbs_alloc_mw request{};
  if (auto read = command.read(request); !read) return read;
  if (request.mw_type != 1 && request.mw_type != 2) return fail(EINVAL);
  auto made = file.call<ipc::AllocMw>({request.pd_handle, request.mw_type});
  if (!made) return fail(made.error());
  auto done = command.respond(ib_uverbs_alloc_mw_resp{made->mw, made->rkey});
  if (!done) file.undo<ipc::DeallocMw>({made->mw});
  return done;
}

namespace {

Result<void> dealloc_mw(Interpreter& file, u32 mw) {
  if (!file.find_window(mw)) return fail(ENOENT);
  if (auto done = as_lookup(file.call<ipc::DeallocMw>({mw})); !done) return fail(done.error());
  file.control().engine().wait_quiescent();  // no peer reaches memory through it any more
  return {};
}

}  // namespace

Result<void> dealloc_mw(Interpreter& file, Attributes& attributes) {
  return dealloc_mw(file, attributes.handle(UVERBS_ATTR_DESTROY_MW_HANDLE));
}

Result<void> dealloc_mw(Interpreter& file, Command& command) {
  ib_uverbs_dealloc_mw request{};
  if (auto read = command.read(request); !read) return read;
  return dealloc_mw(file, request.mw_handle);
}

}  // namespace softib::kernel::methods

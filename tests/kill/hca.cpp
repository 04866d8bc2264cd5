#include "hca.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace softib::kill {

void give_up(const char* what) {
  std::fprintf(stderr, "kill_traffic: %s: %s\n", what, std::strerror(errno));
  std::exit(4);
}

Hca::Hca(u32 workers) {
  int count = 0;
  ibv_device** devices = must(ibv_get_device_list(&count), "ibv_get_device_list");
  if (count < 1) give_up("no device");
  context = must(ibv_open_device(devices[0]), "ibv_open_device");
  ibv_free_device_list(devices);
  must(ibv_query_port(context, 1, &port), "ibv_query_port");
  must(ibv_query_gid(context, 1, 0, &gid), "ibv_query_gid");
  pd = must(ibv_alloc_pd(context), "ibv_alloc_pd");

  const u32 depth = workers * srq_depth_per_worker;
  ibv_srq_init_attr attributes{};
  attributes.attr.max_wr = depth;
  attributes.attr.max_sge = 1;
  srq = must(ibv_create_srq(pd, &attributes), "ibv_create_srq");
  srq_memory_ = make_region(size_t{depth} * max_message, false);
  for (u32 slot = 0; slot < depth; ++slot) post_srq(slot);
}

Hca::~Hca() {
  must(ibv_destroy_srq(srq), "ibv_destroy_srq");
  drop_region(srq_memory_);
  must(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
  must(ibv_close_device(context), "ibv_close_device");
}

Region Hca::make_region(size_t size, bool small) const {
  Region region;
  if (small) {
    region.allocation = must(std::calloc(1, size + 64), "calloc");
    region.data = static_cast<u8*>(region.allocation) + 24;
  } else {
    region.allocation = must(std::aligned_alloc(4096, (size + 4095) & ~size_t{4095}), "aligned_alloc");
    region.data = static_cast<u8*>(region.allocation);
    std::memset(region.data, 0, size);
  }
  // Atomics need eight-byte alignment.
  region.data += (8 - reinterpret_cast<uintptr_t>(region.data) % 8) % 8;
  const int access =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  region.mr = must(ibv_reg_mr(pd, region.data, size, access), "ibv_reg_mr");
  return region;
}

void Hca::drop_region(Region& region) {
  must(ibv_dereg_mr(region.mr), "ibv_dereg_mr");
  std::free(region.allocation);
  region = {};
}

void Hca::post_srq(u32 slot) const {
  ibv_sge sge{reinterpret_cast<u64>(srq_buffer(slot)), max_message, srq_memory_.mr->lkey};
  ibv_recv_wr request{};
  request.wr_id = receive_mark | slot;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  must(ibv_post_srq_recv(srq, &request, &bad), "ibv_post_srq_recv");
}

}  // namespace softib::kill

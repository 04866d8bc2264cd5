#include "daemon/segment_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

namespace softib::daemon {

namespace {

void fill_header(ipc::Header& header) {
  header.magic = ipc::segment_magic;
  header.version = ipc::interface_version;
  header.size_of_qp = sizeof(ipc::Qp);
  header.total_size = ipc::segment_size;
  header.daemon_pid = ::getpid();
  (void)!::getrandom(&header.boot_id, sizeof header.boot_id, 0);
  header.route_epoch.store(1);
  for (auto* limit : {&header.qp_limit, &header.cq_limit, &header.srq_limit, &header.process_limit}) limit->store(1);
}

}  // namespace

Result<std::unique_ptr<SegmentFile>> SegmentFile::create() {
  Fd fd(::memfd_create("softib-segment", MFD_CLOEXEC));
  if (!fd) return fail(errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(ipc::segment_size)) < 0) return fail(errno);
  void* mapped = ::mmap(nullptr, ipc::segment_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd.get(), 0);
  if (mapped == MAP_FAILED) return fail(errno);
  auto* segment = static_cast<ipc::Segment*>(mapped);
  fill_header(segment->header);
  return std::unique_ptr<SegmentFile>(new SegmentFile(std::move(fd), segment));
}

SegmentFile::~SegmentFile() { ::munmap(segment_, ipc::segment_size); }

void SegmentFile::punch_arena(u64 offset, u64 bytes) {
  // Fails only where holes are unknown, which a memfd is not; the pages would then just stay.
  (void)!::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offsetof(ipc::Segment, arena) + offset), static_cast<off_t>(bytes));
}

u64 SegmentFile::allocated_bytes() const {
  constexpr u64 block = 512;
  struct stat info {};
  return ::fstat(fd_.get(), &info) == 0 ? static_cast<u64>(info.st_blocks) * block : 0;
}

}  // namespace softib::daemon

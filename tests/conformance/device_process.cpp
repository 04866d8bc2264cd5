// What happens beside the test's own thread: atomics from many threads, fork, limits.
#include <grp.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "device.h"

namespace conformance {
namespace {

using Clock = std::chrono::steady_clock;

// One atomic on the target; gives the completion's status, or IBV_WC_GENERAL_ERR when nothing came in a minute.
u32 one_atomic(ibv_qp* qp, ibv_cq* cq, const Hammer& job, u64 compare_add, u64 swap) {
  ibv_sge sge{job.local, 8, job.lkey};
  ibv_send_wr wr{};
  wr.opcode = job.compare_swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.atomic = {job.remote, compare_add, swap, job.rkey};
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp, &wr, &bad) != 0) return IBV_WC_GENERAL_ERR;
  const auto end = Clock::now() + std::chrono::seconds(60);
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) == 0) {
    if (Clock::now() > end) return IBV_WC_GENERAL_ERR;
    std::this_thread::yield();
  }
  return wc.status;
}

HammerResult strike(ibv_qp* qp, ibv_cq* cq, const Hammer& job) {
  HammerResult result{};
  const volatile u64* fetched = reinterpret_cast<const volatile u64*>(job.local);
  u64 last = 0;
  u64 guess = 0;
  while (result.done < job.count) {
    result.status = one_atomic(qp, cq, job, job.compare_swap ? guess : 1, guess + 1);
    if (result.status != IBV_WC_SUCCESS) return result;
    const u64 value = *fetched;
    if (job.compare_swap && value != guess) {
      guess = value;
      ++result.retries;
      continue;
    }
    if (result.done != 0 && value <= last) ++result.disorder;
    last = value;
    guess = value + 1;
    ++result.done;
  }
  return result;
}

}  // namespace

int Device::hammer(std::vector<Hammer> jobs) {
  hammer_results_.assign(jobs.size(), {});
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Hammer job = jobs[i];
    ibv_qp* with = qps_.at(job.qp);
    ibv_cq* on = cqs_.at(job.cq);
    hammers_.emplace_back([this, i, job, with, on] { hammer_results_[i] = strike(with, on, job); });
  }
  return 0;
}

std::vector<HammerResult> Device::hammer_join() {
  for (auto& thread : hammers_) thread.join();
  hammers_.clear();
  return hammer_results_;
}

int Device::restrict_memlock(u64 bytes) {
  const rlimit limit{bytes, bytes};
  if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return errno;
  if (geteuid() != 0) return 0;
  constexpr uid_t nobody = 65534;  // who has no CAP_IPC_LOCK, which would lift the limit
  return setresuid(nobody, nobody, nobody) == 0 ? 0 : errno;
}

int Device::fork_initialized() { return ibv_is_fork_initialized(); }

namespace {

struct ForkRequest {
  u32 what;  // 0 peek, 1 poke, 2 exec
  u64 address;
  u64 length;
};

bool read_all(int fd, void* to, size_t length) {
  auto* at = static_cast<u8*>(to);
  while (length != 0) {
    const ssize_t got = read(fd, at, length);
    if (got <= 0) return false;
    at += got;
    length -= static_cast<size_t>(got);
  }
  return true;
}

// The forked child: only looks at and touches its memory; every verbs object is the parent's.
[[noreturn]] void serve_child(int requests, int replies) {
  ForkRequest request{};
  while (read_all(requests, &request, sizeof request)) {
    auto* at = reinterpret_cast<u8*>(request.address);
    if (request.what == 0) {
      if (write(replies, at, request.length) < 0) _exit(1);
    } else if (request.what == 1) {
      *at = static_cast<u8>(request.length);
      const u8 done = 1;
      if (write(replies, &done, 1) < 0) _exit(1);
    } else {
      dup2(replies, 1);
      execl("/bin/sh", "sh", "-c", "printf x", static_cast<char*>(nullptr));
      _exit(1);
    }
  }
  _exit(0);
}

}  // namespace

int Device::fork_start() {
  int down[2];
  int up[2];
  if (pipe(down) != 0 || pipe(up) != 0) return errno;
  fork_pid_ = fork();
  if (fork_pid_ < 0) return errno;
  if (fork_pid_ == 0) {
    close(down[1]);
    close(up[0]);
    serve_child(down[0], up[1]);
  }
  close(down[0]);
  close(up[1]);
  fork_request_ = down[1];
  fork_reply_ = up[0];
  return 0;
}

Bytes Device::fork_peek(u64 address, u64 length) {
  const ForkRequest request{0, address, length};
  Bytes bytes(length);
  if (write(fork_request_, &request, sizeof request) < 0 || !read_all(fork_reply_, bytes.data(), length)) return {};
  return bytes;
}

int Device::fork_poke(u64 address, u8 value) {
  const ForkRequest request{1, address, value};
  u8 done = 0;
  if (write(fork_request_, &request, sizeof request) < 0 || !read_all(fork_reply_, &done, 1)) return EPIPE;
  return 0;
}

int Device::fork_exec() {
  const ForkRequest request{2, 0, 0};
  u8 done = 0;
  if (write(fork_request_, &request, sizeof request) < 0 || !read_all(fork_reply_, &done, 1)) return EPIPE;
  return done == 'x' ? 0 : EIO;
}

int Device::fork_end() {
  close(fork_request_);
  close(fork_reply_);
  int status = 0;
  if (waitpid(fork_pid_, &status, 0) != fork_pid_) return errno;
  fork_pid_ = -1;
  return status;
}

}  // namespace conformance

// One end of a connection: a Device in this process, or one in an agent process that is called over a pipe.
//
//   End a = End::local(...);  End b = End::remote("softib run host1 -- verbs_conformance --agent");
//   b.post_recv(qp, {{1, {sge}}});   // runs Device::post_recv there
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "device.h"

// Every method that can be called on an End, in the order that gives its number on the pipe.
#define CONFORMANCE_METHODS(X)                                                                                         \
  X(info)                                                                                                              \
  X(reset)                                                                                                             \
  X(alloc_pd) X(dealloc_pd) X(alloc_memory) X(free_memory) X(write_bytes) X(read_bytes) X(fill) X(mismatch) X(set)     \
      X(differs) X(reg_mr) X(reg_mr_iova) X(dereg_mr) X(create_channel) X(destroy_channel) X(create_cq)                \
          X(create_cq_ex) X(resize_cq) X(destroy_cq) X(poll) X(poll_ex) X(arm) X(wait_cq_event) X(ack_cq_events)       \
              X(create_srq) X(modify_srq) X(query_srq) X(destroy_srq) X(create_qp) X(modify_qp) X(query_qp)            \
                  X(destroy_qp) X(create_ah) X(destroy_ah) X(post_send) X(post_builder) X(post_recv) X(post_srq)       \
                      X(wait_event) X(alloc_mw) X(dealloc_mw) X(set_mw_rkey) X(bind_mw) X(attach) X(detach)            \
                          X(join_group) X(hammer) X(hammer_join) X(restrict_memlock) X(fork_initialized) X(fork_start) \
                              X(fork_peek) X(fork_poke) X(fork_exec) X(fork_end)

namespace conformance {

enum class Method : u32 {
#define X(name) name,
  CONFORMANCE_METHODS(X)
#undef X
      count
};

// The caller's side of an agent process.
class AgentProcess {
 public:
  explicit AgentProcess(const std::string& command);
  ~AgentProcess();
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;

  std::vector<u8> exchange(const std::vector<u8>& request);
  void kill(i32 device_process);  // SIGKILL to the process that holds the device

 private:
  int fd_ = -1;
  int pid_ = -1;
};

class End;

template <auto M>
class Call;

// A callable member of End with exactly the signature of the Device method.
template <typename R, typename... A, R (Device::*M)(A...)>
class Call<M> {
 public:
  Call(const End* end, Method number) : end_(end), number_(number) {}
  R operator()(A... arguments) const;

 private:
  const End* end_;
  Method number_;
};

class End {
 public:
  static std::unique_ptr<End> local(const std::string& device, int port, int gid_index);
  static std::unique_ptr<End> remote(const std::string& command);
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  // The device itself, where it is in this process; nullptr otherwise.
  Device* device() const { return device_.get(); }
  AgentProcess* agent() const { return agent_.get(); }

#define X(name) Call<&Device::name> name{this, Method::name};
  CONFORMANCE_METHODS(X)
#undef X

 private:
  End() = default;
  std::unique_ptr<Device> device_;
  std::unique_ptr<AgentProcess> agent_;
};

template <typename R, typename... A, R (Device::*M)(A...)>
R Call<M>::operator()(A... arguments) const {
  if (Device* device = end_->device()) return (device->*M)(std::move(arguments)...);
  Writer writer;
  writer.put(number_);
  (writer.put(arguments), ...);
  const std::vector<u8> reply = end_->agent()->exchange(writer.bytes());
  return Reader(reply).get<R>();
}

// Serves a Device to the process at the other end of stdin and stdout. Returns when that closes them.
int run_agent(const std::string& device, int port, int gid_index);

}  // namespace conformance

// What the kernel's ib_mad and ib_umad do for programs: agents on the queue pairs 0 and 1 of ports, requests that wait
// for their responses, time-outs and retries, whole messages for agents with RMPP. No sockets and no clock inside.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "daemon/mad/registration.h"
#include "ipc/umad.h"
#include "wire/packet.h"
#include "wire/rmpp_exchange.h"

namespace softib::daemon {

inline constexpr u32 agents_per_file = 32;  // IB_UMAD_MAX_AGENTS

class MadLayer {
 public:
  // Ports are named by their index in the segment.
  class Outside {
   public:
    virtual ~Outside() = default;
    virtual void send(u32 port, const wire::Packet& packet) = 0;
    // To the program that holds the file; what it doesn't take is lost.
    virtual void deliver(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad) = 0;
    [[nodiscard]] virtual u16 lid(u32 port) const = 0;
    [[nodiscard]] virtual u16 pkey(u32 port, u16 index) const = 0;
    [[nodiscard]] virtual u16 pkey_index(u32 port, u16 pkey) const = 0;
    [[nodiscard]] virtual wire::GidBytes gid(u32 port, u8 index) const = 0;
  };

  explicit MadLayer(Outside& outside);
  ~MadLayer();

  [[nodiscard]] u32 open(u32 port);
  void close(u32 file);
  [[nodiscard]] bool is_open(u32 file) const { return files_.contains(file); }
  [[nodiscard]] std::vector<u32> files_of(u32 port) const;

  // The agent's number within the file. EINVAL: no such file, or what check() refuses, or methods that another agent of
  // the port has; ENOMEM: the file has agents_per_file.
  Result<u32> add_agent(u32 file, const Registration& wanted);
  Result<void> remove_agent(u32 file, u32 agent);

  // A MAD that the program wrote. EINVAL: no such agent, too short, or a second request with the same transaction id.
  Result<void> write(u32 file, const ipc::UmadFrame& frame, std::span<const u8> mad, u64 now);

  // A packet that arrived at a port. False: no agent here wants it.
  bool received(u32 port, const wire::Packet& packet, u64 now);

  // Repeats requests and reports those that got no answer. Gives when to call again, ~0: not before something happens.
  u64 on_time(u64 now);

 private:
  struct Agent {
    u32 file;
    u32 number;  // within the file
    u32 port;
    Registration registration;
  };
  struct File {
    u32 port;
    std::array<u32, agents_per_file> agents{};  // ids; 0: free
  };
  // A request that waits for its response.
  struct Request {
    u32 agent;
    wire::Packet packet;
    u64 timeout_ns;
    u32 retries_left;
    u64 deadline;
  };

  [[nodiscard]] Agent* find(u32 file, u32 agent);
  [[nodiscard]] Agent* agent_for(u32 port, const wire::Packet& packet);
  [[nodiscard]] wire::Packet make_packet(const Agent& agent, const ipc::UmadFrame& frame,
                                         std::span<const u8> mad) const;
  [[nodiscard]] ipc::UmadFrame describe(const Agent& agent, const wire::Packet& packet, u32 length) const;
  void await(u32 agent, const wire::Packet& packet, const ipc::UmadFrame& frame, u64 now);
  void await_longer(u64 transaction, u64 now);
  void forget(u64 transaction);
  void drop_agent(u32 id);
  void report_timeout(const Request& request);
  void refuse(u32 port, const wire::Packet& packet);
  [[nodiscard]] wire::Packet way_back(u32 port, const wire::Packet& packet) const;
  class Transfers;
  [[nodiscard]] Transfers& transfers(u32 port);
  bool received_segment(u32 port, const wire::Packet& packet, u64 now);
  void received_message(u32 port, const wire::Packet& last, const wire::rmpp::Message& message);

  Outside& outside_;
  std::map<u32, File> files_;
  std::map<u32, Agent> agents_;                          // by id, which is the high half of its transaction ids
  std::map<u32, std::unique_ptr<Transfers>> transfers_;  // by port
  std::map<u64, Request> requests_;                      // by transaction id
  std::set<std::pair<u64, u64>> deadlines_;              // and transaction id
  u32 last_file_ = 0;
  u32 last_agent_ = 0;
};

}  // namespace softib::daemon

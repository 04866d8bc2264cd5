// Communication management of one host (IBTA vol. 1, chapter 12): connections by their states, listeners by service id,
// repeated messages, time-outs and the wait before a connection's numbers are used again. No sockets, no threads and no
// clock inside: MADs and time go in, MADs and events come out.
#pragma once

#include <map>
#include <set>
#include <unordered_map>

#include "cm/types.h"

namespace softib::cm {

class Manager {
 public:
  class Outside {
   public:
    virtual ~Outside() = default;
    virtual void send(u32 port, const wire::Packet& packet) = 0;
    // May call the manager. A request that its receiver doesn't want is refused by destroying its id.
    virtual void happened(const Event& event) = 0;
    [[nodiscard]] virtual u64 ca_guid(u32 port) const = 0;
  };

  // Ids count up from `first_id`.
  explicit Manager(Outside& outside, u32 first_id = 1) : outside_(outside), last_id_(first_id - 1) {}

  [[nodiscard]] u32 create();
  // Leaves the connection as its state asks for: a REJ, DREQ or DREP goes out, and nobody waits for the answer.
  void destroy(u32 id, u64 now);

  // Forgets a request as if it had not come, which its repetition will.
  void ignore(u32 id);

  // -- all give EINVAL where the id's state doesn't allow it
  // EBUSY: the service id is taken. Bits that are 0 in `mask` are not compared.
  Result<void> listen(u32 id, u64 service_id, u64 mask);
  Result<void> connect(u32 id, const ConnectParameters& parameters, u64 now);
  Result<void> accept(u32 id, const AcceptParameters& parameters, u64 now);  // REP
  Result<void> confirm(u32 id, u64 now);                                     // RTU
  Result<void> reject(u32 id, RejectReason reason, std::span<const u8> private_data, u64 now);
  Result<void> disconnect(u32 id, u64 now);  // DREQ
  Result<void> part(u32 id, u64 now);        // DREP
  // From now on a request or reply that comes again is answered with an MRA: its receiver needs time.
  Result<void> ask_for_time(u32 id, u8 service_timeout);
  // The queue pair got a message before the RTU came.
  Result<void> establish(u32 id, u64 now);
  Result<void> load_path(u32 id, const Path& alternate, u64 now);  // LAP
  Result<void> answer_path(u32 id, AprStatus status);              // APR
  Result<void> ask_service(u32 id, const ServiceQuestion& question, u64 now);
  Result<void> answer_service(u32 id, const ServiceAnswer& answer);

  // A MAD of class communication that came to a port. `ethernet`: paths back lead by GIDs.
  void received(u32 port, const wire::Packet& packet, bool ethernet, u64 now);
  // Gives when to call again, ~0: not before something happens.
  u64 on_time(u64 now);

  [[nodiscard]] State state(u32 id) const;
  [[nodiscard]] std::optional<QueuePairView> queue_pair(u32 id) const;
  [[nodiscard]] size_t connections() const { return connections_.size(); }
  [[nodiscard]] size_t waiting() const { return past_.size(); }  // in TIMEWAIT

 private:
  static constexpr u64 never = ~0ULL;

  // Names of the other end: what tells a repeated request from a new one, and a stale connection.
  using RemoteId = std::pair<u64, u32>;  // CA GUID, communication id
  using RemoteQp = std::pair<u64, u32>;  // CA GUID, QPN

  struct Connection {
    u32 id = 0;
    State state = State::idle;
    u32 port = 0;
    Path path;
    std::optional<Path> alternate;
    u32 remote_id = 0;
    u64 remote_guid = 0;
    u32 local_qpn = 0;
    u32 remote_qpn = 0;
    u64 service_id = 0;
    u64 mask = 0;
    u64 transaction = 0;
    Transport transport = Transport::rc;
    u32 send_psn = 0;
    u32 receive_psn = 0;
    u8 path_ack_timeout = 0;  // as the REQ has it
    u8 ack_timeout = 0;       // of the queue pair
    u8 responder_resources = 0;
    u8 initiator_depth = 0;
    u8 retry_count = 0;
    u8 rnr_retry_count = 0;
    u8 max_retries = 0;
    u8 delay = 0;  // service timeout of the MRA that answers repeated messages; 0: none is to be sent
    bool lap_sent = false;
    bool lap_received = false;
    u64 response_timeout = 0;          // ns, for a message to be answered
    std::optional<wire::Packet> last;  // sent last: answers repeated messages, and is repeated
    u64 deadline = never;
    u64 interval = 0;
    u32 retries_left = 0;
    std::optional<RemoteId> known_as;
    std::optional<RemoteQp> holds_qp;
    wire::Packet asked;  // a SIDR_REQ, for its answer
  };

  // A connection that is over, until no message of it can be under way.
  struct Past {
    u32 id;
    std::optional<RemoteId> known_as;
    std::optional<RemoteQp> holds_qp;
  };

  // -- out (send.cpp)
  [[nodiscard]] wire::Packet packet_to(const Connection& connection, const wire::Mad& mad) const;
  template <typename Message>
  void send(Connection& connection, const Message& message);
  template <typename Message>
  void send_repeatedly(Connection& connection, const Message& message, u64 interval, u64 now);
  template <typename Message>
  void answer(const wire::Packet& to, u32 port, const Message& message);
  void send_reject(Connection& connection, RejectReason reason, std::span<const u8> private_data);
  void refuse(u32 port, const wire::Packet& packet, wire::cm::About about, RejectReason reason, u32 local_id,
              u32 remote_id);
  void send_drep(const Connection& connection);

  // -- in (receive.cpp)
  void got(u32 port, const wire::Packet& packet, const wire::cm::Req& req, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Rep& rep, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Mra& mra, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Rej& rej, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Rtu& rtu, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Dreq& dreq, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Drep& drep, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Lap& lap, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::Apr& apr, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::SidrReq& req, bool ethernet, u64 now);
  void got(u32 port, const wire::Packet& packet, const wire::cm::SidrRep& rep, bool ethernet, u64 now);
  bool is_repeated(u32 port, const wire::Packet& packet, const wire::cm::Req& req);
  bool is_stale(u32 port, const wire::Packet& packet, const wire::cm::Req& req, u64 now);
  void repeated_rep(u32 port, const wire::Packet& packet, const wire::cm::Rep& rep);
  void take_request(Connection& connection, const wire::cm::Req& req, bool ethernet);
  [[nodiscard]] Connection* rejected(const wire::cm::Rej& rej);

  [[nodiscard]] Connection* find(u32 id);
  [[nodiscard]] Connection* find(u32 id, u32 remote_id);
  [[nodiscard]] Connection* listener_of(u64 service_id);
  Connection& add();
  void remember(Connection& connection, std::optional<RemoteId> id, std::optional<RemoteQp> qp);
  void forget(Connection& connection);
  void stop_timer(Connection& connection);
  void start_timer(Connection& connection, u64 at);
  void enter_timewait(Connection& connection, u64 now);
  void reset(Connection& connection);
  void timed_out(Connection& connection, u64 now);
  void end_timewait(u64 now);
  void tell(const Connection& connection, Happening what);

  Outside& outside_;
  u32 last_id_;
  std::unordered_map<u32, Connection> connections_;
  std::map<std::pair<u64, u64>, u32> listeners_;  // by mask and service id
  std::map<RemoteId, u32> by_remote_id_;          // of requests that were received
  std::map<RemoteQp, u32> by_remote_qp_;
  std::set<std::pair<u64, u32>> deadlines_;
  std::multimap<u64, Past> past_;  // by when it is over
};

}  // namespace softib::cm

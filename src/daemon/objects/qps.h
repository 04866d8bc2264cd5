// Queue pairs.
#pragma once

#include <unordered_map>

#include "daemon/objects/ahs.h"
#include "daemon/objects/cqs.h"
#include "daemon/objects/groups.h"
#include "daemon/objects/keys.h"
#include "daemon/objects/srqs.h"
#include "hca/rules/qp_attributes.h"

namespace softib::daemon {

// The path that a QP migrates to. It is kept and told, and taken when the program asks for it; nothing migrates by
// itself, as paths do not fail yet.
struct AlternatePath {
  ipc::AddressVector av{};
  u16 pkey_index = 0;
  u8 port_num = 0;  // 0 = none
  u8 timeout = 0;
};

struct QpObject {
  u32 context;
  u32 creator;
  u32 device;
  u32 pd;
  u32 send_cq;
  u32 recv_cq;
  u32 srq;
  RingBlock send_ring;
  RingBlock recv_ring;
  ipc::QpCaps granted{};
  u8 port_num = 0;  // 0 before INIT
  u32 port = 0;     // its index
  bool notify_drained = false;
  hca::PathMigration migration = hca::PathMigration::migrated;
  AlternatePath alternate{};
};

class Qps {
 public:
  // Everything that a QP hangs on.
  struct Parts {
    World& world;
    Pds& pds;
    Keys& keys;
    Cqs& cqs;
    Srqs& srqs;
    Groups& groups;
    Resolver& resolver;
  };
  explicit Qps(Parts parts);

  struct Place {
    u32 context;
    u32 creator;
    u32 device;
  };
  // The PD, CQs and SRQ named in the request exist and belong to the context.
  Result<ipc::CreateQp::Reply> create(Place place, const ipc::CreateQp::Request& request);
  // Looks up again where its address vector leads; the port, or ENOENT.
  Result<u32> find_route(u32 qpn);

  Result<ipc::QpState> modify(u32 qpn, const ipc::QpAttributes& attributes);
  [[nodiscard]] ipc::QueryQp::Reply query(u32 qpn) const;
  // EBUSY while it is a member of a multicast group.
  Result<ipc::DestroyQp::Reply> destroy(ContextObject& context, u32 qpn);
  void drop(ContextObject& context, u32 qpn);
  // Nobody reaches it, and it reaches nobody, until it is dropped: its device has gone.
  void silence(u32 qpn);

  Result<void> attach(u32 qpn, const ipc::Gid& gid, u16 mlid);
  Result<void> detach(u32 qpn, const ipc::Gid& gid, u16 mlid);

  // QPs of a process that died: nobody answers for them any more.
  void abandon_all_of(u32 slot);

  [[nodiscard]] QpObject* find(u32 qpn);
  [[nodiscard]] const std::unordered_map<u32, QpObject>& all() const { return qps_; }

 private:
  struct Change;

  Result<void> check_change(const Change& change) const;
  void apply(const Change& change);
  void apply_configuration(const Change& change);
  void apply_path(const Change& change);
  void apply_alternate(const Change& change);
  void set_port(ipc::Qp& qp, QpObject& object, u8 port_num);
  void migrate(ipc::Qp& qp, QpObject& object);
  void clear(ipc::Qp& qp, QpObject& object);
  [[nodiscard]] hca::QpPlace place_of(const QpObject& object) const;
  [[nodiscard]] ipc::LinkLayer link_layer_of(const QpObject& object) const;
  Result<u32> claim_index(const hca::QpLayout& plan, RingBlock& send, RingBlock& recv);
  void publish(u32 qpn, const QpObject& object, const hca::QpLayout& plan, const ipc::CreateQp::Request& request);

  Parts parts_;
  ipc::Segment& segment_;
  IndexPool indices_;
  std::unordered_map<u32, QpObject> qps_;
};

}  // namespace softib::daemon

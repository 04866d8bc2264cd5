// Subnet administration as a whole: takes requests apart, asks the part that knows, sends the answer.
#pragma once

#include "sm/sa/groups.h"
#include "sm/sa/query.h"
#include "sm/sa/services.h"
#include "sm/sa/subscriptions.h"
#include "wire/rmpp_exchange.h"

namespace softib::sm::sa {

class Administrator final : public Administration, private wire::rmpp::Exchange::Owner {
 public:
  Administrator(const View& view, Replant replant);

  void received(const wire::Packet& packet, u64 now) override;
  u64 on_time(u64 now) override;
  void subnet_changed(const std::vector<u64>& came, const std::vector<u64>& left, u64 now) override;
  void event(std::span<const u8> notice, u64 now) override;
  [[nodiscard]] std::vector<Group> groups() const override { return groups_.list(); }
  [[nodiscard]] u32 highest_mlids() const override { return groups_.highest_mlids(); }

 private:
  // -- the exchange's owner
  void transmit(const wire::rmpp::Peer& peer, const wire::Mad& mad) override;
  void arrived(const wire::rmpp::Peer& peer, wire::rmpp::Message message) override;
  void sent(const wire::rmpp::Peer&, wire::rmpp::Outcome, wire::rmpp::Status) override {}
  void forgotten(const wire::rmpp::Peer& peer) override { partners_.erase(peer); }

  void take(const wire::Packet& packet, std::vector<u8> data);
  void dispatch(const Query& query);
  void ask(const Query& query);
  void change(const Query& query);
  void change_group(const Query& query);
  void class_port_info(const Query& query);
  [[nodiscard]] SaStatus collect(const Query& query, Answer& answer);
  struct Fetch;
  void fetch(const Query& query, const Layout& layout);
  void fetched(const Fetch& work, const Layout& layout);

  void respond(const Query& query, Answer answer);
  void respond_one(const Query& query, std::span<const u8> record, u32 size);
  void refuse(const Query& query, u16 status);
  void refuse(const Query& query, SaStatus status) { refuse(query, static_cast<u16>(status)); }
  [[nodiscard]] wire::Mad head(const Query& query, u16 status, u32 record_size) const;
  void send(const Query& query, const wire::Mad& mad);
  void changed(const Groups::Change& change);
  void announce(wire::TrapNumber number, const GidBytes& gid);

  View view_;
  Replant replant_;
  Groups groups_;
  Services services_;
  Subscriptions subscriptions_;
  wire::rmpp::Exchange exchange_;
  std::map<wire::rmpp::Peer, wire::Packet> partners_;  // how the answers of long transfers go
  u64 now_ = 0;
};

}  // namespace softib::sm::sa

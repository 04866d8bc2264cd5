// Multicast groups: who has joined, and by which rules groups come and go (IBTA vol. 1, 15.2.5.17).
#pragma once

#include <map>
#include <set>

#include "sm/sa/query.h"

namespace softib::sm::sa {

inline constexpr u8 full_join = 1, non_member_join = 2, send_only_join = 4, send_only_full_join = 8;

class Groups {
 public:
  struct Member {
    u8 join_state = 0;
    bool proxy = false;
    End asked_by;   // of a proxy join: who may take it back
    u64 asker = 0;  // its port GUID
  };
  struct Group {
    GidBytes mgid{};
    u16 mlid = 0;
    u32 qkey = 0;
    u16 pkey = 0;
    u8 mtu = 4, rate = 3, life = 0x12, sl = 0, traffic_class = 0, hop_limit = 0;
    u32 flow_label = 0;
    bool planned = false;           // there without members
    std::map<u64, Member> members;  // by port GUID
  };
  // What a join or leave did, beside its answer.
  struct Change {
    u16 mlid = 0;  // 0: no tree changed
    bool created = false;
    bool removed = false;
    GidBytes mgid{};
  };
  struct Outcome {
    SaStatus status = SaStatus::ok;
    Record<56> record;
    Change change;
  };

  explicit Groups(const View& view) : view_(view) {}

  void plan(const std::vector<fabric::PlannedGroup>& groups);
  [[nodiscard]] Outcome join(const Query& query);
  [[nodiscard]] Outcome leave(const Query& query);
  void add_records(const Query& query, Answer& answer) const;
  // A PathRecord question with a multicast GID as its destination; false if there is no such group.
  [[nodiscard]] bool add_path(const Query& query, Answer& answer) const;
  // Ports that are no longer there leave their groups.
  [[nodiscard]] std::vector<Change> forget(const std::vector<u64>& ports);

  [[nodiscard]] std::vector<Administration::Group> list() const;
  [[nodiscard]] u32 highest_mlids() const;

 private:
  using Members = std::map<u64, Member>;
  [[nodiscard]] SaStatus check_port(const Query& query, End& port) const;
  [[nodiscard]] SaStatus create(const Query& query, End port, Group& group) const;
  [[nodiscard]] SaStatus fits(const Query& query, End port, const Group& group) const;
  [[nodiscard]] bool choose_mtu(const Query& query, Group& group) const;
  [[nodiscard]] bool choose_rate(const Query& query, Group& group) const;
  [[nodiscard]] GidBytes invent_mgid(const Query& query) const;
  [[nodiscard]] u16 free_mlid() const;
  [[nodiscard]] Record<56> record(const Group& group) const;
  [[nodiscard]] Record<56> record(const Group& group, u64 port, const Member& member) const;
  Change drop_if_empty(std::map<GidBytes, Group>::iterator at);

  const View& view_;
  std::map<GidBytes, Group> groups_;
};

}  // namespace softib::sm::sa

#include "fabric/partitions.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "fabric/yaml_reader.h"

namespace softib::fabric {

namespace {

constexpr u32 ipoib_qkey = 0x0b1b;

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::optional<Membership> membership(std::string_view text) {
  // Beginnings of the words do: configurations in the field have "limi".
  if (text.empty()) return std::nullopt;
  if (std::string_view("full").starts_with(text)) return Membership::full;
  if (std::string_view("limited").starts_with(text)) return Membership::limited;
  if (std::string_view("both").starts_with(text)) return Membership::both;
  return std::nullopt;
}

// "a = b" as its two halves; the second empty where there is no '='.
struct Pair {
  std::string_view name;
  std::string_view value;
};

Pair split(std::string_view text) {
  const auto at = text.find('=');
  if (at == text.npos) return {trim(text), {}};
  return {trim(text.substr(0, at)), trim(text.substr(at + 1))};
}

class PartitionsParser {
 public:
  PartitionsParser(std::string_view text, std::string_view source, u32 line)
      : text_(text), source_(source), line_(line) {}

  Partitions parse() {
    for (skip_blank(); at_ < text_.size(); skip_blank()) statement();
    return std::move(result_);
  }

 private:
  void error(u32 line, std::string_view what) {
    result_.errors.push_back(fmt::format("{}:{}: {}", source_, line, what));
  }

  // White space and comments.
  void skip_blank() {
    while (at_ < text_.size() && (std::isspace(static_cast<unsigned char>(text_[at_])) || text_[at_] == '#')) {
      if (text_[at_] == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else {
        line_ += text_[at_++] == '\n';
      }
    }
  }

  // Text up to one of `ends`, a comment or the end; what ended it is not taken.
  std::string_view until(std::string_view ends) {
    const std::size_t from = at_;
    while (at_ < text_.size() && text_[at_] != '#' && ends.find(text_[at_]) == ends.npos) line_ += text_[at_++] == '\n';
    return trim(text_.substr(from, at_ - from));
  }

  [[nodiscard]] char here() const { return at_ < text_.size() ? text_[at_] : ';'; }

  void skip_statement() {
    while (at_ < text_.size() && text_[at_] != ';') {
      until(";");
      skip_blank();
    }
    if (at_ < text_.size()) ++at_;
  }

  void statement() {
    const u32 line = line_;
    const std::string_view head = until(":;");
    if (here() != ':' || at_ >= text_.size()) {
      error(line, fmt::format("no ':' after '{}'", head.substr(0, 40)));
      return skip_statement();
    }
    ++at_;
    last_line_ = line_;
    if (!define(head, line)) return skip_statement();
    for (skip_blank(); at_ < text_.size() && text_[at_] != ';'; skip_blank()) property();
    if (at_ < text_.size()) {
      ++at_;
    } else {
      error(line, "no ';' at the end");
    }
  }

  bool define(std::string_view head, u32 line) {
    flags_ = {};
    membership_ = Membership::limited;
    index0_ = false;
    bool ipoib = false;
    std::size_t comma = head.find(',');
    Pair pair = split(head.substr(0, comma));
    while (comma != head.npos) {
      const std::size_t from = comma + 1;
      comma = head.find(',', from);
      const Pair flag = split(head.substr(from, comma == head.npos ? comma : comma - from));
      if (flag.name == "ipoib") {
        ipoib = true;
      } else {
        partition_flag(flag, line);
      }
    }
    if (pair.value.empty() && !pair.name.empty() && std::isdigit(static_cast<unsigned char>(pair.name[0])))
      pair = {{}, pair.name};
    if (!choose_key(pair, line)) return false;
    if (ipoib) add_group({ipoib_broadcast(full_member | key_), static_cast<u16>(full_member | key_), flags_});
    return true;
  }

  void partition_flag(const Pair& flag, u32 line) {
    if (group_flag(flags_, flag, line)) return;
    if (flag.name == "indx0") {
      index0_ = true;
    } else if (flag.name == "defmember") {
      const auto wanted = membership(flag.value);
      if (!wanted) return error(line, fmt::format("defmember is full, limited or both, not '{}'", flag.value));
      membership_ = *wanted;
    } else {
      error(line, fmt::format("unknown flag '{}'", flag.name));
    }
  }

  // True if it was one, good or not.
  bool group_flag(GroupFlags& flags, const Pair& flag, u32 line) {
    struct Row {
      std::string_view name;
      u64 least, most;
    };
    static constexpr Row rows[] = {{"rate", 2, 63},          {"mtu", 1, 5},     {"sl", 0, 15},
                                   {"scope", 1, 15},         {"Q_Key", 0, ~0U}, {"TClass", 0, 255},
                                   {"FlowLabel", 0, 0xfffff}};
    const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.name == flag.name; });
    if (row == std::end(rows)) return false;
    const auto value = parse_number(flag.value);
    if (!value || *value < row->least || *value > row->most) {
      error(line, fmt::format("{} is a number from {} to {}, not '{}'", flag.name, row->least, row->most, flag.value));
      return true;
    }
    switch (row - rows) {
      case 0:
        flags.rate = static_cast<u8>(*value);
        break;
      case 1:
        flags.mtu = static_cast<u8>(*value);
        break;
      case 2:
        flags.sl = static_cast<u8>(*value);
        break;
      case 3:
        flags.scopes = static_cast<u16>(flags.scopes | 1U << *value);
        break;
      case 4:
        flags.qkey = static_cast<u32>(*value);
        break;
      case 5:
        flags.traffic_class = static_cast<u8>(*value);
        break;
      default:
        flags.flow_label = static_cast<u32>(*value);
        break;
    }
    return true;
  }

  // The same key again adds to the partition that is there.
  bool choose_key(const Pair& pair, u32 line) {
    std::optional<u64> key = 0;
    if (!pair.value.empty()) key = parse_number(pair.value);
    if (!key || *key > 0xffff || (!pair.value.empty() && (*key & default_key) == 0)) {
      error(line, fmt::format("bad P_Key '{}'", pair.value));
      return false;
    }
    key_ = static_cast<u16>(*key & default_key);
    if (key_ == 0) key_ = pair.name == "Default" ? default_key : unused_key();
    if (key_ == 0) {
      error(line, "no P_Key is left");
      return false;
    }
    if (!find()) result_.list.push_back({std::string(pair.name), key_, flags_.sl, {}});
    return true;
  }

  Partition* find() {
    for (Partition& partition : result_.list)
      if (partition.key == key_) return &partition;
    return nullptr;
  }

  [[nodiscard]] u16 unused_key() const {
    for (u16 key = 1; key < default_key; ++key)
      if (std::none_of(result_.list.begin(), result_.list.end(), [&](const Partition& p) { return p.key == key; }))
        return key;
    return 0;
  }

  void property() {
    const u32 line = line_;
    if (text_[at_] == ',') {
      ++at_;
      return;
    }
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("mgid") && split(rest.substr(0, rest.find_first_of(",\n;"))).name == "mgid")
      return group(until("\n;"), line);
    port(split(until(",\n;")), line);
  }

  void port(const Pair& pair, u32 line) {
    const u32 line_before = std::exchange(last_line_, line_);
    if (pair.name.find(':') != pair.name.npos || pair.value.find(':') != pair.value.npos)
      return error(line_before, "no ';' at the end; another partition begins behind it");
    using Who = Partition::Who;
    Partition::Rule rule{Who::one, 0, membership_, index0_};
    if (!pair.value.empty()) {
      const auto wanted = membership(pair.value);
      if (!wanted) error(line, fmt::format("membership is full, limited or both, not '{}'", pair.value));
      rule.membership = wanted.value_or(Membership::limited);
    }
    if (pair.name == "NONE" || pair.name.empty()) return;
    if (pair.name == "ALL")
      rule.who = Who::all;
    else if (pair.name == "ALL_CAS")
      rule.who = Who::cas;
    else if (pair.name == "ALL_SWITCHES")
      rule.who = Who::switches;
    else if (pair.name == "ALL_ROUTERS")
      rule.who = Who::routers;
    else if (pair.name == "SELF")
      rule.who = Who::self;
    else if (const auto guid = parse_number(pair.name); guid && *guid)
      rule.guid = *guid;
    else
      return error(line, fmt::format("bad port GUID '{}'", pair.name));
    if (Partition* partition = find()) partition->rules.push_back(rule);
  }

  // "mgid=ff12:401b::16,sl=1": to the end of the line.
  void group(std::string_view text, u32 line) {
    std::size_t comma = text.find(',');
    const std::string address(split(text.substr(0, comma)).value);
    PlannedGroup group{{}, static_cast<u16>(full_member | key_), flags_};
    if (inet_pton(AF_INET6, address.c_str(), group.mgid.data()) != 1 || group.mgid[0] != 0xff)
      return error(line, fmt::format("'{}' is no multicast GID", address));
    while (comma != text.npos) {
      const std::size_t from = comma + 1;
      comma = text.find(',', from);
      const Pair flag = split(text.substr(from, comma == text.npos ? comma : comma - from));
      if (!group_flag(group.flags, flag, line)) error(line, fmt::format("unknown flag '{}'", flag.name));
    }
    if (is_ip(group.mgid) && !check_ip(group, line)) return;
    add_group(group);
  }

  static bool is_ip(const GidBytes& mgid) { return (mgid[2] == 0x40 || mgid[2] == 0x60) && mgid[3] == 0x1b; }

  // IP groups carry their partition's P_Key, and are like its broadcast group.
  bool check_ip(PlannedGroup& group, u32 line) {
    const auto named = static_cast<u16>(group.mgid[4] << 8 | group.mgid[5]);
    const bool same = group.flags.rate == flags_.rate && group.flags.mtu == flags_.mtu;
    if (!same) error(line, "an IP group has the rate and MTU of its partition");
    if (named != 0 && named != group.pkey) error(line, fmt::format("the MGID names P_Key {:#06x}", named));
    group.mgid[4] = static_cast<u8>(group.pkey >> 8);
    group.mgid[5] = static_cast<u8>(group.pkey);
    return same && (named == 0 || named == group.pkey);
  }

  // One for each scope that was asked for.
  void add_group(PlannedGroup group) {
    if (group.flags.qkey == 0 && is_ip(group.mgid)) group.flags.qkey = ipoib_qkey;
    const u16 scopes = group.flags.scopes ? group.flags.scopes : static_cast<u16>(1U << (group.mgid[1] & 15));
    for (u32 scope = 0; scope < 16; ++scope) {
      if (!(scopes >> scope & 1)) continue;
      group.mgid[1] = static_cast<u8>((group.mgid[1] & 0xf0) | scope);
      const auto same = [&](const PlannedGroup& other) { return other.mgid == group.mgid; };
      if (std::none_of(result_.groups.begin(), result_.groups.end(), same)) result_.groups.push_back(group);
    }
  }

  std::string_view text_;
  std::string_view source_;
  u32 line_;
  std::size_t at_ = 0;
  Partitions result_;
  // Of the statement at hand.
  u16 key_ = 0;
  GroupFlags flags_;
  Membership membership_ = Membership::limited;
  bool index0_ = false;
  u32 last_line_ = 0;  // where its last member stands
};

bool covers(const Partition::Rule& rule, NodeType type, u64 guid, bool self) {
  switch (rule.who) {
    case Partition::Who::one:
      return rule.guid == guid;
    case Partition::Who::all:
      return true;
    case Partition::Who::cas:
      return type == NodeType::ca;
    case Partition::Who::switches:
      return type == NodeType::sw;
    case Partition::Who::routers:
      return type == NodeType::router;
    case Partition::Who::self:
      return self;
  }
  return false;
}

constexpr Partition::Rule manager_is_full{Partition::Who::self, 0, Membership::full, false};

Partition& default_of(Partitions& partitions) {
  for (Partition& partition : partitions.list)
    if (partition.key == default_key) return partition;
  return *partitions.list.insert(partitions.list.begin(), {"Default", default_key, 0, {}});
}

}  // namespace

GidBytes ipoib_broadcast(u16 pkey) {
  GidBytes mgid{0xff, 0x12, 0x40, 0x1b, static_cast<u8>(pkey >> 8), static_cast<u8>(pkey)};
  std::fill(mgid.begin() + 12, mgid.end(), u8{0xff});
  return mgid;
}

Partitions parse_partitions(std::string_view text, std::string_view source, u32 first_line) {
  if (trim(text).empty()) return PartitionsParser("Default=0x7fff,ipoib:ALL=full;", source, first_line).parse();
  Partitions partitions = PartitionsParser(text, source, first_line).parse();
  Partition& standard = default_of(partitions);
  standard.rules.insert(standard.rules.begin(), {Partition::Who::all, 0, Membership::limited, false});
  standard.rules.push_back(manager_is_full);
  return partitions;
}

Partitions parse_exact_partitions(std::string_view text) {
  if (trim(text).empty()) return parse_partitions(text);
  Partitions partitions = PartitionsParser(text, {}, 1).parse();
  default_of(partitions).rules.push_back(manager_is_full);
  return partitions;
}

std::vector<u16> Partitions::keys(NodeType type, u64 port_guid, bool self) const {
  std::vector<u16> all;
  std::vector<u16> first;
  for (const Partition& partition : list) {
    std::optional<Membership> is;
    bool index0 = false;
    for (const Partition::Rule& rule : partition.rules) {
      if (!covers(rule, type, port_guid, self)) continue;
      is = rule.membership;  // the last word counts
      index0 = index0 || rule.index0;
    }
    if (!is) continue;
    const bool leads = index0 || (partition.key == default_key && first.empty());
    auto& to = leads ? first : all;
    if (*is != Membership::limited) to.insert(index0 ? to.begin() : to.end(), full_member | partition.key);
    if (*is != Membership::full) to.push_back(partition.key);
  }
  first.insert(first.end(), all.begin(), all.end());
  return first;
}

u8 Partitions::sl(u16 pkey) const {
  for (const Partition& partition : list)
    if (partition.key == (pkey & default_key)) return partition.sl;
  return 0;
}

}  // namespace softib::fabric

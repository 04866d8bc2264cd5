#include "fabric/topo/net_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <unordered_map>

#include "fabric/complete.h"
#include "fabric/topo/clos.h"
#include "fabric/topo/lines.h"

namespace softib::fabric::topo {

namespace {

constexpr size_t most_warnings = 20;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Reads a line from left to right. Each take_... moves on only when it succeeds.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] std::string_view rest() const { return rest_; }
  void skip_space() {
    while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
  }
  bool take(std::string_view literal) {
    if (!rest_.starts_with(literal)) return false;
    rest_.remove_prefix(literal.size());
    return true;
  }
  std::optional<u64> take_number(int base = 10) {
    u64 value = 0;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    if (error != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  // Decimal, or hexadecimal with 0x.
  std::optional<u64> take_c_number() { return take("0x") || take("0X") ? take_number(16) : take_number(10); }
  // "..." ; what is between the quotes.
  std::optional<std::string_view> take_quoted() {
    if (rest_.empty() || rest_.front() != '"') return std::nullopt;
    size_t end = rest_.find('"', 1);
    if (end == std::string_view::npos) return std::nullopt;
    std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  // "(248a07030050a1b2)"
  std::optional<u64> take_guid() {
    Cursor copy = *this;
    if (!copy.take("(")) return std::nullopt;
    std::optional<u64> guid = copy.take_number(16);
    if (!guid || !copy.take(")")) return std::nullopt;
    *this = copy;
    return guid;
  }
  // "[12]"
  std::optional<u64> take_port() {
    Cursor copy = *this;
    if (!copy.take("[")) return std::nullopt;
    std::optional<u64> port = copy.take_number();
    if (!port || !copy.take("]")) return std::nullopt;
    *this = copy;
    return port;
  }
  // "[ext 12]", a port's number on the outside of its chassis
  void skip_external() {
    size_t end = rest_.find(']');
    if (rest_.starts_with("[ext ") && end != std::string_view::npos) rest_.remove_prefix(end + 1);
  }

 private:
  std::string_view rest_;
};

// The number behind a word such as "lid", or nothing.
std::optional<u64> number_after(std::string_view text, std::string_view word) {
  size_t at = text.find(word);
  while (at != std::string_view::npos) {
    Cursor cursor(text.substr(at + word.size()));
    if ((at == 0 || is_space(text[at - 1])) && cursor.take(" "))
      if (std::optional<u64> value = cursor.take_c_number()) return value;
    at = text.find(word, at + 1);
  }
  return std::nullopt;
}

struct Comment {
  std::string_view before;       // the description
  std::string_view description;  // between the first and the last quote: it may hold quotes itself
  std::string_view after;
};

// What follows '#'. Old versions wrote the description without quotes; `ends` says what may follow it.
Comment split_comment(std::string_view text) {
  size_t first = text.find('"');
  size_t last = text.rfind('"');
  if (first != std::string_view::npos && last > first)
    return {text.substr(0, first), text.substr(first + 1, last - first - 1), text.substr(last + 1)};
  size_t end = text.size();
  for (std::string_view mark : {" enhanced port ", " base port ", " port 0", " lid ", " lmc "})
    end = std::min(end, text.find(mark));
  return {{}, text.substr(0, end), text.substr(end)};
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// As valid_description() wants it.
std::string description_of(std::string_view text) {
  std::string result(trimmed(text));
  for (char& c : result)
    if (c < ' ' || c > '~') c = ' ';
  constexpr size_t longest = 64;
  return std::string(trimmed(std::string_view(result).substr(0, longest)));
}

// "4xHDR" among the words of `text`.
void find_rate(std::string_view text, RecordPort& port) {
  while (!text.empty()) {
    text = trimmed(text);
    std::string_view word = text.substr(0, text.find_first_of(" \t"));
    text.remove_prefix(word.size());
    size_t x = word.find('x');
    if (x == std::string_view::npos || x == 0 || word.find('=') != std::string_view::npos) continue;
    std::optional<Width> width = width_from_name(word.substr(0, x + 1));
    if (!width) continue;
    port.width = width;
    port.speed = speed_from_name(word.substr(x + 1));
    return;
  }
}

struct MaskRow {
  u32 bit;
  Speed speed;
};

// ibsim's options name what a port is enabled for, as masks; a link comes up with the best of them.
// What is not said is 4x and SDR.
void take_ibsim_options(std::string_view text, RecordPort& port) {
  auto value = [&](std::string_view key) -> u64 {
    size_t at = text.find(key);
    Cursor cursor(at == std::string_view::npos ? std::string_view{} : text.substr(at + key.size()));
    return cursor.take_c_number().value_or(0);
  };
  if (port.width || port.speed) return;
  u64 width = value("w=");
  for (auto [bit, each] :
       {std::pair{8U, Width::x12}, {4U, Width::x8}, {2U, Width::x4}, {16U, Width::x2}, {1U, Width::x1}})
    if (!port.width && (width & bit)) port.width = each;
  u64 extended = value("e=");
  for (MaskRow row : {MaskRow{8, Speed::ndr}, {4, Speed::hdr}, {2, Speed::edr}, {1, Speed::fdr}})
    if (!port.speed && (extended & row.bit)) port.speed = row.speed;
  u64 speed = value("s=");
  for (MaskRow row : {MaskRow{4, Speed::qdr}, {2, Speed::ddr}, {1, Speed::sdr}})
    if (!port.speed && (speed & row.bit)) port.speed = row.speed;
  if (!port.width) port.width = Width::x4;
  if (!port.speed) port.speed = Speed::sdr;
}

// "S-0002c9..." -> the GUID
u64 guid_of_id(std::string_view id) {
  constexpr size_t longest = 18;
  if (id.size() < 3 || id.size() > longest || id[1] != '-') return 0;
  Cursor cursor(id.substr(2));
  std::optional<u64> guid = cursor.take_number(16);
  return guid && cursor.rest().empty() ? *guid : 0;
}

class RecordReader {
 public:
  RecordReader(std::string_view source, Dialect dialect) : source_(source), dialect_(dialect) {}

  Parsed<Records> run(std::string_view text);

 private:
  void line(std::string_view text);
  bool node(std::string_view text);
  void header(Record record, Cursor cursor);
  void port(std::string_view text);
  bool attribute(std::string_view text);
  bool base_guid(std::string_view text);
  bool extension(std::string_view text);
  void take_guids(Record& record);
  void port_comment(std::string_view text, const Record& owner, RecordPort& result);

  void fail(std::string_view text) {
    if (!error_) error_ = one_line(fmt::format("{}:{}: {}", source_, number_, text));
  }
  void warn(std::string_view text) {
    if (++warned_ <= most_warnings)
      result_.warnings.push_back(one_line(fmt::format("{}:{}: {}", source_, number_, text)));
  }
  [[nodiscard]] bool ibsim() const { return dialect_ == Dialect::ibsim; }

  std::string source_;
  Dialect dialect_;
  int number_ = 0;
  size_t warned_ = 0;
  bool open_ = false;                                   // port lines belong to the last record
  Record next_;                                         // attributes that wait for their record
  std::array<u64, 3> counters_{0x200000, 0x100000, 0};  // ibsim's next GUID, by RecordKind
  std::unordered_map<std::string, int> seen_;           // id -> line
  std::optional<std::string> error_;
  Records result_;
};

// "vendid=0x2c9", "switchguid=0x2c9...(2c9...)", each possibly with a comment behind.
bool RecordReader::attribute(std::string_view text) {
  Cursor cursor(text);
  u32* id = nullptr;
  if (cursor.take("vendid=")) id = &next_.vendor_id;
  if (!id && cursor.take("devid=")) id = &next_.device_id;
  if (id) {
    std::optional<u64> value = cursor.take_c_number();
    if (!value || *value > 0xffffff) fail("a number of at most 24 bits is expected behind '='");
    *id = static_cast<u32>(value.value_or(0));
    return true;
  }
  if (cursor.take("sysimgguid=")) {
    std::optional<u64> value = cursor.take_c_number();
    if (!value) fail("a GUID is expected behind '='");
    next_.system_guid = value.value_or(0);
    return true;
  }
  return base_guid(text);
}

bool RecordReader::base_guid(std::string_view text) {
  struct Row {
    std::string_view word;
    RecordKind kind;
  };
  constexpr std::array<Row, 4> rows{{{"switchguid", RecordKind::sw},
                                     {"caguid", RecordKind::ca},
                                     {"hcaguids", RecordKind::ca},
                                     {"rtguid", RecordKind::router}}};
  Cursor cursor(text);
  const Row* found = nullptr;
  for (const Row& row : rows)
    if (!found && cursor.take(row.word)) found = &row;
  if (!found) return false;
  bool relative = ibsim() && cursor.take("+");
  if (!relative && !cursor.take("=")) return false;
  std::optional<u64> guid = cursor.take_c_number();
  if (!guid || (*guid == 0 && !relative)) {
    fail(fmt::format("a GUID other than 0 is expected behind '{}='", found->word));
    return true;
  }
  u64& counter = counters_[static_cast<size_t>(found->kind)];
  counter = relative ? counter + *guid : *guid;
  next_.guid = counter;
  next_.port_guid = cursor.take_guid().value_or(0);
  return true;
}

// Lines that only ibsim knows. What they ask for beyond a fabric's shape is left out.
bool RecordReader::extension(std::string_view text) {
  if (!ibsim()) return false;
  for (std::string_view word : {"include", "module", "width", "speed", "extspeed"})
    if (text.starts_with(word)) {
      warn(fmt::format("'{}' is not followed; what it would change is left out", word));
      return true;
    }
  return text.starts_with("do") || text.starts_with("pdebug");
}

// ibsim numbers nodes whose names are no GUIDs; a switch takes one number, other nodes one more than their ports.
void RecordReader::take_guids(Record& record) {
  record.id_guid = guid_of_id(record.id);
  if (!ibsim()) {
    if (!record.id_guid) return fail(fmt::format("'{}' is no node id such as S-0002c90300001234", record.id));
    if (record.guid && record.guid != record.id_guid)
      return fail(fmt::format("this record's GUID is 0x{:x}, but its id says 0x{:x}", record.guid, record.id_guid));
    record.guid = record.id_guid;
    return;
  }
  u64& counter = counters_[static_cast<size_t>(record.kind)];
  if (record.id_guid && !record.guid) {
    record.guid = record.id_guid;
    return;
  }
  record.guid = counter;
  counter += record.kind == RecordKind::sw ? 1 : record.port_count + 1;
}

// Behind the kind: `40 "S-..."  # "leaf 1" enhanced port 0 lid 3 lmc 0`
void RecordReader::header(Record record, Cursor cursor) {
  cursor.skip_space();
  std::optional<u64> ports = cursor.take_number();
  cursor.skip_space();
  std::optional<std::string_view> id = cursor.take_quoted();
  if (!ports || !id) return fail("a record begins with its number of ports and its id in quotes");
  if (*ports < 1 || *ports > max_switch_ports)
    return fail(fmt::format("a node has 1 to {} ports, not {}", max_switch_ports, *ports));
  record.line = number_;
  record.port_count = static_cast<u32>(*ports);
  record.id = *id;
  if (auto [other, fresh] = seen_.emplace(record.id, number_); !fresh)
    return fail(fmt::format("there is a record of '{}' already, in line {}", record.id, other->second));
  cursor.skip_space();
  if (cursor.take("#")) {
    Comment comment = split_comment(cursor.rest());
    record.description = description_of(comment.description);
    if (record.description != trimmed(comment.description))
      warn("of the description, letters that are not ASCII and what is beyond 64 of them are left out");
    record.enhanced_port0 = comment.after.find("enhanced port 0") != std::string_view::npos;
    record.lid = static_cast<u16>(std::min<u64>(number_after(comment.after, "lid").value_or(0), 0xffff));
    record.lmc = static_cast<u8>(std::min<u64>(number_after(comment.after, "lmc").value_or(0), 0xff));
  }
  if (ibsim() && record.description.empty()) record.description = description_of(record.id);
  take_guids(record);
  result_.nodes.push_back(std::move(record));
  open_ = true;
}

bool RecordReader::node(std::string_view text) {
  Record record = next_;
  Cursor cursor(text);
  auto starts = [&](std::string_view word) {
    if (!text.starts_with(word) || text.size() == word.size() || !is_space(text[word.size()])) return false;
    return cursor.take(word);
  };
  if (starts("Switch"))
    record.kind = RecordKind::sw;
  else if (starts("Ca") || starts("Hca"))
    record.kind = RecordKind::ca;
  else if (starts("Rt"))
    record.kind = RecordKind::router;
  else
    return false;
  next_ = Record{};
  header(std::move(record), cursor);
  return true;
}

void RecordReader::port_comment(std::string_view text, const Record& owner, RecordPort& result) {
  Comment comment = split_comment(text);
  auto lid = [](std::optional<u64> value) {
    return value ? std::optional(static_cast<u16>(std::min<u64>(*value, 0xffff))) : std::nullopt;
  };
  result.remote_lid = lid(number_after(comment.after, "lid"));
  if (owner.kind != RecordKind::sw) {
    result.lid = lid(number_after(comment.before, "lid"));
    result.lmc = static_cast<u8>(std::min<u64>(number_after(comment.before, "lmc").value_or(0), 0xff));
  }
  find_rate(comment.after, result);
}

// `[1][ext 3](own guid)  "remote id"[2][ext 4](remote guid)  # ...`
void RecordReader::port(std::string_view text) {
  Cursor cursor(text);
  std::optional<u64> number = cursor.take_port();
  if (!open_) return fail("a port line belongs behind the record of its node");
  Record& owner = result_.nodes.back();
  if (!number) return fail("a port line begins with the port's number, as in [1]");
  if (*number < 1 || *number > owner.port_count)
    return fail(fmt::format("'{}' has no port {}; its ports are 1 to {}", owner.id, *number, owner.port_count));
  cursor.skip_external();
  RecordPort result{.line = number_, .number = static_cast<u32>(*number)};
  result.guid = cursor.take_guid().value_or(0);
  cursor.skip_space();
  std::optional<std::string_view> remote = cursor.take_quoted();
  if (!remote) return fail("the other end's id in quotes is expected behind the port");
  result.remote = *remote;
  cursor.skip_space();
  std::optional<u64> remote_port = cursor.take_port();
  if (!remote_port && !ibsim()) return fail(fmt::format("the port of '{}' is expected behind it, as in [1]", *remote));
  result.remote_port = static_cast<u32>(std::min<u64>(remote_port.value_or(1), ~0U));
  if (size_t hash = cursor.rest().find('#'); hash != std::string_view::npos)
    port_comment(cursor.rest().substr(hash + 1), owner, result);
  if (ibsim()) take_ibsim_options(cursor.rest(), result);
  for (const RecordPort& other : owner.ports)
    if (other.number == result.number)
      return fail(fmt::format("port {} of '{}' is in line {} already", result.number, owner.id, other.line));
  owner.ports.push_back(std::move(result));
}

void RecordReader::line(std::string_view text) {
  std::string_view content = trimmed(text);
  if (content.empty()) {
    open_ = false;
    return;
  }
  if (content.front() == '#') return;
  if (content.front() == '[') return port(content);
  if (node(content) || attribute(content)) return;
  open_ = false;
  for (std::string_view known : {"Chassis ", "Non-Chassis Nodes", "Hostname:"})
    if (content.starts_with(known)) return;
  if (ibsim() && content.front() == '@') return warn("aliases are not known here; this line is left out");
  if (extension(content)) return;
  if (!ibsim()) warn(fmt::format("this line is none of ibnetdiscover's and is left out: '{}'", content.substr(0, 60)));
}

Parsed<Records> RecordReader::run(std::string_view text) {
  if (text.size() > largest_description) return refuse(fmt::format("{}: larger than 64 MiB", source_));
  while (!text.empty() && !error_) {
    ++number_;
    line(take_line(text));
  }
  if (error_) return refuse(*error_);
  if (result_.nodes.empty())
    return refuse(one_line(fmt::format("{}: there is no Switch, Ca or Rt record in it", source_)));
  if (warned_ > most_warnings)
    result_.warnings.push_back(fmt::format("{}: and {} more lines left out", source_, warned_ - most_warnings));
  return std::move(result_);
}

}  // namespace

Parsed<Records> read_records(std::string_view text, std::string_view source, Dialect dialect) {
  return RecordReader(source, dialect).run(text);
}

}  // namespace softib::fabric::topo

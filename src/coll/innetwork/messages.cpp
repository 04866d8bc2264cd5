#include "coll/innetwork/messages.h"

#include <algorithm>
#include <cstring>

namespace softib::coll::innetwork {

namespace {

constexpr u32 segment_magic = 0x3147'4153;  // "SAG1"
constexpr u32 words_magic = 0x314d'4153;    // "SAM1"
constexpr std::size_t most_text = 1024;
constexpr std::size_t most_list = 65536;

// One description of each format serves both directions: `Form` is a writer or a reader.
class Writing {
 public:
  explicit Writing(Bytes& to) : writer_(to) {}
  template <typename T>
  void number(T& value) {
    writer_.number(value);
  }
  void truth(bool& value) { writer_.number(static_cast<u8>(value)); }
  void text(std::string& value) { writer_.text(value, most_text); }
  template <typename T, typename Each>
  void list(std::vector<T>& values, std::size_t, Each each) {
    writer_.number(static_cast<u32>(values.size()));
    for (T& value : values) each(value);
  }

 private:
  ByteWriter writer_;
};

class Reading {
 public:
  explicit Reading(std::span<const std::byte> from) : reader_(from), left_(from.size()) {}
  template <typename T>
  void number(T& value) {
    value = reader_.number<T>();
  }
  void truth(bool& value) {
    const u8 byte = reader_.number<u8>();
    ok_ = ok_ && byte <= 1;
    value = byte == 1;
  }
  void text(std::string& value) { value = reader_.text(most_text); }
  // `least`: bytes of one entry; so a short message can't make a long list.
  template <typename T, typename Each>
  void list(std::vector<T>& values, std::size_t least, Each each) {
    const u32 count = reader_.number<u32>();
    ok_ = ok_ && count <= most_list && count <= left_ / least;
    if (!ok_) return;
    values.resize(count);
    for (T& value : values) each(value);
  }
  [[nodiscard]] bool complete() const { return ok_ && reader_.complete(); }

 private:
  ByteReader reader_;
  std::size_t left_;
  bool ok_ = true;
};

constexpr std::size_t end_bytes = 11;

template <typename Form>
void run(Form& form, End& end) {
  form.number(end.lid);
  form.number(end.mtu);
  form.number(end.pair);
  form.number(end.first);
}

template <typename Form>
void run(Form& form, Quota& quota) {
  form.number(quota.segment_bytes);
  form.number(quota.outstanding);
}

template <typename Form>
void run(Form& form, std::vector<Member>& members) {
  form.list(members, end_bytes + 2, [&](Member& member) {
    run(form, member.end);
    form.text(member.name);
  });
}

template <typename Form>
void run(Form& form, std::vector<End>& ends) {
  form.list(ends, end_bytes, [&](End& end) { run(form, end); });
}

template <typename Form>
void run(Form& form, std::vector<u32>& numbers) {
  form.list(numbers, sizeof(u32), [&](u32& number) { form.number(number); });
}

template <typename Form>
void run(Form& form, std::vector<std::string>& texts) {
  form.list(texts, 2, [&](std::string& text) { form.text(text); });
}

template <typename Form>
void run(Form& form, NodeHello& words) {
  form.number(words.guid);
  form.number(words.lid);
  form.number(words.pair);
  form.number(words.most_jobs);
  form.number(words.most_children);
  run(form, words.most);
  form.text(words.name);
  run(form, words.jobs);
}

template <typename Form>
void run(Form& form, Welcome& words) {
  form.number(words.manager);
  run(form, words.forgotten);
}

template <typename Form>
void run(Form& form, BeginJob& words) {
  form.number(words.ranks);
  form.number(words.sl);
  run(form, words.wanted);
  run(form, words.members);
}

template <typename Form>
void run(Form& form, JobBegun& words) {
  form.number(words.job);
  form.number(words.key);
  run(form, words.quota);
  run(form, words.nodes);
  form.text(words.tree);
}

template <typename Form>
void run(Form& form, EndJob& words) {
  form.number(words.job);
  form.number(words.key);
}

template <typename Form>
void run(Form& form, PrepareJob& words) {
  form.number(words.job);
  form.number(words.ranks);
  form.number(words.sl);
  run(form, words.quota);
  form.truth(words.has_parent);
  form.number(words.members);
  run(form, words.children);
}

template <typename Form>
void run(Form& form, Prepared& words) {
  run(form, words.parent);
  run(form, words.children);
}

template <typename Form>
void run(Form& form, ConnectJob& words) {
  form.number(words.job);
  run(form, words.parent);
  run(form, words.children);
}

template <typename Form>
void run(Form& form, DismissJob& words) {
  form.number(words.job);
  form.text(words.why);
}

template <typename Form>
void run(Form& form, JobOver& words) {
  form.number(words.guid);
  form.number(words.job);
  form.truth(words.in_order);
  form.text(words.why);
}

template <typename Form>
void run(Form& form, Report& words) {
  run(form, words.nodes);
  form.number(words.jobs);
  form.number(words.trees_built);
}

template <typename Form>
void run(Form& form, Refused& words) {
  form.text(words.why);
}

template <typename Form>
void run(Form&, AskReport&) {}
template <typename Form>
void run(Form&, Done&) {}

template <std::size_t index = 0>
std::optional<Words> read_as(std::size_t kind, std::span<const std::byte> body) {
  if constexpr (index < std::variant_size_v<Words>) {
    if (kind != index) return read_as<index + 1>(kind, body);
    std::variant_alternative_t<index, Words> words;
    Reading form(body);
    run(form, words);
    if (form.complete()) return words;
  }
  return std::nullopt;
}

bool has_type(SegmentKind kind) { return kind == SegmentKind::contribution || kind == SegmentKind::result; }

}  // namespace

void emit(const Segment& segment, std::byte* to) {
  Bytes bytes;
  bytes.reserve(segment_header);
  ByteWriter writer(bytes);
  writer.number(segment_magic);
  writer.number(static_cast<u8>(segment.kind));
  writer.number(static_cast<u8>(segment.type));
  writer.number(static_cast<u8>(segment.op));
  writer.number(static_cast<u8>(segment.gives));
  writer.number(segment.job);
  writer.number(segment.bytes);
  writer.number(segment.sequence);
  bytes.resize(segment_header);
  std::memcpy(to, bytes.data(), segment_header);
}

std::optional<Segment> parse_segment(std::span<const std::byte> message) {
  ByteReader reader(message);
  if (reader.number<u32>() != segment_magic) return std::nullopt;
  const u8 kind = reader.number<u8>();
  const u8 type = reader.number<u8>();
  const u8 op = reader.number<u8>();
  const u8 gives = reader.number<u8>();
  if (kind < 1 || kind > static_cast<u8>(SegmentKind::bye) || type >= type_table.size() || op >= op_names.size() ||
      gives > 1)
    return std::nullopt;
  Segment segment{static_cast<SegmentKind>(kind), static_cast<DataType>(type), static_cast<Op>(op), gives == 1};
  segment.job = reader.number<u32>();
  segment.bytes = reader.number<u32>();
  segment.sequence = reader.number<u64>();
  const bool whole = message.size() >= segment_header && message.size() - segment_header == segment.data_bytes();
  if (!whole || segment.bytes > most_segment) return std::nullopt;
  if (has_type(segment.kind) && segment.bytes % size_of(segment.type) != 0) return std::nullopt;
  if (!segment.gives && segment.kind != SegmentKind::contribution) return std::nullopt;
  return segment;
}

Bytes emit(const Words& words) {
  Bytes bytes;
  ByteWriter writer(bytes);
  writer.number(words_magic);
  writer.number(static_cast<u8>(words.index()));
  Words copy = words;
  Writing form(bytes);
  std::visit([&](auto& alternative) { run(form, alternative); }, copy);
  return bytes;
}

std::optional<Words> parse_words(std::span<const std::byte> message) {
  ByteReader reader(message);
  if (reader.number<u32>() != words_magic) return std::nullopt;
  const u8 kind = reader.number<u8>();
  if (!reader.ok()) return std::nullopt;
  return read_as(kind, reader.rest());
}

}  // namespace softib::coll::innetwork

#include "hca/memory/kernel_map.h"

#include <sys/ioctl.h>

#include <cstring>

#include "hca/memory/raw.h"

namespace softib::hca {

namespace {

// PROCMAP_QUERY came with Linux 6.11; the headers of older distributions lack it.
struct ProcmapQuery {
  u64 size;
  u64 flags;
  u64 address;
  u64 begin;
  u64 end;
  u64 permissions;
  u64 page_size;
  u64 offset;
  u64 inode;
  u32 device_major;
  u32 device_minor;
  u32 name_size;
  u32 build_id_size;
  u64 name_address;
  u64 build_id_address;
};
static_assert(sizeof(ProcmapQuery) == 104);

constexpr unsigned long procmap_query = _IOWR('f', 17, ProcmapQuery);
constexpr u64 bit_readable = 0x01;
constexpr u64 bit_writable = 0x02;
constexpr u64 bit_executable = 0x04;
constexpr u64 bit_shared = 0x08;
constexpr u64 this_or_next = 0x10;

// Reads numbers out of a line of /proc/self/maps:  begin-end rwxs offset major:minor inode   path
class LineReader {
 public:
  explicit LineReader(const char* at) : at_(at) {}

  u64 number(unsigned base) {
    while (*at_ == ' ') ++at_;
    u64 value = 0;
    for (unsigned digit; (digit = digit_of(*at_)) < base; ++at_) value = value * base + digit;
    return value;
  }
  char character() { return *at_ ? *at_++ : '\0'; }

 private:
  static unsigned digit_of(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    return 16;
  }
  const char* at_;
};

Mapping parse_line(const char* line) {
  LineReader reader(line);
  Mapping mapping;
  mapping.range.begin = reader.number(16);
  reader.character();
  mapping.range.end = reader.number(16);
  reader.character();
  mapping.readable = reader.character() == 'r';
  mapping.writable = reader.character() == 'w';
  mapping.executable = reader.character() == 'x';
  mapping.shared = reader.character() == 's';
  mapping.offset = reader.number(16);
  mapping.device_major = static_cast<u32>(reader.number(16));
  reader.character();
  mapping.device_minor = static_cast<u32>(reader.number(16));
  mapping.inode = reader.number(10);
  return mapping;
}

// Gives the file line by line. The kernel gives whole lines only, and goes on by address, not by position: a mapping
// that is changed meanwhile shows neither twice nor not at all.
class MapsText {
 public:
  MapsText() : fd_(raw::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~MapsText() {
    if (fd_ >= 0) raw::close(fd_);
  }
  MapsText(const MapsText&) = delete;
  MapsText& operator=(const MapsText&) = delete;

  [[nodiscard]] bool open() const { return fd_ >= 0; }

  const char* next_line() {
    for (;;) {
      if (char* end = static_cast<char*>(std::memchr(text_ + begin_, '\n', end_ - begin_))) {
        const char* line = text_ + begin_;
        *end = '\0';
        begin_ = static_cast<size_t>(end - text_) + 1;
        return line;
      }
      if (!refill()) return nullptr;
    }
  }

 private:
  bool refill() {
    std::memmove(text_, text_ + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    const long got = raw::read(fd_, text_ + end_, sizeof text_ - end_);
    if (got <= 0) return false;
    end_ += static_cast<size_t>(got);
    return true;
  }

  int fd_;
  size_t begin_ = 0;
  size_t end_ = 0;
  char text_[12288];  // more than a line can be: the path has at most a page, the rest 100 characters
};

}  // namespace

bool KernelMap::walk(AddressRange range, Only only, Visitor visit) {
  if (form_ == Form::unknown && !choose_form()) return false;
  return form_ == Form::query ? walk_by_query(range, only, visit) : walk_text(range, only, visit);
}

bool KernelMap::choose_form() {
  maps_.reset(raw::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (!maps_) return false;
  Mapping mapping;
  form_ = ask(0, Only::all, mapping) == Answer::failed ? Form::text : Form::query;
  if (form_ == Form::text) maps_.reset();
  return true;
}

KernelMap::Answer KernelMap::ask(u64 address, Only only, Mapping& mapping) const {
  ProcmapQuery query{};
  query.size = sizeof query;
  query.flags = this_or_next | (only == Only::shared ? bit_shared : 0);
  query.address = address;
  if (raw::control(maps_.get(), procmap_query, &query) != 0) return errno == ENOENT ? Answer::none : Answer::failed;
  mapping.range = {query.begin, query.end};
  mapping.offset = query.offset;
  mapping.inode = query.inode;
  mapping.device_major = query.device_major;
  mapping.device_minor = query.device_minor;
  mapping.readable = query.permissions & bit_readable;
  mapping.writable = query.permissions & bit_writable;
  mapping.executable = query.permissions & bit_executable;
  mapping.shared = query.permissions & bit_shared;
  return Answer::found;
}

KernelMap::Answer KernelMap::query(u64 address, Only only, Mapping& mapping) {
  const Answer answer = ask(address, only, mapping);
  if (answer != Answer::failed) return answer;
  // A program that closes all descriptors has closed this one too. The number may be its own by now: not ours to close.
  static_cast<void>(maps_.release());
  maps_.reset(raw::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  return ask(address, only, mapping);
}

bool KernelMap::walk_by_query(AddressRange range, Only only, Visitor visit) {
  Mapping mapping;
  for (u64 at = range.begin; at < range.end; at = mapping.range.end) {
    const Answer answer = query(at, only, mapping);
    if (answer == Answer::failed) return false;
    if (answer == Answer::none || mapping.range.begin >= range.end || !visit(mapping)) break;
  }
  return true;
}

bool KernelMap::walk_text(AddressRange range, Only only, Visitor visit) {
  MapsText text;
  if (!text.open()) return false;
  while (const char* line = text.next_line()) {
    const Mapping mapping = parse_line(line);
    if (mapping.range.end <= range.begin || (only == Only::shared && !mapping.shared)) continue;
    if (mapping.range.begin >= range.end || !visit(mapping)) break;
  }
  return true;
}

}  // namespace softib::hca

// How long a single MAD takes there and back: NodeInfo along a directed route, one after the other, through libibumad.
//
//   bench_round_trip [-n COUNT] [-p 0,1,...]
//
// Prints the median and the 99th percentile in microseconds.
#include <infiniband/umad.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int mad_size = 256;
constexpr int directed_class = 0x81;
constexpr int timeout_ms = 1000;
constexpr int warm_up = 50;

struct Options {
  int count = 2000;
  std::vector<uint8_t> path{0, 1};  // the first is not used: routes begin with the number of their first port behind it
};

using Mad = std::array<uint8_t, mad_size>;

//   byte 0       1        2         3       4-5     6            7          8-15         16-17      128-191
//        version | class | version | method | status | hop pointer | hop count | transaction | attribute | initial path
Mad make_request(const std::vector<uint8_t>& path, uint32_t transaction) {
  Mad mad{};
  mad[0] = 1;
  mad[1] = directed_class;
  mad[2] = 1;
  mad[3] = 1;  // Get
  mad[7] = static_cast<uint8_t>(path.size() - 1);
  for (int i = 0; i < 4; ++i) mad[15 - i] = static_cast<uint8_t>(transaction >> 8 * i);
  mad[17] = 0x11;                                   // NodeInfo
  std::fill_n(mad.begin() + 32, 4, uint8_t{0xff});  // DrSLID, DrDLID: directed all the way
  std::copy(path.begin(), path.end(), mad.begin() + 128);
  return mad;
}

class Port {
 public:
  Port() {
    if (umad_init() < 0) give_up("umad_init");
    file_ = umad_open_port(nullptr, 0);
    if (file_ < 0) give_up("umad_open_port");
    agent_ = umad_register(file_, directed_class, 1, 0, nullptr);
    if (agent_ < 0) give_up("umad_register");
    buffer_.resize(umad_size() + mad_size);  // only now does the library know the length of its header
  }
  ~Port() { umad_close_port(file_); }
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  void exchange(const Mad& request) {
    void* umad = buffer_.data();
    std::fill(buffer_.begin(), buffer_.end(), uint8_t{0});
    std::memcpy(umad_get_mad(umad), request.data(), request.size());
    umad_set_addr(umad, 0xffff, 0, 0, 0);
    if (umad_send(file_, agent_, umad, mad_size, timeout_ms, 0) < 0) give_up("umad_send");
    int length = mad_size;
    if (umad_recv(file_, umad, &length, timeout_ms) < 0 || umad_status(umad) != 0) give_up("no answer");
  }

 private:
  [[noreturn]] static void give_up(const char* what) {
    std::fprintf(stderr, "bench_round_trip: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
  }

  std::vector<uint8_t> buffer_;
  int file_ = -1;
  int agent_ = -1;
};

std::vector<uint8_t> parse_path(const std::string& text) {
  std::vector<uint8_t> path;
  for (const char* at = text.c_str(); *at;) {
    char* end = nullptr;
    path.push_back(static_cast<uint8_t>(std::strtoul(at, &end, 10)));
    if (end == at || path.size() > 63) return {};
    at = *end == ',' ? end + 1 : end;
  }
  return path;
}

bool parse_options(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "-n") == 0)
      options.count = std::atoi(argv[i + 1]);
    else if (std::strcmp(argv[i], "-p") == 0)
      options.path = parse_path(argv[i + 1]);
    else
      return false;
  }
  return argc % 2 == 1 && options.count > 0 && !options.path.empty();
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  Options options;
  if (!parse_options(argc, argv, options)) {
    std::fprintf(stderr, "usage: bench_round_trip [-n COUNT] [-p 0,1,...]\n");
    return 2;
  }
  Port port;
  std::vector<double> times;
  for (int i = 0; i < warm_up + options.count; ++i) {
    const Mad request = make_request(options.path, static_cast<uint32_t>(i + 1));
    const auto start = Clock::now();
    port.exchange(request);
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (i >= warm_up) times.push_back(took.count());
  }
  std::sort(times.begin(), times.end());
  std::printf("median %.2f p99 %.2f\n", times[times.size() / 2], times[times.size() * 99 / 100]);
}

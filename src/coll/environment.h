// What users set by variables: SOFTIB_ and then what NCCL calls it, with NCCL's syntax and meaning. One table
// (environment.cpp) has all of them with what is allowed; docs/collectives.md tells the same.
//
// A variable that isn't set in the environment may be set in ~/.softib.conf, and one that isn't set there in
// /etc/softib.conf: lines NAME=VALUE; # begins a comment.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "coll/log.h"
#include "coll/schedule/algorithms.h"

namespace softib::coll {

// Names of interfaces or HCAs: "eth,ib" (any that begins so), "=eth0,=ib0" or "=eth0,ib0" (exactly these),
// "^docker,lo" (all but those that begin so), "^=eth0" (all but this one). Each may name a port: "mlx5_0:1".
class NameFilter {
 public:
  [[nodiscard]] static std::optional<NameFilter> parse(std::string_view text);

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  // An empty filter matches everything.
  [[nodiscard]] bool matches(std::string_view name, u32 port = any_port) const;
  // Where the first entry that matches stands: callers take the devices in this order. 0 with "^".
  [[nodiscard]] std::size_t place(std::string_view name, u32 port = any_port) const;

  static constexpr u32 any_port = 0;  // ports count from 1

 private:
  struct Entry {
    std::string name;
    u32 port = any_port;
  };
  [[nodiscard]] bool fits(const Entry& entry, std::string_view name, u32 port) const;

  bool all_but_ = false;
  bool exact_ = false;
  std::vector<Entry> entries_;
};

// Of SOFTIB_ALGO: "ring", "ring,direct" (for whatever knows it, first fit), "all_reduce:ring,direct;broadcast:chain",
// "^chain" (all but this).
struct AlgorithmRule {
  std::optional<Collective> collective;  // nothing: all
  bool all_but = false;
  std::vector<Algorithm> algorithms;
};

enum class SocketFamily : u8 { any, ipv4, ipv6 };

struct Environment {
  NameFilter socket_ifname;
  SocketFamily socket_family = SocketFamily::any;
  std::string comm_id;  // "ADDRESS:PORT", "[ADDRESS]:PORT" or "NAME:PORT"; empty: not set
  std::string host_id;  // stands for what tells hosts apart

  LogSettings log;

  NameFilter ib_hca;
  std::optional<u32> ib_gid_index;  // nothing: chosen
  u16 ib_pkey = 0;                  // index in the port's table
  u8 ib_sl = 0;
  u8 ib_tc = 0;
  u8 ib_timeout = 20;  // as ibv_qp_attr::timeout has it
  u8 ib_retry_cnt = 7;
  bool ib_disable = false;
  bool ib_read = true;       // messages that are combined are read by their receiver
  bool ib_odp = true;        // on-demand registrations where all HCAs can
  bool ib_mr_cache = false;  // any memory of messages stays registered: the caller tells when it goes away
  bool shm_disable = false;
  bool collnet_enable = false;  // the network may combine where that is quicker

  std::vector<AlgorithmRule> algo;
  std::string tuning_file;
  std::optional<std::chrono::nanoseconds> timeout;
  bool checks = false;  // compare calls of ranks before they run

  // As this process's variables and files say it. Bad values are left at their defaults and told of, each once.
  [[nodiscard]] static Environment read();

  // nothing: not set.
  using Lookup = std::function<std::optional<std::string>(const char* name)>;
  // The same of any source; what is wrong goes to `complaints`, a line for each variable.
  [[nodiscard]] static Environment parse(const Lookup& lookup, std::vector<std::string>* complaints = nullptr);
  // The environment, then the files.
  [[nodiscard]] static std::optional<std::string> look_up(const char* name);
};

struct Variable {
  const char* name;
  const char* allowed;  // for the complaint
  // false: not allowed, and nothing was changed.
  bool (*set)(std::string_view value, Environment& environment);
  // What is wrong with a value that isn't allowed, where more is to be said than what is.
  std::string (*fault)(std::string_view value) = nullptr;
};

[[nodiscard]] std::span<const Variable> variables();

// "SOFTIB_IB_MR_CACHES is no variable; did you mean SOFTIB_IB_MR_CACHE?": of those that only a slip of the pen tells
// from one of the table, in an environment as execve() has it.
[[nodiscard]] std::vector<std::string> misspelt_variables(const char* const* environment);

// "NAME=VALUE" in the text of a configuration file.
[[nodiscard]] std::optional<std::string> find_setting(std::string_view text, std::string_view name);

}  // namespace softib::coll

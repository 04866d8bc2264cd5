// How the ranks of a communicator find each other and hear of each other's end, before and beside any fast transport.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coll/error.h"
#include "coll/transport/transport.h"

namespace softib::coll {

using Bytes = std::vector<std::byte>;

// What one rank makes and all others get by any way there is (MPI, a file, an environment variable): where to meet, and
// a random key by which strangers are turned away. 128 bytes, as ncclUniqueId.
struct UniqueId {
  std::array<std::byte, 128> bytes{};

  // Listens at an address of the interface that the environment chooses (SOFTIB_SOCKET_IFNAME); the meeting is served
  // by a thread of this process that ends once all ranks have come, or with the process. Another process than rank 0's
  // may make it. With SOFTIB_COMM_ID=ADDRESS:PORT, rank 0 listens there instead, and nobody else does.
  [[nodiscard]] static Outcome<UniqueId> make();
  // The same, but SOFTIB_COMM_ID only says which subnet to choose: for communicators that are made of another one,
  // whose ranks get the id by that one's all_gather().
  [[nodiscard]] static Outcome<UniqueId> make_apart();
};

// One process of a communicator; for people name_of() it: "rank 3 on host1".
struct Member {
  u32 rank = 0;
  std::string host;               // gethostname()
  u64 host_key = 0;               // equal for ranks that can share memory: machine, boot, and namespace of /dev/shm
  i32 process = 0;                // in its own pid namespace
  std::string address;            // the numeric address at which its bootstrap is reached
  std::vector<u64> processors{};  // that it may run on, a bit each; empty: not told
  u64 machine_key = 0;  // equal for ranks under one kernel, on whatever hosts: containers, hosts of SoftIB; 0: not told
};

[[nodiscard]] inline std::string name_of(const Member& member) {
  return "rank " + std::to_string(member.rank) + " on " + member.host;
}
// What is known of somebody on whose connection nothing goes any more.
[[nodiscard]] inline std::string unreachable(const std::string& who, const std::string& why) {
  return who + " can't be reached any more (" + why + ")";
}

struct BootstrapOptions {
  u32 ranks = 1;
  u32 rank = 0;
  std::chrono::nanoseconds timeout = std::chrono::seconds(120);  // for all ranks to come
  // Asked now and then until all have come: why they won't. For ranks that know each other from before.
  std::function<std::optional<Error>()> obstacle{};
};

class Bootstrap {
 public:
  Bootstrap(const Bootstrap&) = delete;
  Bootstrap& operator=(const Bootstrap&) = delete;
  virtual ~Bootstrap() = default;

  // Returns when all ranks are connected with each other. Errors: time-out (says which ranks are missing), a rank
  // twice, a different number of ranks, a wrong key, no usable interface.
  [[nodiscard]] static Outcome<std::unique_ptr<Bootstrap>> connect(const UniqueId& id, const BootstrapOptions& options);

  // Whoever made the id says that it won't come to a meeting: whoever comes is told so, and nothing of it stays behind.
  static void call_off(const UniqueId& id, BootstrapOptions options, const Error& why);

  [[nodiscard]] virtual u32 rank() const = 0;                         // mine
  [[nodiscard]] virtual std::span<const Member> members() const = 0;  // by rank

  // Everyone gives a blob of any size and gets all, by rank. Blocking; all ranks call it in the same order. Fails as
  // soon as a member's process ends or an abort comes, or when the time-out of connect() is over; a blob is at most
  // 1 GiB.
  [[nodiscard]] virtual Outcome<std::vector<Bytes>> all_gather(std::span<const std::byte> mine) = 0;

  // Looks, without waiting, at what came from the others. Costs a system call, so callers do it every so many rounds of
  // spinning.
  // Each member that ended is told of once, and before that each that aborted; blames and words as often as they come.
  struct News {
    enum class Kind : u8 { ended, aborted, blames, says } kind = Kind::ended;
    u32 rank = 0;        // who
    u32 waits_for = 0;   // blames: for whom that one waits too long
    u64 collective = 0;  // blames: in which one
    std::string text;    // aborted: why, for people; says: what; ended: how the way to it was lost, if it may live
  };
  [[nodiscard]] virtual std::optional<News> news() = 0;

  // Tell all others. A member that leaves in order (destroys its Bootstrap after leave()) isn't told of as ended.
  virtual void abort(const std::string& why) = 0;
  virtual void blame(u32 rank, u64 collective) = 0;
  virtual void leave() = 0;
  // Any words, also after an abort, for what those who are left have to agree on; below 4 KiB.
  virtual void say(const std::string& words) = 0;

  // Readable when news() may have something.
  [[nodiscard]] virtual int descriptor() const = 0;

 protected:
  Bootstrap() = default;
};

}  // namespace softib::coll

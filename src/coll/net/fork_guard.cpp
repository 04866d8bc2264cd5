#include "coll/net/fork_guard.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <vector>

namespace softib::coll {

// All of this process. Never destroyed: children may be forked until the very end.
struct ForkGuards {
  std::mutex lock;
  std::vector<ForkGuard*> list;

  static ForkGuards& all() {
    static auto& only = *new ForkGuards;
    return only;
  }

  ForkGuards() {
    ::pthread_atfork([] { all().lock.lock(); }, [] { all().lock.unlock(); },
                     [] {
                       for (const ForkGuard* guard : all().list) guard->each_(blind);
                       all().lock.unlock();
                     });
  }

  static void blind(int fd) {
    if (fd < 0) return;
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0) return;
    ::dup3(nothing, fd, O_CLOEXEC);
    ::close(nothing);
  }
};

ForkGuard::ForkGuard(std::function<void(Visit)> each) : each_(std::move(each)), process_(::getpid()) {
  ForkGuards& guards = ForkGuards::all();
  const std::lock_guard guard(guards.lock);
  guards.list.push_back(this);
}

ForkGuard::~ForkGuard() {
  ForkGuards& guards = ForkGuards::all();
  const std::lock_guard guard(guards.lock);
  std::erase(guards.list, this);
}

bool ForkGuard::at_home() const { return process_ == ::getpid(); }

}  // namespace softib::coll

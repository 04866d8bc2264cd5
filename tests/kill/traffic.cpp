// kill_traffic: one side of the killing test.
//
//   kill_traffic listen SOCKET [WORKERS]     serves one peer after the other, for ever
//   kill_traffic connect SOCKET [WORKERS]    is a peer once
//
// Prints one JSON object a line: {"event":"start"}, then for each peer "met", "running" and "session" with the account
// of its queue pairs. SIGTERM ends a session in order; SIGKILL of either side must leave the other with the right
// completions, which it checks.
#include <signal.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hca.h"
#include "link.h"
#include "worker.h"

namespace softib::kill {
namespace {

// Far more than the retries take: 4.096 us * 2^11 * 6 is 50 ms. The scheduler of a loaded machine may add seconds.
constexpr u64 patience_ns = 40'000'000'000;

volatile sig_atomic_t stop_requested = 0;
void on_stop(int) { stop_requested = 1; }

enum class Outcome { setup, peer_lost, finished, faulty, stuck };

const char* name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::setup: return "setup";
    case Outcome::peer_lost: return "peer_lost";
    case Outcome::finished: return "finished";
    case Outcome::faulty: return "faulty";
    case Outcome::stuck: return "stuck";
  }
  return "";
}

using Workers = std::vector<std::unique_ptr<Worker>>;

struct Session {
  Outcome outcome = Outcome::setup;
  std::string fault;
  std::string queue_pairs;  // JSON
};

u64 resident_kib() {
  unsigned long total = 0;
  unsigned long resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%lu %lu", &total, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * 4;
}

u64 descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<u64>(std::distance(begin(entries), end(entries))) - 1;
}

void print_event(const char* event) {
  std::printf("{\"event\":\"%s\",\"pid\":%d}\n", event, getpid());
  std::fflush(stdout);
}

void print_session(const Session& session) {
  std::printf("{\"event\":\"session\",\"outcome\":\"%s\",\"fault\":\"%s\",\"fds\":%lu,\"rss_kib\":%lu,\"qps\":[%s]}\n",
              name_of(session.outcome), session.fault.c_str(), descriptors(), resident_kib(),
              session.queue_pairs.c_str());
  std::fflush(stdout);
}

std::string describe(const Workers& workers) {
  std::string text;
  for (const auto& worker : workers) {
    for (const QpRecord& entry : worker->records()) {
      char line[256];
      std::snprintf(line, sizeof line,
                    "%s{\"qpn\":%u,\"posted\":%u,\"done\":%u,\"receives\":%u,\"good\":%lu,\"flushed\":%u,"
                    "\"first_error\":%d,\"first_error_ns\":%lu}",
                    text.empty() ? "" : ",", entry.qp->qp_num, entry.posted, entry.done, entry.waiting_receives,
                    entry.good, entry.flushed, entry.first_error, entry.first_error_ns);
      text += line;
    }
  }
  return text;
}

bool connect_all(const Link& link, const Hca& hca, const Workers& workers) {
  SideInfo mine{};
  SideInfo theirs{};
  mine.gid = hca.gid;
  mine.lid = hca.port.lid;
  mine.workers = static_cast<u32>(workers.size());
  for (size_t i = 0; i < workers.size(); ++i) mine.worker[i] = workers[i]->info();
  if (!link.exchange(&mine, &theirs, sizeof mine)) return false;
  if (theirs.workers != mine.workers) give_up("the sides have different numbers of workers");
  for (const auto& worker : workers) worker->connect(theirs);
  return link.meet();
}

bool all(const Workers& workers, bool (Worker::*is)() const) {
  for (const auto& worker : workers) {
    if (!((*worker).*is)()) return false;
  }
  return true;
}

// Watches the workers: until they have lost their peer, or until both sides have drained after a stop.
Outcome supervise(const Link& link, const Workers& workers) {
  bool told = false;
  bool peer_finished = false;
  u64 deadline = 0;
  while (!all(workers, &Worker::ended)) {
    const LinkNews news = peer_finished || deadline != 0 ? LinkNews::quiet : link.wait_news(5);
    if (peer_finished || deadline != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (news == LinkNews::finished) peer_finished = true;
    if (news == LinkNews::peer_gone) deadline = monotonic_ns() + patience_ns;
    if (stop_requested != 0 || peer_finished) {
      for (const auto& worker : workers) worker->stop();
    }
    if (!told && all(workers, &Worker::drained)) told = link.say_finished();
    if (told && peer_finished) {
      for (const auto& worker : workers) worker->quit();
    }
    if (deadline != 0 && monotonic_ns() > deadline) return Outcome::stuck;
  }
  return told && peer_finished ? Outcome::finished : Outcome::peer_lost;
}

Session run_workers(const Link& link, const Workers& workers) {
  print_event("running");
  std::vector<std::thread> threads;
  for (const auto& worker : workers) threads.emplace_back([&worker] { worker->run(); });
  Session session;
  session.outcome = supervise(link, workers);
  if (session.outcome == Outcome::stuck) {
    // The threads are still at it: no way to an orderly end.
    session.queue_pairs = describe(workers);
    print_session(session);
    std::_Exit(3);
  }
  for (std::thread& thread : threads) thread.join();
  session.queue_pairs = describe(workers);
  for (const auto& worker : workers) {
    if (!worker->fault().empty()) session.outcome = Outcome::faulty;
    if (session.fault.empty()) session.fault = worker->fault();
  }
  return session;
}

Session run_session(const Link& link, u32 count) {
  Hca hca(count);
  Workers workers;
  for (u32 i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(hca, i));
  if (!connect_all(link, hca, workers)) return {};
  return run_workers(link, workers);
}

int main_of(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: kill_traffic listen|connect SOCKET [WORKERS]\n");
    return 2;
  }
  const bool listens = std::strcmp(argv[1], "listen") == 0;
  const u32 workers = argc > 3 ? static_cast<u32>(std::atoi(argv[3])) : 2;
  if (workers < 1 || workers > max_workers) return 2;
  struct sigaction action{};
  action.sa_handler = on_stop;
  sigaction(SIGTERM, &action, nullptr);

  const Fd listener = listens ? Link::listen(argv[2]) : Fd();
  print_event("start");
  do {
    const Link link = listens ? Link::accept(listener) : Link::connect(argv[2], 10);
    if (!link) return stop_requested != 0 ? 0 : 5;
    print_event("met");
    const Session session = run_session(link, workers);
    print_session(session);
    if (session.outcome == Outcome::faulty) return 1;
  } while (listens && stop_requested == 0);
  return 0;
}

}  // namespace
}  // namespace softib::kill

int main(int argc, char** argv) { return softib::kill::main_of(argc, argv); }

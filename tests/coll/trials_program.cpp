// coll_trials random|kills: communicators as programs use them, each rank a process, over whatever there is.
//
//   coll_trials random [--ranks N] [--seed S] [--sessions N | --seconds T] [--free shm,verbs,hosts]
//   coll_trials kills [--ranks N] [--seed S] [--times N]
//
// All ranks here; or some of them on each of several hosts, with the same options but for --here, and a file that all
// can read:
//
//   coll_trials ... --here 0-2 --id FILE
//
// Prints what was done and with which seed; `--seed S --sessions 1` repeats a session that failed, `--times 1` a kill.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "coll/communicator.h"
#include "kill_run.h"
#include "random_run.h"

namespace softib::coll::test {

namespace {

using std::chrono::steady_clock;

struct TrialOptions {
  std::string mode;
  u32 ranks = 9;
  u32 first = 0;
  u32 last = 8;
  u64 seed = 0;
  u64 sessions = 20;
  u64 seconds = 0;  // instead of sessions
  u64 times = 20;
  std::string id;  // file; empty: all ranks are here
  std::string folder;
  Freedom freedom;

  [[nodiscard]] bool leads() const { return first == 0; }
};

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

// A process that serves a meeting, for who forks ranks must have no threads.
class Host {
 public:
  Host(const TrialOptions& options, u64 number) : path_(options.id + "." + std::to_string(number)) {
    if (!options.leads())
      read_id();
    else
      serve(!options.id.empty());
  }
  ~Host() {
    if (server_ <= 0) return;
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  [[nodiscard]] const UniqueId& id() const { return id_; }

 private:
  void serve(bool tells_others) {
    int ends[2];
    if (::pipe(ends) != 0) std::exit(1);
    server_ = ::fork();
    if (server_ == 0) serve_to(ends[1]);
    ::close(ends[1]);
    if (::read(ends[0], &id_, sizeof id_) != static_cast<ssize_t>(sizeof id_)) std::exit(1);
    ::close(ends[0]);
    if (tells_others) write_id();
  }

  [[noreturn]] static void serve_to(int to) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto made = UniqueId::make();
    if (!made) std::fprintf(stderr, "%s\n", made.error().text.c_str());
    if (!made || ::write(to, &*made, sizeof *made) < 0) ::_exit(1);
    ::close(to);
    while (true) ::pause();
  }

  void write_id() const {
    std::ofstream(path_ + ".part", std::ios::binary).write(reinterpret_cast<const char*>(&id_), sizeof id_);
    std::filesystem::rename(path_ + ".part", path_);
  }

  void read_id() {
    while (!std::filesystem::exists(path_)) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::ifstream(path_, std::ios::binary).read(reinterpret_cast<char*>(&id_), sizeof id_);
  }

  std::string path_;
  pid_t server_ = 0;
  UniqueId id_;
};

struct Ended {
  u32 rank = 0;
  int status = 0;
  steady_clock::time_point when{};
};

// Forks the ranks that are here; gives how they ended, in that order.
std::vector<Ended> run_ranks_here(const TrialOptions& options, const std::function<int(u32)>& body) {
  std::fflush(nullptr);
  std::map<pid_t, u32> children;
  for (u32 rank = options.first; rank <= options.last; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const int status = body(rank);
      std::fflush(nullptr);
      ::_exit(status);
    }
    children[child] = rank;
  }
  std::vector<Ended> all;
  while (!children.empty()) {
    int status = 0;
    const pid_t ended = ::wait(&status);
    if (!children.contains(ended)) continue;
    all.push_back({children[ended], status, steady_clock::now()});
    children.erase(ended);
  }
  return all;
}

// Rank 0 says whether there is another session, as it has the clock.
bool goes_on(Communicator& whole, bool wanted) {
  u8 word = wanted ? 1 : 0;
  const Started started = whole.start_broadcast(&word, &word, 1, DataType::uint8, 0);
  return started && whole.wait(*started) && word != 0;
}

int run_random_rank(const TrialOptions& options, const UniqueId& id, u32 rank) {
  const auto begin = steady_clock::now();
  Config config;
  config.timeout = std::chrono::seconds(60);
  const auto whole = Communicator::create(id, options.ranks, rank, config);
  if (!whole) {
    std::printf("FAILED rank %u: no communicator: %s\n", rank, whole.error().text.c_str());
    return 1;
  }
  RandomRun run(**whole, options.freedom, options.folder);
  u64 done = 0;
  const auto wanted = [&] {
    return options.seconds != 0 ? seconds_since(begin) < static_cast<double>(options.seconds) : done < options.sessions;
  };
  for (; goes_on(**whole, wanted()); ++done) {
    const std::string fault = run.session(options.seed + done);
    if (fault.empty()) continue;
    std::printf("FAILED rank %u: %s\n  repeat: --seed %llu --sessions 1\n", rank, fault.c_str(),
                static_cast<unsigned long long>(options.seed + done));
    return 1;
  }
  const Tally& tally = run.tally();
  if (rank == 0)
    std::printf(
        "%llu sessions from seed %llu, %u ranks, %.1f s; rank 0: %llu communicators, %llu collectives, %llu "
        "messages\n",
        static_cast<unsigned long long>(done), static_cast<unsigned long long>(options.seed), options.ranks,
        seconds_since(begin), static_cast<unsigned long long>(tally.communicators),
        static_cast<unsigned long long>(tally.collectives), static_cast<unsigned long long>(tally.messages));
  return (*whole)->async_error() ? 1 : 0;
}

int run_random(const TrialOptions& options) {
  const Host host(options, 0);
  int worst = 0;
  const auto all = run_ranks_here(options, [&](u32 rank) { return run_random_rank(options, host.id(), rank); });
  for (const Ended& each : all) {
    if (each.status != 0) worst = 1;
    if (WIFSIGNALED(each.status)) std::printf("FAILED rank %u: signal %d\n", each.rank, WTERMSIG(each.status));
  }
  return worst;
}

int run_kill_rank(const UniqueId& id, const KillTrial& trial, u32 rank) {
  const auto begin = steady_clock::now();
  const Survival survival = survive(id, trial, rank);
  if (survival.fault.empty()) return 0;
  std::printf("FAILED rank %u (rank %u dies after %lld us; %.2f s): %s\n", rank, trial.victim,
              static_cast<long long>(trial.when.count()), seconds_since(begin), survival.fault.c_str());
  return 1;
}

// True: as it should be.
bool run_kill(const TrialOptions& options, u64 number) {
  std::mt19937_64 random(options.seed + number);
  const KillTrial trial = any_kill(options.ranks, random);
  const Host host(options, number);
  const auto all = run_ranks_here(options, [&](u32 rank) { return run_kill_rank(host.id(), trial, rank); });
  bool good = true;
  for (const Ended& each : all) {
    const bool killed = WIFSIGNALED(each.status) && WTERMSIG(each.status) == SIGKILL;
    good = good && (each.rank == trial.victim ? killed : each.status == 0);
  }
  if (!good)
    std::printf("FAILED kill %llu; repeat: --seed %llu --times 1\n", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(options.seed + number));
  return good;
}

int run_kills(const TrialOptions& options) {
  const auto begin = steady_clock::now();
  u64 failed = 0;
  for (u64 number = 0; number < options.times; ++number)
    if (!run_kill(options, number)) ++failed;
  std::printf("%llu kills from seed %llu, ranks %u-%u of %u, %.1f s, %llu failed\n",
              static_cast<unsigned long long>(options.times), static_cast<unsigned long long>(options.seed),
              options.first, options.last, options.ranks, seconds_since(begin),
              static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}

[[noreturn]] void refuse_words(const std::string& words) {
  std::fprintf(stderr, "coll_trials: %s; the head of trials_program.cpp has the options\n", words.c_str());
  std::exit(2);
}

void read_range(TrialOptions& options, const std::string& text) {
  const auto dash = text.find('-');
  if (dash == std::string::npos) refuse_words("--here wants FIRST-LAST");
  options.first = static_cast<u32>(std::stoul(text.substr(0, dash)));
  options.last = static_cast<u32>(std::stoul(text.substr(dash + 1)));
}

TrialOptions parse_trials(int argc, char** argv) {
  TrialOptions options;
  options.seed = std::random_device{}();
  if (argc < 2) refuse_words("random or kills");
  options.mode = argv[1];
  std::string here;
  for (int i = 2; i < argc; i += 2) {
    const std::string name = argv[i];
    if (i + 1 == argc) refuse_words(name + " wants a value");
    const std::string value = argv[i + 1];
    const auto number = [&] { return std::stoull(value); };
    const auto frees = [&](const char* what) { return value.find(what) != std::string::npos; };
    if (name == "--ranks")
      options.ranks = static_cast<u32>(number());
    else if (name == "--here")
      here = value;
    else if (name == "--seed")
      options.seed = number();
    else if (name == "--sessions")
      options.sessions = number();
    else if (name == "--seconds")
      options.seconds = number();
    else if (name == "--times")
      options.times = number();
    else if (name == "--id")
      options.id = value;
    else if (name == "--free")
      options.freedom = {frees("shm"), frees("verbs"), frees("hosts")};
    else
      refuse_words("what is " + name);
  }
  options.last = options.ranks - 1;
  if (!here.empty()) read_range(options, here);
  return options;
}

int run_trials(int argc, char** argv) {
  TrialOptions options = parse_trials(argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "softib-trials-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) refuse_words("no temporary folder");
  options.folder = folder;
  const int status = options.mode == "random" ? run_random(options) : options.mode == "kills" ? run_kills(options) : 2;
  std::filesystem::remove_all(folder);
  if (status == 2) refuse_words("random or kills, not " + options.mode);
  return status;
}

}  // namespace

int run_trials_program(int argc, char** argv) { return run_trials(argc, argv); }

}  // namespace softib::coll::test

int main(int argc, char** argv) { return softib::coll::test::run_trials_program(argc, argv); }

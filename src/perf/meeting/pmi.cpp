// PMI-1, the protocol of MPICH's and Intel MPI's mpirun: lines of key=value words over an inherited socket. Process 0
// puts the id into the job's key-value space, a barrier makes it seen, the others get it.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "perf/meeting/meeting.h"

namespace softib::perf {

namespace {

using coll::Code;
using coll::Outcome;

constexpr const char* id_key = "softib-perf-id";

// The word behind " key=" in an answer.
std::optional<std::string> word_in(const std::string& answer, const std::string& key) {
  const auto found = (" " + answer).find(" " + key + "=");
  if (found == std::string::npos) return std::nullopt;
  const auto begin = found + key.size() + 1;
  return answer.substr(begin, answer.find(' ', begin) - begin);
}

class PmiSession {
 public:
  explicit PmiSession(int socket) : socket_(socket) {}

  // Says a line; the answer must be of command `expected` and, where it has a code, tell of success.
  Outcome<std::string> ask(const std::string& line, const std::string& expected) {
    const std::string sent = line + "\n";
    if (::write(socket_, sent.data(), sent.size()) != static_cast<ssize_t>(sent.size())) return lost();
    auto answer = read_line();
    if (!answer) return answer;
    if (word_in(*answer, "cmd") != expected || word_in(*answer, "rc").value_or("0") != "0")
      return coll::refuse(Code::system_error, fmt::format("PMI: to '{}' the launcher said '{}'", line, *answer));
    return answer;
  }

 private:
  static tl::unexpected<coll::Error> lost() {
    return coll::refuse(Code::system_error, "PMI: the launcher is gone, or speaks another version");
  }

  Outcome<std::string> read_line() {
    std::string line;
    for (char letter = 0;;) {
      const ssize_t got = ::read(socket_, &letter, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got != 1) return lost();
      if (letter == '\n') return line;
      line += letter;
    }
  }

  int socket_;
};

Outcome<coll::UniqueId> exchange(PmiSession& session, const Position& position) {
  auto space = session.ask("cmd=get_my_kvsname", "my_kvsname");
  if (!space) return tl::unexpected(space.error());
  const std::string name = word_in(*space, "kvsname").value_or("");
  if (position.process == 0) {
    const auto id = coll::UniqueId::make();
    if (!id) return tl::unexpected(id.error());
    auto put = session.ask(fmt::format("cmd=put kvsname={} key={} value={}", name, id_key, to_text(*id)), "put_result");
    if (!put) return tl::unexpected(put.error());
  }
  if (auto met = session.ask("cmd=barrier_in", "barrier_out"); !met) return tl::unexpected(met.error());
  auto got = session.ask(fmt::format("cmd=get kvsname={} key={}", name, id_key), "get_result");
  if (!got) return tl::unexpected(got.error());
  const auto id = id_from_text(word_in(*got, "value").value_or(""));
  if (!id) return coll::refuse(Code::system_error, "PMI: what process 0 put there is no id");
  return *id;
}

Outcome<Meeting> join_session(int socket) {
  const auto position = position_from_environment();
  if (!position) return coll::refuse(Code::invalid_usage, "PMI_FD is set, but PMI_RANK and PMI_SIZE aren't");
  PmiSession session(socket);
  if (auto begun = session.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"); !begun)
    return tl::unexpected(begun.error());
  const auto id = exchange(session, *position);
  if (!id) return tl::unexpected(id.error());
  if (auto ended = session.ask("cmd=finalize", "finalize_ack"); !ended) return tl::unexpected(ended.error());
  return Meeting{position->process, position->processes, *id};
}

}  // namespace

Joined join_by_pmi() {
  // Slurm's pmi2 plug-in sets PMI_FD too and speaks another protocol there.
  const char* slurm = std::getenv("SLURM_MPI_TYPE");
  const char* socket = std::getenv("PMI_FD");
  if (socket == nullptr || (slurm != nullptr && std::string_view(slurm) == "pmi2")) return std::nullopt;
  return join_session(std::atoi(socket));
}

}  // namespace softib::perf

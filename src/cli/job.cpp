#include "cli/job.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/fd.h"

namespace softib::cli {

namespace {

struct Numbers {
  const char* name;
  size_t value;
};

bool is_free(u32 port) {
  const Fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<u16>(port));
  return probe && ::bind(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

std::vector<Variable> job_variables(const std::vector<std::string>& hosts, size_t rank, u32 port) {
  const auto here = hosts.begin() + static_cast<std::ptrdiff_t>(rank);
  const auto count = [&](auto from, auto to) { return static_cast<size_t>(std::count(from, to, *here)); };
  const std::array<Numbers, 4> numbers{{{"RANK", rank},
                                        {"WORLD_SIZE", hosts.size()},
                                        {"LOCAL_RANK", count(hosts.begin(), here)},
                                        {"LOCAL_WORLD_SIZE", count(hosts.begin(), hosts.end())}}};
  std::vector<Variable> variables;
  if (std::none_of(numbers.begin(), numbers.end(), [](const Numbers& one) { return std::getenv(one.name); }))
    for (const Numbers& one : numbers) variables.push_back({one.name, std::to_string(one.value)});
  if (!std::getenv("MASTER_ADDR")) variables.push_back({"MASTER_ADDR", hosts.front()});
  if (!std::getenv("MASTER_PORT")) variables.push_back({"MASTER_PORT", std::to_string(port)});
  return variables;
}

// From the range that no system gives to clients by itself. Where hosts have no network of their own, others may have
// taken one.
u32 port_of_job() {
  constexpr u32 first = 20'000, count = 12'000;
  const u32 own = static_cast<u32>(::getpid()) % count;
  for (u32 i = 0; i < count; ++i)
    if (const u32 port = first + (own + i) % count; is_free(port)) return port;
  return first + own;
}

}  // namespace softib::cli

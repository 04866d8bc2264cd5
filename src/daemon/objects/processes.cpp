#include "daemon/objects/processes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <memory>

namespace softib::daemon {

namespace {

constexpr u32 process_rest = 8;

// softibd punches holes into it when the process dies, so it must be what it is said to be and nobody's file on disk:
// only memfds know seals.
bool is_memory_file(const Fd& fd) { return fd && ::fcntl(fd.get(), F_GET_SEALS) >= 0; }

void release_memory(const Fd& memory) {
  struct stat info {};
  if (::fstat(memory.get(), &info) == 0 && info.st_size > 0)
    (void)!::fallocate(memory.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, info.st_size);
}

template <size_t N>
std::string bounded_text(const char (&text)[N]) {
  return {text, ::strnlen(text, N)};
}

}  // namespace

Processes::Processes(World& world) : world_(world), slots_(1, ipc::max_processes, process_rest) {}

Result<ProcessObject*> Processes::attach(Newcomer newcomer, const ipc::Attach::Request& request) {
  if (!is_memory_file(newcomer.memory)) return fail(EINVAL);
  auto bounce = world_.arena.allocate(ipc::agent_bounce_size);
  if (!bounce) return fail(bounce.error());
  u32 slot = slots_.take();
  if (!slot) {
    world_.free_later(*bounce);
    return fail(EUSERS);
  }
  ipc::Process& process = world_.segment.processes[slot];
  u32 generation = process.generation.load(std::memory_order_relaxed) + 1;
  World::wipe(process);
  process.pid = newcomer.pid;
  process.host = newcomer.host;
  process.pid_namespace = request.pid_namespace;
  process.local_pid = request.local_pid;
  process.agent.bounce_offset = *bounce;
  process.generation.store(generation, std::memory_order_relaxed);
  World::raise_limit(world_.segment.header.process_limit, slot);
  process.state.store(ipc::ProcessState::live, std::memory_order_release);
  auto [entry, added] =
      processes_.emplace(slot, ProcessObject{slot, generation, newcomer.host, newcomer.pid,
                                             bounded_text(request.program), std::move(newcomer.memory), *bounce});
  return &entry->second;
}

ProcessObject* Processes::find(u32 slot) {
  auto found = processes_.find(slot);
  return found == processes_.end() ? nullptr : &found->second;
}

void Processes::bury(u32 slot) {
  auto found = processes_.find(slot);
  if (found == processes_.end()) return;
  world_.segment.processes[slot].state.store(ipc::ProcessState::dead, std::memory_order_seq_cst);
  world_.segment.header.death_epoch.fetch_add(1, std::memory_order_acq_rel);
  // Survivors that looked its keys up before this may still be copying: its pages stay until they have left.
  auto memory = std::make_shared<Fd>(std::move(found->second.memory));
  world_.limbo.add([memory] { release_memory(*memory); });
  bounce_of_dead_[slot] = found->second.bounce;
  processes_.erase(found);
}

void Processes::retire(u32 slot) {
  auto found = bounce_of_dead_.find(slot);
  if (found == bounce_of_dead_.end()) return;
  u64 bounce = found->second;
  bounce_of_dead_.erase(found);
  world_.limbo.add([this, slot, bounce] {
    (void)world_.arena.free(bounce);
    world_.segment.processes[slot].state.store(ipc::ProcessState::free, std::memory_order_release);
    slots_.give_back(slot);
  });
}

}  // namespace softib::daemon

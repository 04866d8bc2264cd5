// PMIx, which Open MPI's mpirun and Slurm serve. The library is loaded when a launcher offers it, and only its header
// is needed to build this: programs for people who have neither shouldn't need it.
#include "perf/meeting/meeting.h"

#ifdef SOFTIB_PERF_PMIX

#include <dlfcn.h>
#include <fmt/format.h>
#include <pmix.h>

#include <cstdlib>
#include <cstring>

namespace softib::perf {

namespace {

using coll::Code;
using coll::Outcome;

constexpr const char* exchange_key = "softib.perf.id";

// The functions of the library that the launcher's daemon talks to.
class PmixLibrary {
 public:
  PmixLibrary() : handle_(::dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL)) {}  // its plug-ins look for its names
  [[nodiscard]] bool loaded() const { return handle_ != nullptr; }

  template <typename Function, typename... Arguments>
  pmix_status_t call(Function* /*its type*/, const char* name, Arguments... arguments) const {
    auto* function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function != nullptr ? function(arguments...) : PMIX_ERR_NOT_SUPPORTED;
  }

 private:
  void* handle_;  // stays open: it leaves threads behind
};

#define SOFTIB_PMIX(library, name, ...) (library).call(static_cast<decltype(name)*>(nullptr), #name, __VA_ARGS__)

Outcome<void> checked(pmix_status_t status, const char* what) {
  if (status == PMIX_SUCCESS) return {};
  return coll::refuse(Code::system_error, fmt::format("PMIx: {} failed with status {}", what, status));
}

pmix_proc_t process_of(const pmix_proc_t& self, pmix_rank_t rank) {
  pmix_proc_t process = self;
  process.rank = rank;
  return process;
}

Outcome<u32> job_size(const PmixLibrary& library, const pmix_proc_t& self) {
  const pmix_proc_t everyone = process_of(self, PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  const pmix_info_t* no_info = nullptr;
  const auto got = checked(SOFTIB_PMIX(library, PMIx_Get, &everyone, PMIX_JOB_SIZE, no_info, std::size_t{0}, &value),
                           "asking for the number of processes");
  if (!got) return tl::unexpected(got.error());
  const u32 size = value->data.uint32;
  std::free(value);
  return size;
}

Outcome<void> publish(const PmixLibrary& library) {
  const auto id = coll::UniqueId::make();
  if (!id) return tl::unexpected(id.error());
  std::string text = to_text(*id);
  pmix_value_t value{};
  value.type = PMIX_STRING;
  value.data.string = text.data();
  return checked(SOFTIB_PMIX(library, PMIx_Put, PMIX_GLOBAL, exchange_key, &value), "putting the id");
}

Outcome<coll::UniqueId> exchange_id(const PmixLibrary& library, const pmix_proc_t& self) {
  if (self.rank == 0)
    if (auto put = publish(library); !put) return tl::unexpected(put.error());
  auto done = checked(library.call(static_cast<decltype(PMIx_Commit)*>(nullptr), "PMIx_Commit"), "committing");
  if (!done) return tl::unexpected(done.error());
  const pmix_proc_t everyone = process_of(self, PMIX_RANK_WILDCARD);
  pmix_info_t collect{};
  std::strncpy(collect.key, PMIX_COLLECT_DATA, sizeof(collect.key) - 1);
  collect.value.type = PMIX_BOOL;
  collect.value.data.flag = true;
  const pmix_info_t* info = &collect;
  done = checked(SOFTIB_PMIX(library, PMIx_Fence, &everyone, std::size_t{1}, info, std::size_t{1}), "the fence");
  if (!done) return tl::unexpected(done.error());
  const pmix_proc_t first = process_of(self, 0);
  pmix_value_t* value = nullptr;
  const pmix_info_t* no_info = nullptr;
  done =
      checked(SOFTIB_PMIX(library, PMIx_Get, &first, exchange_key, no_info, std::size_t{0}, &value), "getting the id");
  if (!done) return tl::unexpected(done.error());
  const auto id = value->type == PMIX_STRING ? id_from_text(value->data.string) : std::nullopt;
  std::free(value);
  if (!id) return coll::refuse(Code::system_error, "PMIx: what process 0 put there is no id");
  return *id;
}

Outcome<Meeting> join_job(const PmixLibrary& library, const pmix_proc_t& self) {
  const auto size = job_size(library, self);
  if (!size) return tl::unexpected(size.error());
  const auto id = exchange_id(library, self);
  if (!id) return tl::unexpected(id.error());
  return Meeting{self.rank, *size, *id};
}

}  // namespace

Joined join_by_pmix() {
  if (std::getenv("PMIX_NAMESPACE") == nullptr || std::getenv("PMIX_RANK") == nullptr) return std::nullopt;
  const PmixLibrary library;
  if (!library.loaded()) return std::nullopt;
  pmix_proc_t self{};
  pmix_info_t* no_info = nullptr;
  const auto begun = checked(SOFTIB_PMIX(library, PMIx_Init, &self, no_info, std::size_t{0}), "the first call");
  if (!begun) return tl::unexpected(begun.error());
  auto meeting = join_job(library, self);
  // In order, or mpirun calls our end a failure.
  const pmix_info_t* nothing = nullptr;
  const auto ended = checked(SOFTIB_PMIX(library, PMIx_Finalize, nothing, std::size_t{0}), "the last call");
  if (meeting && !ended) return tl::unexpected(ended.error());
  return meeting;
}

}  // namespace softib::perf

#else

namespace softib::perf {

Joined join_by_pmix() { return std::nullopt; }

}  // namespace softib::perf

#endif

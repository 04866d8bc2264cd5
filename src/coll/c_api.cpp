// softib_coll.h over the C++ interface.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "coll/comm/patience.h"
#include "coll/communicator.h"
#include "coll/softib_coll.h"

using softib::i32;
using softib::u32;
using softib::u64;
using softib::u8;

namespace coll = softib::coll;

struct softibComm {
  std::unique_ptr<coll::Communicator> communicator;
  std::map<int, coll::Scalar> factors;  // of premultiplied sums, by number
  int next_op = softibNumOps;
  std::map<void*, u64> registered;
  std::atomic<u32> users{0};  // threads inside a call
};

struct softibRequest {
  struct Part {
    softibComm_t comm;
    coll::Request request;
  };
  std::vector<Part> parts;
};

namespace {

static_assert(sizeof(softibUniqueId_t) == sizeof(coll::UniqueId));
static_assert(softibNumTypes == coll::type_table.size());
static_assert(softibAvg == static_cast<int>(coll::Op::avg));
static_assert(sizeof(size_t) == sizeof(u64));

thread_local std::string last_error;

softibResult_t failed(const coll::Error& error) {
  last_error = error.text;
  return static_cast<softibResult_t>(error.code);
}

softibResult_t misused(std::string text) { return failed({coll::Code::invalid_argument, std::move(text)}); }

template <typename T>
softibResult_t result_of(const coll::Outcome<T>& outcome) {
  return outcome ? softibSuccess : failed(outcome.error());
}

// A call on a communicator: softibCommAbort waits until it is over.
class Use {
 public:
  explicit Use(softibComm_t comm) : comm_(comm) { comm_->users.fetch_add(1, std::memory_order_acquire); }
  ~Use() { comm_->users.fetch_sub(1, std::memory_order_release); }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

 private:
  softibComm_t comm_;
};

struct Group {
  u32 depth = 0;
  struct Collective {
    softibComm_t comm;
    std::function<coll::Started()> start;
  };
  std::vector<Collective> collectives;
  std::vector<std::pair<softibComm_t, std::vector<coll::PointToPoint>>> messages;
  softibResult_t first_error = softibSuccess;

  std::vector<coll::PointToPoint>& messages_of(softibComm_t comm) {
    for (auto& [theirs, list] : messages)
      if (theirs == comm) return list;
    return messages.emplace_back(comm, std::vector<coll::PointToPoint>{}).second;
  }
};

thread_local Group group;

softibResult_t note(softibResult_t result) {
  if (group.depth != 0 && group.first_error == softibSuccess) group.first_error = result;
  return result;
}

softibResult_t wait_for(softibComm_t comm, const coll::Started& started) {
  if (!started) return failed(started.error());
  return result_of(comm->communicator->wait(*started));
}

// What a call does: at once, or at the end of the group. Lists that the caller gave must be in `start` by then.
template <typename F>
softibResult_t collective(softibComm_t comm, F start) {
  if (comm == nullptr) return note(misused("no communicator"));
  if (group.depth != 0) {
    group.collectives.push_back({comm, std::move(start)});
    return softibSuccess;
  }
  const Use use(comm);
  return wait_for(comm, start());
}

softibResult_t message(softibComm_t comm, coll::PointToPoint::Kind kind, void* memory, size_t count,
                       softibDataType_t datatype, int peer) {
  if (comm == nullptr) return note(misused("no communicator"));
  if (datatype < 0 || datatype >= softibNumTypes) return note(misused("no such element type"));
  const u64 size = coll::size_of(static_cast<coll::DataType>(datatype));
  if (peer < 0 || count > SIZE_MAX / 2 / size) return note(misused("no such peer, or too many elements"));
  const coll::PointToPoint mine{kind, static_cast<u32>(peer), memory, count * size};
  if (group.depth != 0) {
    group.messages_of(comm).push_back(mine);
    return softibSuccess;
  }
  const Use use(comm);
  return wait_for(comm, comm->communicator->start_messages({&mine, 1}));
}

coll::DataType type_of(softibDataType_t type) { return static_cast<coll::DataType>(type); }

// Of numbers that nobody made, the interface below says what is wrong with them.
coll::Reduction reduction_of(softibComm_t comm, softibDataType_t datatype, softibRedOp_t op) {
  coll::Reduction reduction{type_of(datatype), static_cast<coll::Op>(op), {}};
  if (op < softibNumOps) return reduction;
  const auto factor = comm->factors.find(op);
  reduction.op = factor == comm->factors.end() ? static_cast<coll::Op>(255) : coll::Op::premul_sum;
  if (factor != comm->factors.end()) reduction.factor = factor->second;
  return reduction;
}

u32 root_of(int root) { return root < 0 ? ~u32{0} : static_cast<u32>(root); }

std::vector<u64> list_of(softibComm_t comm, const size_t* numbers) {
  if (comm == nullptr || numbers == nullptr) return {};
  return {numbers, numbers + comm->communicator->size()};
}

bool is_over(const coll::Outcome<bool>& tested) { return !tested || *tested; }

// All communicators move on meanwhile: other ranks may wait for them in another order.
softibResult_t wait_for_all(const std::vector<softibRequest::Part>& parts) {
  coll::Patience patience(parts.size() > 1);
  softibResult_t result = softibSuccess;
  std::vector<softibRequest::Part> left = parts;
  if (left.size() == 1) {
    const Use use(left[0].comm);
    return result_of(left[0].comm->communicator->wait(left[0].request));
  }
  while (!left.empty()) {
    std::erase_if(left, [&result](const softibRequest::Part& part) {
      const Use use(part.comm);
      const auto tested = part.comm->communicator->test(part.request);
      if (!tested) result = failed(tested.error());
      return is_over(tested);
    });
    static_cast<void>(patience.rest());
  }
  return result;
}

softibResult_t start_group(std::vector<softibRequest::Part>& parts) {
  const Group mine = std::exchange(group, {});
  softibResult_t result = mine.first_error;
  const auto add = [&](softibComm_t comm, const coll::Started& started) {
    if (started)
      parts.push_back({comm, *started});
    else if (result == softibSuccess)
      result = failed(started.error());
  };
  for (const Group::Collective& each : mine.collectives) {
    if (result != softibSuccess) break;
    const Use use(each.comm);
    add(each.comm, each.start());
  }
  for (const auto& [comm, messages] : mine.messages) {
    if (result != softibSuccess) break;
    const Use use(comm);
    add(comm, comm->communicator->start_messages(messages));
  }
  return result;
}

softibResult_t end_group(softibRequest_t* request) {
  if (group.depth == 0) return failed({coll::Code::invalid_usage, "a group ends that has not begun"});
  if (group.depth > 1) {
    if (request != nullptr) return failed({coll::Code::invalid_usage, "only the outermost group has a request"});
    --group.depth;
    return softibSuccess;
  }
  std::vector<softibRequest::Part> parts;
  const softibResult_t result = start_group(parts);
  if (request == nullptr || result != softibSuccess) {
    const softibResult_t waited = wait_for_all(parts);
    return result != softibSuccess ? result : waited;
  }
  *request = new softibRequest{std::move(parts)};
  return softibSuccess;
}

softibResult_t new_comm(coll::Outcome<std::unique_ptr<coll::Communicator>> made, softibComm_t* comm) {
  if (!made) return failed(made.error());
  *comm = *made == nullptr ? nullptr : new softibComm{std::move(*made), {}, softibNumOps, {}, {}};
  return softibSuccess;
}

}  // namespace

softibResult_t softibGetVersion(int* version) {
  if (version == nullptr) return misused("no place for the version");
  *version = 10000 * SOFTIB_COLL_MAJOR + 100 * SOFTIB_COLL_MINOR + SOFTIB_COLL_PATCH;
  return softibSuccess;
}

const char* softibGetErrorString(softibResult_t result) {
  static constexpr const char* texts[] = {
      "no error",         "unhandled device error", "a system call or a verb failed",         "internal error",
      "invalid argument", "invalid usage",          "another rank failed, hangs or has left", "operation in progress"};
  return result >= 0 && result < softibNumResults ? texts[result] : "unknown result";
}

const char* softibGetLastError(softibComm_t /*comm*/) { return last_error.c_str(); }

softibResult_t softibGetUniqueId(softibUniqueId_t* id) {
  if (id == nullptr) return misused("no place for the unique id");
  const auto made = coll::UniqueId::make();
  if (!made) return failed(made.error());
  std::memcpy(id->internal, made->bytes.data(), sizeof id->internal);
  return softibSuccess;
}

softibResult_t softibCommInitRankConfig(softibComm_t* comm, int nranks, softibUniqueId_t id, int rank,
                                        const softibConfig_t* config) {
  if (comm == nullptr) return misused("no place for the communicator");
  if (nranks < 1 || rank < 0 || rank >= nranks) return misused(fmt::format("rank {} of {} ranks", rank, nranks));
  if (group.depth != 0) return failed({coll::Code::invalid_usage, "communicators are not made in groups"});
  coll::Config chosen;
  if (config != nullptr && config->size != sizeof *config) return misused("a configuration of another version");
  if (config != nullptr && config->timeout > 0)
    chosen.timeout =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(config->timeout));
  if (config != nullptr && config->name != nullptr) chosen.name = config->name;
  coll::UniqueId place;
  std::memcpy(place.bytes.data(), id.internal, sizeof id.internal);
  return new_comm(coll::Communicator::create(place, static_cast<u32>(nranks), static_cast<u32>(rank), chosen), comm);
}

softibResult_t softibCommInitRank(softibComm_t* comm, int nranks, softibUniqueId_t id, int rank) {
  return softibCommInitRankConfig(comm, nranks, id, rank, nullptr);
}

softibResult_t softibCommSplit(softibComm_t comm, int color, int key, softibComm_t* newcomm) {
  if (comm == nullptr || newcomm == nullptr) return misused("no communicator, or no place for one");
  if (group.depth != 0) return failed({coll::Code::invalid_usage, "communicators are not made in groups"});
  const Use use(comm);
  return new_comm(comm->communicator->split(color, key), newcomm);
}

softibResult_t softibCommShrink(softibComm_t comm, const int* excluded, int count, softibComm_t* newcomm) {
  if (comm == nullptr || newcomm == nullptr) return misused("no communicator, or no place for one");
  std::vector<u32> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(root_of(excluded[i]));
  const Use use(comm);
  return new_comm(comm->communicator->shrink(ranks), newcomm);
}

softibResult_t softibCommFinalize(softibComm_t comm) {
  if (comm == nullptr) return misused("no communicator");
  const Use use(comm);
  return result_of(comm->communicator->wait_all());
}

softibResult_t softibCommDestroy(softibComm_t comm) {
  if (comm == nullptr) return softibSuccess;
  const softibResult_t result = softibCommFinalize(comm);
  delete comm;
  return result;
}

softibResult_t softibCommAbort(softibComm_t comm) {
  if (comm == nullptr) return softibSuccess;
  comm->communicator->abort("softibCommAbort");
  while (comm->users.load(std::memory_order_acquire) != 0) std::this_thread::yield();
  delete comm;
  return softibSuccess;
}

softibResult_t softibCommGetAsyncError(softibComm_t comm, softibResult_t* error) {
  if (comm == nullptr || error == nullptr) return misused("no communicator, or no place for the error");
  const auto found = comm->communicator->async_error();
  *error = found ? failed(*found) : softibSuccess;
  return softibSuccess;
}

softibResult_t softibCommCount(softibComm_t comm, int* count) {
  if (comm == nullptr || count == nullptr) return misused("no communicator, or no place for the count");
  *count = static_cast<int>(comm->communicator->size());
  return softibSuccess;
}

softibResult_t softibCommUserRank(softibComm_t comm, int* rank) {
  if (comm == nullptr || rank == nullptr) return misused("no communicator, or no place for the rank");
  *rank = static_cast<int>(comm->communicator->rank());
  return softibSuccess;
}

softibResult_t softibMemAlloc(softibComm_t comm, void** memory, size_t size) {
  if (comm == nullptr || memory == nullptr) return misused("no communicator, or no place for the memory");
  const Use use(comm);
  const auto made = comm->communicator->allocate(size);
  if (made) *memory = *made;
  return result_of(made);
}

softibResult_t softibMemFree(softibComm_t comm, void* memory) {
  if (comm == nullptr) return misused("no communicator");
  const Use use(comm);
  comm->communicator->free_memory(memory);
  return softibSuccess;
}

softibResult_t softibCommRegister(softibComm_t comm, void* memory, size_t size, void** handle) {
  if (comm == nullptr || handle == nullptr) return misused("no communicator, or no place for the handle");
  const Use use(comm);
  comm->communicator->register_memory(memory, size);
  comm->registered[memory] = size;
  *handle = memory;
  return softibSuccess;
}

softibResult_t softibCommDeregister(softibComm_t comm, void* handle) {
  if (comm == nullptr) return misused("no communicator");
  const Use use(comm);
  const auto entry = comm->registered.find(handle);
  if (entry == comm->registered.end()) return misused("memory that is not registered");
  comm->communicator->deregister_memory(handle, entry->second);
  comm->registered.erase(entry);
  return softibSuccess;
}

softibResult_t softibRedOpCreatePreMulSum(softibRedOp_t* op, const void* scalar, softibDataType_t datatype,
                                          softibScalarResidence_t /*residence*/, softibComm_t comm) {
  if (op == nullptr || scalar == nullptr || comm == nullptr) return misused("no operator, scalar or communicator");
  if (datatype < 0 || datatype >= softibNumTypes) return misused("no such element type");
  comm->factors[comm->next_op] = coll::Scalar::of(type_of(datatype), scalar);
  *op = static_cast<softibRedOp_t>(comm->next_op++);
  return softibSuccess;
}

softibResult_t softibRedOpDestroy(softibRedOp_t op, softibComm_t comm) {
  if (comm == nullptr || comm->factors.erase(op) == 0) return misused("no such operator");
  return softibSuccess;
}

softibResult_t softibAllReduce(const void* sendbuff, void* recvbuff, size_t count, softibDataType_t datatype,
                               softibRedOp_t op, softibComm_t comm) {
  return collective(comm, [=] {
    return comm->communicator->start_all_reduce(sendbuff, recvbuff, count, reduction_of(comm, datatype, op));
  });
}

softibResult_t softibReduce(const void* sendbuff, void* recvbuff, size_t count, softibDataType_t datatype,
                            softibRedOp_t op, int root, softibComm_t comm) {
  return collective(comm, [=] {
    return comm->communicator->start_reduce(sendbuff, recvbuff, count, reduction_of(comm, datatype, op), root_of(root));
  });
}

softibResult_t softibBroadcast(const void* sendbuff, void* recvbuff, size_t count, softibDataType_t datatype, int root,
                               softibComm_t comm) {
  return collective(comm, [=] {
    return comm->communicator->start_broadcast(sendbuff, recvbuff, count, type_of(datatype), root_of(root));
  });
}

softibResult_t softibBcast(void* buff, size_t count, softibDataType_t datatype, int root, softibComm_t comm) {
  return softibBroadcast(buff, buff, count, datatype, root, comm);
}

softibResult_t softibAllGather(const void* sendbuff, void* recvbuff, size_t sendcount, softibDataType_t datatype,
                               softibComm_t comm) {
  return collective(
      comm, [=] { return comm->communicator->start_all_gather(sendbuff, recvbuff, sendcount, type_of(datatype)); });
}

softibResult_t softibReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, softibDataType_t datatype,
                                   softibRedOp_t op, softibComm_t comm) {
  return collective(comm, [=] {
    return comm->communicator->start_reduce_scatter(sendbuff, recvbuff, recvcount, reduction_of(comm, datatype, op));
  });
}

softibResult_t softibGather(const void* sendbuff, void* recvbuff, size_t count, softibDataType_t datatype, int root,
                            softibComm_t comm) {
  return collective(comm, [=] {
    return comm->communicator->start_gather(sendbuff, recvbuff, count, type_of(datatype), root_of(root));
  });
}

softibResult_t softibScatter(const void* sendbuff, void* recvbuff, size_t count, softibDataType_t datatype, int root,
                             softibComm_t comm) {
  return collective(comm, [=] {
    return comm->communicator->start_scatter(sendbuff, recvbuff, count, type_of(datatype), root_of(root));
  });
}

softibResult_t softibAlltoAll(const void* sendbuff, void* recvbuff, size_t count, softibDataType_t datatype,
                              softibComm_t comm) {
  return collective(comm,
                    [=] { return comm->communicator->start_all_to_all(sendbuff, recvbuff, count, type_of(datatype)); });
}

softibResult_t softibAlltoAllv(const void* sendbuff, const size_t* sendcounts, const size_t* sendoffsets,
                               void* recvbuff, const size_t* recvcounts, const size_t* recvoffsets,
                               softibDataType_t datatype, softibComm_t comm) {
  return collective(comm, [=, counts = list_of(comm, sendcounts), offsets = list_of(comm, sendoffsets),
                           received = list_of(comm, recvcounts), places = list_of(comm, recvoffsets)] {
    return comm->communicator->start_all_to_all_v(sendbuff, {counts, offsets}, recvbuff, {received, places},
                                                  type_of(datatype));
  });
}

softibResult_t softibAllGatherv(const void* sendbuff, void* recvbuff, const size_t* counts, softibDataType_t datatype,
                                softibComm_t comm) {
  return collective(comm, [=, list = list_of(comm, counts)] {
    return comm->communicator->start_all_gather_v(sendbuff, recvbuff, list, type_of(datatype));
  });
}

softibResult_t softibReduceScatterv(const void* sendbuff, void* recvbuff, const size_t* counts,
                                    softibDataType_t datatype, softibRedOp_t op, softibComm_t comm) {
  return collective(comm, [=, list = list_of(comm, counts)] {
    return comm->communicator->start_reduce_scatter_v(sendbuff, recvbuff, list, reduction_of(comm, datatype, op));
  });
}

softibResult_t softibBarrier(softibComm_t comm) {
  return collective(comm, [=] { return comm->communicator->start_barrier(); });
}

softibResult_t softibSend(const void* sendbuff, size_t count, softibDataType_t datatype, int peer, softibComm_t comm) {
  return message(comm, coll::PointToPoint::Kind::send, const_cast<void*>(sendbuff), count, datatype, peer);
}

softibResult_t softibRecv(void* recvbuff, size_t count, softibDataType_t datatype, int peer, softibComm_t comm) {
  return message(comm, coll::PointToPoint::Kind::receive, recvbuff, count, datatype, peer);
}

softibResult_t softibGroupStart(void) {
  ++group.depth;
  return softibSuccess;
}

softibResult_t softibGroupEnd(void) { return end_group(nullptr); }

softibResult_t softibGroupEndRequest(softibRequest_t* request) {
  if (request == nullptr) return misused("no place for the request");
  return end_group(request);
}

softibResult_t softibRequestTest(softibRequest_t request, int* done) {
  if (request == nullptr || done == nullptr) return misused("no request, or no place for the answer");
  softibResult_t result = softibSuccess;
  std::erase_if(request->parts, [&result](const softibRequest::Part& part) {
    const Use use(part.comm);
    const auto tested = part.comm->communicator->test(part.request);
    if (!tested) result = failed(tested.error());
    return is_over(tested);
  });
  *done = request->parts.empty() ? 1 : 0;
  if (request->parts.empty()) delete request;
  return result;
}

softibResult_t softibRequestWait(softibRequest_t request) {
  if (request == nullptr) return misused("no request");
  const softibResult_t result = wait_for_all(request->parts);
  delete request;
  return result;
}

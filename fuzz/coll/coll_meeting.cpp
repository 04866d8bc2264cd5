// What strangers and members say to the places where ranks meet. The first byte says in what pieces it comes; the rest
// is what comes, to a reader of frames, to each parser of a message, and to a rank that is connected already.
#include <sys/socket.h>

#include <algorithm>

#include "../require.h"
#include "coll/bootstrap/mesh.h"

namespace {

using namespace softib;
using namespace softib::coll;
using fuzz::require;

using View = std::span<const std::byte>;

template <typename T>
void check_round_trip(View body) {
  if (const auto message = T::parse(body)) require(std::ranges::equal(message->emit(), body));
}

void check_messages(View body) {
  check_round_trip<Join>(body);
  check_round_trip<Reason>(body);
  check_round_trip<Blame>(body);
  check_round_trip<Gather>(body);
  if (const auto hello = Hello::parse(body)) require(Hello::parse(hello->emit()).has_value());
  if (const auto table = Table::parse(body)) require(Table::parse(table->emit()).has_value());
  UniqueId id;
  std::copy_n(body.begin(), std::min(body.size(), id.bytes.size()), id.bytes.begin());
  if (const auto place = MeetingPlace::parse(id)) require(MeetingPlace::parse(place->emit()).has_value());
}

// However it is cut, the same frames come out.
std::size_t count_frames(View stream, std::size_t piece) {
  FrameReader reader(most_stranger_bytes);
  std::size_t count = 0;
  for (; !stream.empty(); stream = stream.subspan(std::min(piece, stream.size()))) {
    reader.take(stream.first(std::min(piece, stream.size())));
    while (const auto frame = reader.next()) {
      require(frame->body.size() <= most_stranger_bytes);
      check_messages(frame->body);
      ++count;
    }
  }
  return count;
}

void check_mesh(View stream) {
  int ends[2];
  require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Fd other(ends[1]);
  Joining::Joined joined;
  for (u32 rank = 0; rank < 2; ++rank) joined.members.push_back({.rank = rank, .host = "host", .address = "::1"});
  joined.peers.emplace_back(Fd(), most_frame_bytes);
  joined.peers.emplace_back(Fd(ends[0]), most_frame_bytes);
  const auto mesh = Mesh::of(std::move(joined), 0, std::chrono::nanoseconds(0));
  require(mesh.has_value());
  [[maybe_unused]] const auto sent = ::send(other.get(), stream.data(), stream.size(), MSG_NOSIGNAL);
  const auto all = (*mesh)->all_gather(stream.first(std::min<std::size_t>(stream.size(), 16)));
  if (all) require(all->size() == 2);
  other.reset();
  u32 ends_told = 0, aborts_told = 0;
  while (const auto news = (*mesh)->news()) {
    require(news->rank == 1 && news->waits_for < 2);
    using enum Bootstrap::News::Kind;
    ends_told += news->kind == ended ? 1 : 0;
    aborts_told += news->kind == aborted ? 1 : 0;
  }
  require(ends_told <= 1 && aborts_told <= 1);
  require(!(*mesh)->all_gather({}) || all);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  if (size == 0) return 0;
  const View stream = std::as_bytes(std::span(data, size)).subspan(1);
  require(count_frames(stream, data[0] + 1U) == count_frames(stream, stream.size() + 1));
  check_messages(stream);
  check_mesh(stream);
  return 0;
}

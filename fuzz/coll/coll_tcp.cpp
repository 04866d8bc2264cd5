// A peer of the TCP transport that says anything, while receives and sends are posted. Commands of eight bytes:
//
//   +---------+---------+----------+-----------+-----------+
//   | what 1  | kind 1  | name 1   | token 1   | bytes 4   |
//   +---------+---------+----------+-----------+-----------+
//
//   what: 0 a header to the transport; 1 so many bytes to it; 2 a receive, 3 one with a sink, 4 a send, with the name
//   as stream; 5 progress; 6 gives up; else the eight bytes as they are to the transport
#include <sys/socket.h>

#include <algorithm>
#include <deque>

#include "../require.h"
#include "coll/transport/tcp/transport.h"

namespace {

using namespace softib;
using namespace softib::coll;
using fuzz::require;

constexpr u64 most_bytes = 300'000;
constexpr std::size_t most_operations = 64;

struct CheckingSink final : Sink {
  void take(u64 offset, const void* data, u64 count) override {
    require(data && offset == taken && count <= bytes - taken);
    taken += count;
    require(count % 64 == 0 || taken == bytes);
  }
  u64 bytes = 0;
  u64 taken = 0;
};

class Player {
 public:
  Player() : memory_(most_bytes) {
    int ends[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    peer_.reset(ends[1]);
    std::vector<std::unique_ptr<tcp::Connection>> connections(2);
    connections[1] = std::make_unique<tcp::Connection>(Fd(ends[0]), Member{.rank = 1, .host = "host1", .address = ""});
    transport_ = std::make_unique<tcp::TcpTransport>(std::move(connections));
    require(transport_->open_descriptors().has_value());
  }

  void play(std::span<const unsigned char> command) {
    const u64 bytes = (command[4] | command[5] << 8 | command[6] << 16) % (most_bytes + 1);
    if (command[0] == 0) say(tcp::emit({static_cast<tcp::Kind>(command[1]), command[2], bytes, command[3]}));
    if (command[0] == 1) say(std::span(memory_).first(bytes));
    if (command[0] == 2 || command[0] == 3) receive(command[2], bytes, command[0] == 3);
    if (command[0] == 4) send(command[2], bytes);
    if (command[0] == 5) progress();
    if (command[0] == 6) transport_->give_up(1);
    if (command[0] > 6) say(std::as_bytes(command));
  }

  void end() {
    progress();
    peer_.reset();
    for (int i = 0; i < 64 && transport_->progress();) ++i;
    const auto broken = transport_->broken();
    require(!broken || (broken->peer == 1 && !transport_->broken()));
    for (const Receive& receive : receives_) {
      require(receive.state != State::waiting);
      if (receive.sink && receive.state == State::done)
        require(static_cast<CheckingSink*>(receive.sink)->taken == receive.bytes);
    }
    for (const Send& send : sends_) require(send.state != State::waiting);
  }

 private:
  void say(std::span<const std::byte> bytes) {
    [[maybe_unused]] const auto sent = ::send(peer_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void progress() {
    std::array<std::byte, 65536> answers;
    while (::recv(peer_.get(), answers.data(), answers.size(), 0) > 0) continue;
    transport_->progress();
  }
  void receive(Stream stream, u64 bytes, bool with_sink) {
    if (receives_.size() >= most_operations) return;
    Receive& receive = receives_.emplace_back();
    receive.peer = 1;
    receive.stream = stream;
    receive.bytes = bytes;
    if (with_sink) {
      sinks_.emplace_back().bytes = bytes;
      receive.sink = &sinks_.back();
    } else {
      blocks_.emplace_back(bytes);
      receive.memory = blocks_.back().data();
    }
    transport_->receive(receive);
  }
  void send(Stream stream, u64 bytes) {
    if (sends_.size() >= most_operations) return;
    Send& send = sends_.emplace_back();
    send.peer = 1;
    send.stream = stream;
    send.bytes = bytes;
    send.memory = memory_.data();
    transport_->send(send);
  }

  Bytes memory_;
  std::deque<Bytes> blocks_;
  std::deque<CheckingSink> sinks_;
  std::deque<Receive> receives_;
  std::deque<Send> sends_;
  Fd peer_;
  std::unique_ptr<tcp::TcpTransport> transport_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  constexpr std::size_t command_bytes = 8;
  Player player;
  for (std::span rest(data, size); rest.size() >= command_bytes; rest = rest.subspan(command_bytes))
    player.play(rest.first(command_bytes));
  player.end();
  return 0;
}

// Any bytes as MADs of communication management to a host that listens, connects and answers. Whatever comes, nothing
// is left when its user has let go of everything and time has passed.
//
//   one record, the last one filled up with zeros:
//   +------------------+---------------------+-----------------+
//   | what its user    | time that passes    |  256 bytes MAD  |
//   | does             | before, in 32 ms    |                 |
//   +------------------+---------------------+-----------------+
#include <algorithm>
#include <set>

#include "../require.h"
#include "cm/manager.h"

namespace {

using namespace softib;
using fuzz::require;

constexpr size_t head_size = 2;
constexpr size_t record_size = head_size + wire::mad_size;
constexpr size_t most_records = 64;
constexpr u64 tick = 32'000'000;
constexpr u64 long_after = 1ULL << 50;

class User final : public cm::Manager::Outside {
 public:
  void send(u32, const wire::Packet& packet) override { require(wire::cm::is_message(packet.mad)); }
  void happened(const cm::Event& event) override { ids.insert(event.id); }
  [[nodiscard]] u64 ca_guid(u32) const override { return 1; }
  std::set<u32> ids;
};

void act(cm::Manager& manager, User& user, u8 action, u64 now) {
  for (u32 id : std::set(user.ids)) {
    switch (action % 8) {
      case 0:
        static_cast<void>(manager.accept(id, {.qpn = 7, .private_data = {}}, now));
        break;
      case 1:
        static_cast<void>(manager.confirm(id, now));
        break;
      case 2:
        static_cast<void>(manager.disconnect(id, now));
        break;
      case 3:
        static_cast<void>(manager.part(id, now));
        break;
      case 4:
        static_cast<void>(manager.ask_for_time(id, 20));
        break;
      case 5:
        static_cast<void>(manager.answer_service(id, {.qpn = 7, .private_data = {}}));
        break;
      case 6:
        manager.destroy(id, now);
        user.ids.erase(id);
        break;
      default:
        break;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  User user;
  cm::Manager manager(user);
  const u32 listener = manager.create(), asker = manager.create();
  require(manager.listen(listener, 0, ~0xffULL).has_value());
  cm::ConnectParameters parameters;
  parameters.port = 1;
  parameters.qpn = 5;
  require(manager.connect(asker, parameters, 0).has_value());
  user.ids.insert(asker);
  u64 now = 0;
  const size_t records = std::min((size + record_size - 1) / record_size, most_records);
  for (size_t i = 0; i < records; ++i) {
    std::array<u8, record_size> record{};
    std::copy_n(data + i * record_size, std::min(record_size, size - i * record_size), record.begin());
    now += record[1] * tick;
    manager.on_time(now);
    wire::Packet packet;
    std::copy_n(record.begin() + head_size, wire::mad_size, packet.mad.begin());
    manager.received(1, packet, (record[0] & 0x80) != 0, now);
    act(manager, user, record[0], now);
  }
  for (u32 id : user.ids) manager.destroy(id, now);
  manager.destroy(listener, now);
  require(manager.connections() == 0);
  require(manager.on_time(now + long_after) == ~0ULL);
  require(manager.waiting() == 0);
  return 0;
}

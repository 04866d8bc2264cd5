#include "coll/bootstrap/bootstrap.h"
#include "coll/bootstrap/meeting.h"
#include "coll/environment.h"

namespace softib::coll {

namespace {

// No secret: all ranks make the same of what they have in common. It keeps strangers away, not enemies.
Key key_of_text(std::string_view text) {
  Key key{};
  u64 hash = 0xcbf2'9ce4'8422'2325;
  for (std::size_t i = 0; i < key.size(); ++i) {
    for (unsigned char c : text) hash = (hash ^ c) * 0x100'0000'01b3;
    hash = (hash ^ i) * 0x100'0000'01b3;
    key[i] = static_cast<std::byte>(hash >> 32);
  }
  return key;
}

Outcome<UniqueId> agreed_id(const Environment& environment) {
  auto address = Address::resolve(environment.comm_id);
  if (!address) return refuse(address.error().code, "SOFTIB_COMM_ID: " + address.error().text);
  return MeetingPlace{MeetingPlace::Kind::agreed, {*address}, key_of_text(environment.comm_id)}.emit();
}

}  // namespace

Outcome<UniqueId> UniqueId::make() {
  const Environment environment = Environment::read();
  return environment.comm_id.empty() ? make_apart() : agreed_id(environment);
}

}  // namespace softib::coll

// Look-ups in the fabric's hosts file, and the answers of gethostbyname's family.
#include "shim/names.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>

namespace softib::shim {
namespace {

constexpr std::string_view text =
    "127.0.0.1 localhost\n::1 localhost\n10.255.0.1\thost0\n10.0.0.1 host0-ib0\n"
    "fd53::1 host0-ip6\n127.64.0.2 host1 host1-ib0\n10.255.255.254 desk\nnonsense host9\n10.9.9.9\n10.8.8.8 last";

std::string found(std::string_view name, int family = AF_UNSPEC) {
  auto entry = find_name(text, name, family);
  char address[INET6_ADDRSTRLEN];
  return entry ? entry->name + " " +
                     inet_ntop(entry->address.family, entry->address.bytes.data(), address, sizeof address)
               : "";
}

TEST(Names, LeadToAddresses) {
  EXPECT_EQ(found("host0"), "host0 10.255.0.1");
  EXPECT_EQ(found("host0-ib0", AF_INET), "host0-ib0 10.0.0.1");
  EXPECT_EQ(found("HOST0"), "host0 10.255.0.1");
  EXPECT_EQ(found("last"), "last 10.8.8.8");
}

TEST(Names, OfALineBelongToItsFirst) { EXPECT_EQ(found("host1-ib0"), "host1 127.64.0.2"); }

TEST(Names, KeepToTheFamily) {
  EXPECT_EQ(found("host0-ip6", AF_INET6), "host0-ip6 fd53::1");
  EXPECT_EQ(found("host0-ip6", AF_INET), "");
  EXPECT_EQ(found("host0", AF_INET6), "");
}

TEST(Names, OfTheMachineAndOthersAreNotOurs) {
  for (const char* name : {"localhost", "desk", "host", "host00", "host9", "", "10.255.0.1"})
    EXPECT_EQ(found(name), "");
}

TEST(Names, AreFoundByAddress) {
  HostAddress address;
  inet_pton(AF_INET, "127.64.0.2", address.bytes.data());
  EXPECT_EQ(find_address(text, address)->name, "host1");
  inet_pton(AF_INET, "127.0.0.1", address.bytes.data());
  EXPECT_FALSE(find_address(text, address));
}

TEST(Names, SocketAddressesAreLookedInto) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  inet_pton(AF_INET, "10.255.0.1", &address.sin_addr);
  const auto* general = reinterpret_cast<const sockaddr*>(&address);
  EXPECT_EQ(find_address(text, *address_in(general, sizeof address))->name, "host0");
  EXPECT_FALSE(address_in(general, 4));
  EXPECT_FALSE(address_in(nullptr, sizeof address));
  address.sin_family = AF_UNIX;
  EXPECT_FALSE(address_in(general, sizeof address));
}

TEST(HostEntries, FitWhereTheyAreWanted) {
  const auto entry = find_name(text, "host0", AF_INET);
  alignas(16) char room[256];
  // From every alignment, and with every room: whole, or not at all.
  for (size_t shift = 0; shift < 8; ++shift)
    for (size_t size = 0; size + shift <= sizeof room; ++size) {
      std::memset(room, 'x', sizeof room);
      hostent answer{};
      if (!fill(*entry, answer, room + shift, size)) continue;
      ASSERT_STREQ(answer.h_name, "host0");
      ASSERT_EQ(answer.h_length, 4);
      ASSERT_EQ(std::memcmp(answer.h_addr_list[0], "\x0a\xff\x00\x01", 4), 0);
      ASSERT_EQ(answer.h_addr_list[1], nullptr);
      ASSERT_EQ(answer.h_aliases[0], nullptr);
      ASSERT_LE(answer.h_name + 6, room + shift + size);
      for (size_t i = shift + size; i < sizeof room; ++i) ASSERT_EQ(room[i], 'x');
    }
  hostent answer{};
  EXPECT_FALSE(fill(*entry, answer, room, 16));
  EXPECT_TRUE(fill(*entry, answer, room, sizeof room));
}

}  // namespace
}  // namespace softib::shim

#include "rtnl/rtnl.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/addr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/release.h"

namespace softib::rtnl {

namespace {

using LibraryAddress = std::unique_ptr<rtnl_addr, Release<rtnl_addr_put>>;
using Cache = std::unique_ptr<nl_cache, Release<nl_cache_free>>;

// libnl turns the kernel's numbers into its own, several into one; these are the ones that callers tell apart.
int errno_of(int number) {
  constexpr std::pair<int, int> known[] = {{NLE_PERM, EPERM},   {NLE_NOACCESS, EACCES},     {NLE_OPNOTSUPP, EOPNOTSUPP},
                                           {NLE_NODEV, ENODEV}, {NLE_EXIST, EEXIST},        {NLE_INVAL, EINVAL},
                                           {NLE_RANGE, ERANGE}, {NLE_BUSY, EBUSY},          {NLE_NOMEM, ENOMEM},
                                           {NLE_AGAIN, EAGAIN}, {NLE_NOADDR, EADDRNOTAVAIL}};
  for (const auto& [theirs, ours] : known)
    if (theirs == number) return ours;
  return EIO;
}

std::size_t size_of(int family) { return family == AF_INET ? 4 : 16; }

bool is_link_local(const InterfaceAddress& address) {
  return address.family == AF_INET6 && address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
}

}  // namespace

void Free::operator()(nl_sock* socket) const { nl_socket_free(socket); }
void Free::operator()(nl_msg* message) const { nlmsg_free(message); }
void Free::operator()(nl_addr* address) const { nl_addr_put(address); }

std::span<const u8> InterfaceAddress::view() const { return {bytes.data(), size_of(family)}; }

Result<void> outcome(int result) {
  if (result >= 0) return {};
  return fail(errno_of(-result));
}

Result<Socket> connect() {
  Socket socket(nl_socket_alloc());
  if (!socket) return fail(ENOMEM);
  if (auto done = outcome(nl_connect(socket.get(), NETLINK_ROUTE)); !done) return fail(done.error());
  return socket;
}

Result<void> carry_out(nl_sock* socket, Message request) {
  if (!request) return fail(ENOMEM);
  return outcome(nl_send_sync(socket, request.release()));
}

namespace {

struct Exchange {
  const std::function<void(nlmsghdr&)>& answer;
  bool acknowledged = false;
};

int take_answer(nl_msg* message, void* to) {
  static_cast<Exchange*>(to)->answer(*nlmsg_hdr(message));
  return NL_OK;
}

int take_acknowledgement(nl_msg*, void* to) {
  static_cast<Exchange*>(to)->acknowledged = true;
  return NL_STOP;
}

}  // namespace

// The acknowledgement is a message of its own behind the answer.
Result<void> ask(nl_sock* socket, Message request, const std::function<void(nlmsghdr&)>& answer) {
  if (!request) return fail(ENOMEM);
  if (auto sent = outcome(nl_send_auto(socket, request.get())); !sent) return sent;
  Exchange exchange{answer};
  nl_socket_modify_cb(socket, NL_CB_VALID, NL_CB_CUSTOM, take_answer, &exchange);
  nl_socket_modify_cb(socket, NL_CB_ACK, NL_CB_CUSTOM, take_acknowledgement, &exchange);
  int result = 0;
  while (result >= 0 && !exchange.acknowledged) result = nl_recvmsgs_default(socket);
  for (const nl_cb_type kind : {NL_CB_VALID, NL_CB_ACK})
    nl_socket_modify_cb(socket, kind, NL_CB_DEFAULT, nullptr, nullptr);
  return outcome(result);
}

Result<std::vector<InterfaceAddress>> addresses(nl_sock* socket) {
  nl_cache* all = nullptr;
  int result = -NLE_DUMP_INTR;  // something changed meanwhile
  for (int tries = 0; tries < 3 && result == -NLE_DUMP_INTR; ++tries) result = rtnl_addr_alloc_cache(socket, &all);
  if (auto done = outcome(result); !done) return fail(done.error());
  const Cache cache(all);
  std::vector<InterfaceAddress> found;
  for (nl_object* object = nl_cache_get_first(all); object; object = nl_cache_get_next(object)) {
    auto* one = reinterpret_cast<rtnl_addr*>(object);
    nl_addr* local = rtnl_addr_get_local(one);
    if (!local) continue;
    InterfaceAddress address;
    address.interface = static_cast<u32>(rtnl_addr_get_ifindex(one));
    address.family = rtnl_addr_get_family(one);
    address.prefix = static_cast<u8>(rtnl_addr_get_prefixlen(one));
    if (nl_addr_get_len(local) != size_of(address.family)) continue;
    std::memcpy(address.bytes.data(), nl_addr_get_binary_addr(local), size_of(address.family));
    found.push_back(address);
  }
  return found;
}

Result<void> add(nl_sock* socket, const InterfaceAddress& address) {
  const bool v4 = address.family == AF_INET;
  const Address local(nl_addr_build(address.family, address.bytes.data(), size_of(address.family)));
  if (!local) return fail(ENOMEM);
  nl_addr_set_prefixlen(local.get(), address.prefix);
  const LibraryAddress wanted(rtnl_addr_alloc());
  rtnl_addr_set_ifindex(wanted.get(), static_cast<int>(address.interface));
  rtnl_addr_set_local(wanted.get(), local.get());
  if (!v4) rtnl_addr_set_flags(wanted.get(), IFA_F_NODAD);
  rtnl_addr_set_scope(wanted.get(), is_link_local(address) ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE);
  constexpr u8 longest_with_broadcast = 30;
  if (v4 && address.prefix <= longest_with_broadcast) {
    std::array<u8, 4> bytes;
    std::copy_n(address.bytes.begin(), 4, bytes.begin());
    for (u32 bit = address.prefix; bit < 32; ++bit) bytes[bit / 8] |= static_cast<u8>(0x80 >> bit % 8);
    const Address broadcast(nl_addr_build(AF_INET, bytes.data(), bytes.size()));
    rtnl_addr_set_broadcast(wanted.get(), broadcast.get());
  }
  return outcome(rtnl_addr_add(socket, wanted.get(), NLM_F_CREATE | NLM_F_REPLACE));
}

// -- changes

namespace {

int note_change(nl_msg* message, void* to) {
  auto& changes = *static_cast<Changes*>(to);
  const u16 type = nlmsg_hdr(message)->nlmsg_type;
  changes.links |= type == RTM_NEWLINK || type == RTM_DELLINK;
  changes.addresses |= type == RTM_NEWADDR || type == RTM_DELADDR;
  changes.routes |= type == RTM_NEWROUTE || type == RTM_DELROUTE;
  return NL_OK;
}

}  // namespace

Result<Watch> Watch::open() {
  auto socket = connect();
  if (!socket) return fail(socket.error());
  nl_sock* const raw = socket->get();
  nl_socket_disable_seq_check(raw);
  constexpr int end = 0;
  if (auto joined = outcome(nl_socket_add_memberships(raw, RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
                                                      RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, end));
      !joined)
    return fail(joined.error());
  if (auto set = outcome(nl_socket_set_nonblocking(raw)); !set) return fail(set.error());
  Watch watch;
  watch.socket_ = std::move(*socket);
  return watch;
}

int Watch::fd() const { return nl_socket_get_fd(socket_.get()); }

Changes Watch::read() {
  Changes changes;
  nl_socket_modify_cb(socket_.get(), NL_CB_VALID, NL_CB_CUSTOM, note_change, &changes);
  for (;;) {
    const int result = nl_recvmsgs_default(socket_.get());
    if (result == -NLE_NOMEM) return {true, true, true};  // the kernel had to leave some out
    if (result < 0) return changes;
  }
}

}  // namespace softib::rtnl

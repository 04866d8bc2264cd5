// What rdma_cm answers: good and bad commands, in and out of order, and the events that follow, one line for each. The
// same program runs on a kernel and on SoftIB; cm_answers.txt is what Linux 6.1 says on a Soft-RoCE device.
//
//   cm_answers OWN STRANGER [--long SILENT]
//
// OWN: an IPv4 address of this host's first port; STRANGER: one in the same network that nobody has; SILENT: one that
// resolves; once a line comes in, it is not to answer any more.
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include "cm_file.h"

namespace conformance {
namespace {

constexpr u8 consumer_defined = 28;
constexpr int silence_ms = 300;  // that shows that nothing comes
constexpr u16 own_port = 7200;   // and those behind it: one for each group of rows

struct Place {
  std::string own, stranger;
};

void say(const std::string& what, const std::string& answer) {
  std::printf("%-58s %s\n", what.c_str(), answer.c_str());
  std::fflush(stdout);
}
void say(const std::string& what, int error) { say(what, errno_name(error)); }

// -- the file

void commands() {
  CmFile file;
  say("a command past the last", file.write(RDMA_USER_CM_CMD_JOIN_MCAST + 1, "", 0, 0));
  say("get_option", file.write(RDMA_USER_CM_CMD_GET_OPTION, "", 0, 0));
  u8 bytes[4096]{};
  say("a header cut short", ::write(file.fd(), bytes, 4) < 0 ? errno : 0);
  const rdma_ucm_cmd_hdr longer{RDMA_USER_CM_CMD_LISTEN, 100, 0};
  say("a structure longer than what is written", ::write(file.fd(), &longer, sizeof longer) < 0 ? errno : 0);
  rdma_ucm_create_id id{};
  id.ps = RDMA_PS_TCP;
  say("create_id without room for its answer", file.write(RDMA_USER_CM_CMD_CREATE_ID, &id, sizeof id, 0));
  say("create_id with its answer at address 0", file.write(RDMA_USER_CM_CMD_CREATE_ID, &id, sizeof id, 4));
  say("get_event without room", file.write(RDMA_USER_CM_CMD_GET_EVENT, bytes, sizeof(rdma_ucm_get_event), 16));
  say("get_event when there is none", file.event(0).words == "nothing" ? "nothing" : "something");
  rdma_ucm_event_resp response;
  say("get_event that may not wait", file.call(RDMA_USER_CM_CMD_GET_EVENT, rdma_ucm_get_event{}, response));
  say("connect cut short", file.write(RDMA_USER_CM_CMD_CONNECT, bytes, 8, 0));
  say("accept cut short", file.write(RDMA_USER_CM_CMD_ACCEPT, bytes, 8, 0));
}

void ids() {
  CmFile file, other;
  u32 id = 0;
  say("create_id in no port space", file.create(id, 0));
  say("create_id in a port space that is none", file.create(id, 0x0107));
  say("create_id in SDP's port space", file.create(id, 0x0001));
  for (const auto& [name, type] : {std::pair{"RC", IBV_QPT_RC}, {"UC", IBV_QPT_UC}, {"UD", IBV_QPT_UD}})
    say(std::string("create_id in IB's port space, ") + name, file.create(id, RDMA_PS_IB, static_cast<u8>(type)));
  say("create_id in IB's port space, no queue pair type", file.create(id, RDMA_PS_IB, 0));
  say("create_id in IPoIB's port space", file.create(id, RDMA_PS_IPOIB));
  say("create_id for UDP that names RC", file.create(id, RDMA_PS_UDP, IBV_QPT_RC));
  id = file.made();
  say("destroy_id by another file", other.destroy(id));
  say("destroy_id", file.destroy(id));
  say("destroy_id again", file.destroy(id));
  say("listen on an id that is gone", file.listen(id));
}

// -- addresses

void binding(const Place& at) {
  CmFile file;
  const auto own = address_of(at.own, own_port);
  u32 id = file.made();
  rdma_ucm_bind request{};
  request.id = id;
  request.addr_size = 5;
  std::memcpy(&request.addr, &own, sizeof request.addr);
  say("bind with a size that is not the family's", file.call(RDMA_USER_CM_CMD_BIND, request));
  request.addr_size = sizeof(sockaddr_in);
  request.reserved = 1;
  say("bind with something in a reserved field", file.call(RDMA_USER_CM_CMD_BIND, request));
  sockaddr_storage strange = own;
  strange.ss_family = AF_UNIX;
  say("bind to a family that is none", file.bind(id, strange));
  say("bind to an address of nobody", file.bind(id, address_of(at.stranger, own_port)));
  say("bind to an address in no network", file.bind(id, address_of("192.0.2.1", own_port)));
  say("bind to a multicast address", file.bind(id, address_of("239.1.1.1", own_port)));
  say("bind to a link-local address without its link", file.bind(id, address_of("fe80::1", own_port)));
  say("bind to an IPv6 address of nobody", file.bind(id, address_of("2001:db8::1", own_port)));
  say("bind", file.bind(id, own));
  say("bind again", file.bind(id, own));
  say("bind to the same port", file.bind(file.made(), own));
  say("bind to the same port of all addresses", file.bind(file.made(), address_of("0.0.0.0", own_port)));
  say("bind to the same port of loopback", file.bind(file.made(), address_of("127.0.0.1", own_port)));
  say("bind to the same port of all IPv6 addresses", file.bind(file.made(), address_of("::", own_port)));
  say("bind to the same port in another space", file.bind(file.made(RDMA_PS_UDP), own));
}

void sharing(const Place& at) {
  CmFile file;
  const u16 port = own_port + 1;
  const auto own = address_of(at.own, port);
  const int yes = 1, no = 0;
  const u32 first = file.made(), second = file.made(), third = file.made();
  say("reuseaddr", file.option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes));
  say("bind, and share", file.bind(first, own));
  say("bind to a shared port without saying so", file.bind(second, own));
  say("reuseaddr", file.option(third, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes));
  say("bind to a shared port", file.bind(third, own));
  say("listen on a shared port", file.listen(first));
  say("reuseaddr back", file.option(third, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &no, sizeof no));
  say("destroy the other", file.destroy(third));
  say("listen when nobody else is bound", file.listen(first));
  say("reuseaddr of a listener", file.option(first, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes));
  const u32 fourth = file.made();
  say("reuseaddr", file.option(fourth, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes));
  say("bind to the port of a listener, and share", file.bind(fourth, own));

  const u32 four = file.made(), six = file.made();
  say("bind to all IPv4 addresses", file.bind(four, address_of("0.0.0.0", port + 1)));
  say("afonly", file.option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes));
  say("bind to all IPv6 addresses and no others", file.bind(six, address_of("::", port + 1)));
  say("listen on both", std::max(file.listen(four), file.listen(six)));
}

void any_port(const Place& at) {
  CmFile file;
  const u32 id = file.made();
  say("bind to port 0", file.bind(id, address_of(at.own, 0)));
  rdma_ucm_query_addr_resp where{};
  say("query the address", file.call(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, id, RDMA_USER_CM_QUERY_ADDR}, where));
  sockaddr_in in{};
  std::memcpy(&in, &where.src_addr, sizeof in);
  const u16 port = ntohs(in.sin_port);
  say("an ephemeral port", port >= 32768 && port <= 60999 ? "yes" : "no");
  say("listen on it", file.listen(id));
  say("listen again", file.listen(id));
  const u32 fresh = file.made();
  say("listen without bind", file.listen(fresh));
  say("bind a listener", file.bind(fresh, address_of(at.own, own_port)));
  say("resolve_addr of a listener", file.resolve(fresh, address_of(at.own, 7000)));
  say("connect a listener", file.connect(fresh, parameters()));
  say("accept on a listener", file.accept(fresh, parameters()));
  say("disconnect a listener", file.disconnect(fresh));
  say("reject by a listener", file.reject(fresh, consumer_defined, 0));
  say("listen, backlog below zero", file.listen(file.made(), static_cast<u32>(-1)));
  say("listen without bind, for datagrams", file.listen(file.made(RDMA_PS_UDP)));
}

// An id that has asked for an address, and what came of it.
std::string resolved(CmFile& file, const std::string& to, u16 space = RDMA_PS_TCP) {
  const u32 id = file.made(space);
  const int error = file.resolve(id, address_of(to, 7000));
  const std::string answer = error ? errno_name(error) : file.event().words;
  file.destroy(id);
  return answer;
}

void resolving(const Place& at) {
  CmFile file;
  say("resolve_addr of one's own address", resolved(file, at.own));
  say("resolve_addr of nobody in the network", resolved(file, at.stranger));
  say("resolve_addr in no network", resolved(file, "192.0.2.1"));
  say("resolve_addr in no IPv6 network", resolved(file, "2001:db8::1"));
  say("resolve_addr of 0.0.0.0", resolved(file, "0.0.0.0"));
  say("resolve_addr of loopback", resolved(file, "127.0.0.1"));
  say("resolve_addr of ::1", resolved(file, "::1"));
  say("resolve_addr for IPoIB", resolved(file, at.own, RDMA_PS_IPOIB));
  say("resolve_addr for datagrams", resolved(file, at.own, RDMA_PS_UDP));
  u32 id = file.made();
  say("resolve_route without an address", file.route(id));
  say("resolve_addr from an address of nobody", [&] {
    const auto from = address_of("192.0.2.1");
    return file.resolve(id, address_of(at.own, 7000), 300, &from);
  }());
  say("resolve_addr from one family to another", [&] {
    const auto from = address_of("::");
    return file.resolve(id, address_of(at.own, 7000), 300, &from);
  }());
  say("resolve_addr from one's own address", [&] {
    const auto from = address_of(at.own);
    return file.resolve(id, address_of(at.own, 7000), 300, &from);
  }());
  say("", file.event(silence_ms).words);
  say("resolve_addr again", file.resolve(id, address_of(at.own, 7000)));
  say("bind after resolve_addr", file.bind(id, address_of(at.own, 7001)));
  say("listen after resolve_addr", file.listen(id));
  say("connect without a route", file.connect(id, parameters()));
  say("resolve_route", file.route(id));
  say("", file.event(silence_ms).words);
  say("resolve_route again", file.route(id));
  id = file.made();
  say("resolve_addr of nobody, no time given", file.resolve(id, address_of(at.stranger, 7000), 0));
  say("", file.event().words);
  say("resolve_addr after a failure", file.resolve(id, address_of(at.own, 7000)));
  say("", file.event().words);
}

// -- connections

// Two ends that a connection is made between, step by step.
struct Ends {
  explicit Ends(const Place& place, u16 wanted_port, u16 wanted_space = RDMA_PS_TCP, u32 backlog = 0)
      : at(place), port(wanted_port), space(wanted_space), listener(there.made(space)) {
    if (int error = there.bind(listener, address_of(at.own, port))) say("bind", error);
    if (int error = there.listen(listener, backlog)) say("listen", error);
  }

  // An id at the asking end that knows its way.
  u32 ready(u16 to = 0) {
    const u32 id = here.made(space);
    if (int error = here.resolve(id, address_of(at.own, to ? to : port))) say("resolve_addr", error);
    if (auto event = here.event(); event.words != "ADDR_RESOLVED 0") say("resolve_addr", event.words);
    if (int error = here.route(id)) say("resolve_route", error);
    if (auto event = here.event(); event.words != "ROUTE_RESOLVED 0") say("resolve_route", event.words);
    return id;
  }
  struct Asked {
    u32 asker, request;
    CmEvent event;
  };
  Asked asked(u8 private_data_len = 0) {
    const u32 id = ready();
    if (int error = here.connect(id, parameters(private_data_len))) say("connect", error);
    CmEvent event = there.event();
    if (event.words != "CONNECT_REQUEST 0") say("connect", event.words);
    return {id, event.response.id, event};
  }
  // The asker, as it has no queue pair of the library's, says itself that it has the reply.
  Asked connected() {
    Asked pair = asked();
    if (int error = there.accept(pair.request, parameters())) say("accept", error);
    if (auto event = here.event(); event.words != "CONNECT_RESPONSE 0") say("accept", event.words);
    if (int error = here.accept(pair.asker, {})) say("confirm", error);
    if (auto event = there.event(); event.words != "ESTABLISHED 0") say("confirm", event.words);
    return pair;
  }

  Place at;
  u16 port, space;
  CmFile here, there;
  u32 listener;
};

std::string data_of(const CmEvent& event) {
  const auto& p = event.response.param.conn;
  return event.words + ", " + std::to_string(p.private_data_len) + " bytes, first " +
         std::to_string(p.private_data[0]) + ", last " +
         std::to_string(p.private_data_len ? p.private_data[p.private_data_len - 1] : 0);
}

void asking(const Place& at) {
  Ends ends(at, own_port + 10);
  CmFile& here = ends.here;
  u32 id = here.made();
  say("connect without an address", here.connect(id, parameters()));
  say("disconnect without an address", here.disconnect(id));
  say("accept without an address", here.accept(id, parameters()));
  say("reject without an address", here.reject(id, consumer_defined, 0));
  id = ends.ready(own_port + 99);
  rdma_ucm_conn_param invalid = parameters();
  invalid.valid = 0;
  say("connect without parameters", here.connect(id, invalid));
  say("disconnect before connect", here.disconnect(id));
  say("accept before connect", here.accept(id, parameters()));
  say("reject before connect", here.reject(id, consumer_defined, 0));
  say("connect, 57 bytes of private data", here.connect(id, parameters(57)));
  say("connect where nobody listens", here.connect(id, parameters(56)));
  say("", data_of(here.event()));
  say("connect again after that", here.connect(id, parameters()));
  say("accept after that", here.accept(id, parameters()));
  say("disconnect after that", here.disconnect(id));
  say("destroy after that", here.destroy(id));

  const auto pair = ends.asked(56);
  say("a request with 56 bytes", data_of(pair.event));
  say("connect while connecting", here.connect(pair.asker, parameters()));
  say("disconnect while connecting", here.disconnect(pair.asker));
  say("accept while connecting", here.accept(pair.asker, parameters()));
  say("accept by whom the request isn't", here.accept(pair.request, parameters()));
  say("bind a request", ends.there.bind(pair.request, address_of(at.own, 7050)));
  say("resolve_addr of a request", ends.there.resolve(pair.request, address_of(at.own, 7050)));
  say("listen on a request", ends.there.listen(pair.request));
  say("disconnect a request", ends.there.disconnect(pair.request));
  say("destroy the asker", here.destroy(pair.asker));
  say("the request", ends.there.event(silence_ms).words);
  say("accept a request that was taken back", ends.there.accept(pair.request, parameters()));
}

void refusing(const Place& at) {
  Ends ends(at, own_port + 11);
  auto pair = ends.asked();
  say("reject for a reason that is none", ends.there.reject(pair.request, 5, 0));
  say("reject, 149 bytes of private data", ends.there.reject(pair.request, consumer_defined, 149));
  say("reject, 148 bytes of private data", ends.there.reject(pair.request, consumer_defined, 148));
  say("", data_of(ends.here.event()));
  say("reject again", ends.there.reject(pair.request, consumer_defined, 0));
  say("accept after reject", ends.there.accept(pair.request, parameters()));
  pair = ends.asked();
  say("reject without a reason", ends.there.reject(pair.request, 0, 3));
  say("", data_of(ends.here.event()));
  pair = ends.asked();
  say("reject for a vendor's option", ends.there.reject(pair.request, 35, 3));
  say("", data_of(ends.here.event()));
  pair = ends.asked();
  say("destroy a request", ends.there.destroy(pair.request));
  say("", data_of(ends.here.event()));
  pair = ends.asked();
  say("accept, 197 bytes of private data", ends.there.accept(pair.request, parameters(197)));
  say("", data_of(ends.here.event()));
  pair = ends.asked();
  say("accept, 196 bytes of private data", ends.there.accept(pair.request, parameters(196)));
  say("", data_of(ends.here.event()));
  say("reject the reply", ends.here.reject(pair.asker, consumer_defined, 1));
  say("", data_of(ends.there.event()));
  pair = ends.asked();
  ends.there.close();
  say("the answering file closes", data_of(ends.here.event()));
}

void leaving(const Place& at) {
  Ends ends(at, own_port + 12);
  auto pair = ends.connected();
  say("accept a second time", ends.there.accept(pair.request, parameters()));
  say("the other end after that", ends.here.event(silence_ms).words);
  pair = ends.connected();
  say("reject what is established", ends.there.reject(pair.request, consumer_defined, 0));
  say("connect what is established", ends.here.connect(pair.asker, parameters()));
  say("communication established",
      ends.there.call(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{pair.request, IBV_EVENT_COMM_EST}));
  say("another event", ends.there.call(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{pair.request, IBV_EVENT_SQ_DRAINED}));
  say("disconnect", ends.here.disconnect(pair.asker));
  say("the other end", ends.there.event().words);
  say("disconnect by the other end", ends.there.disconnect(pair.request));
  say("", ends.here.event().words);
  say("disconnect again", ends.here.disconnect(pair.asker));
  say("by the other end", ends.there.disconnect(pair.request));
  say("one's own timewait", ends.here.event(30000).words);
  say("the other's", ends.there.event(30000).words);
  say("connect after timewait", ends.here.connect(pair.asker, parameters()));
  u32 events = 0;
  say("destroy", ends.here.destroy(pair.asker, &events));
  say("events that it had", std::to_string(events));
}

void leaving_at_once(const Place& at) {
  Ends ends(at, own_port + 17);
  auto pair = ends.connected();
  say("both disconnect", ends.here.disconnect(pair.asker));
  say("", ends.there.disconnect(pair.request));
  say("", ends.here.event().words);
  say("", ends.there.event().words);
  say("destroy both", std::max(ends.here.destroy(pair.asker), ends.there.destroy(pair.request)));
  pair = ends.connected();
  say("destroy what is connected", ends.here.destroy(pair.asker));
  say("the other end", ends.there.event().words);
  say("destroy the other end", ends.there.destroy(pair.request));
  pair = ends.connected();
  say("destroy the listener", ends.there.destroy(ends.listener));
  say("the connection", ends.here.event(silence_ms).words);
  ends.here.close();
  say("the asking file closes", ends.there.event().words);
}

void early(const Place& at) {
  Ends ends(at, own_port + 13);
  auto pair = ends.asked();
  say("accept", ends.there.accept(pair.request, parameters()));
  say("disconnect before it is established", ends.there.disconnect(pair.request));
  say("", ends.here.event().words);
  say("communication established, before the asker says so",
      ends.there.call(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{pair.request, IBV_EVENT_COMM_EST}));
  say("", ends.there.event(silence_ms).words);
  say("confirm", ends.here.accept(pair.asker, {}));
  say("", ends.there.event(silence_ms).words);
  pair = ends.asked();
  say("accept without parameters", ends.there.accept(pair.request, {}));
  say("", ends.here.event(silence_ms).words);
  pair = ends.asked();
  say("destroy the listener with a request that was seen", ends.there.destroy(ends.listener));
  say("", ends.here.event(silence_ms).words);
  say("accept it all the same", ends.there.accept(pair.request, parameters()));
  say("", ends.here.event(silence_ms).words);
}

void backlog(const Place& at) {
  Ends ends(at, own_port + 14, RDMA_PS_TCP, 2);
  for (int i = 0; i < 3; ++i) say("connect, backlog 2", ends.here.connect(ends.ready(), parameters()));
  say("who was too many", data_of(ends.here.event(silence_ms)));
  say("one that waits", ends.there.event().words);
  say("connect when there is room again", ends.here.connect(ends.ready(), parameters()));
  say("", ends.here.event(silence_ms).words);
  u32 events = 0;
  say("destroy the listener", ends.there.destroy(ends.listener, &events));
  say("events that it had", std::to_string(events));
  say("who was not seen", data_of(ends.here.event()));
  say("", data_of(ends.here.event()));
  say("who was seen", ends.here.event(silence_ms).words);
}

void datagrams(const Place& at) {
  Ends ends(at, own_port + 15, RDMA_PS_UDP);
  u32 id = ends.ready(own_port + 99);
  say("datagrams, nobody listens", ends.here.connect(id, parameters()));
  say("", ends.here.event().words);
  say("connect again", ends.here.connect(id, parameters()));
  id = ends.ready();
  say("connect, 181 bytes of private data", ends.here.connect(id, parameters(181)));
  say("connect, 180 bytes of private data", ends.here.connect(id, parameters(180)));
  CmEvent event = ends.there.event();
  say("", event.words + ", " + std::to_string(event.response.param.ud.private_data_len) + " bytes");
  say("accept, 137 bytes of private data", ends.there.accept(event.response.id, parameters(137)));
  say("", ends.here.event().words);
  id = ends.ready();
  say("connect", ends.here.connect(id, parameters()));
  event = ends.there.event();
  say("accept, 136 bytes of private data", ends.there.accept(event.response.id, parameters(136)));
  event = ends.here.event();
  say("", event.words + ", " + std::to_string(event.response.param.ud.private_data_len) + " bytes");
  say("its Q_Key", event.response.param.ud.qkey == 0x01234567 ? "rdma_cm's" : "another");
  say("disconnect", ends.here.disconnect(id));
  say("accept after all", ends.here.accept(id, parameters()));
  id = ends.ready();
  say("connect", ends.here.connect(id, parameters()));
  event = ends.there.event();
  say("reject", ends.there.reject(event.response.id, consumer_defined, 136));
  event = ends.here.event();
  say("", event.words + ", " + std::to_string(event.response.param.ud.private_data_len) + " bytes");
}

void wrong_space(const Place& at) {
  Ends ends(at, own_port + 16, RDMA_PS_UDP);
  CmFile file;
  const u32 id = file.made();
  file.resolve(id, address_of(at.own, own_port + 16));
  file.event();
  file.route(id);
  file.event();
  say("connect to a service for datagrams", file.connect(id, parameters()));
  say("", data_of(file.event()));
}

// -- the rest

void options(const Place& at) {
  CmFile file;
  const u32 id = file.made(), datagram = file.made(RDMA_PS_UDP);
  const int number = 1;
  const u8 byte = 20;
  u8 bytes[1024]{};
  const std::vector<u8> long_value(5 << 20);
  say("an option of a level that is none", file.option(id, 7, 0, &number, sizeof number));
  say("an option that is none", file.option(id, RDMA_OPTION_ID, 9, &number, sizeof number));
  say("an InfiniBand option that is none", file.option(id, RDMA_OPTION_IB, 9, &number, sizeof number));
  say("tos of 4 bytes", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, sizeof number));
  say("tos", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, sizeof byte));
  say("reuseaddr of 1 byte", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, sizeof byte));
  say("afonly of 1 byte", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &byte, sizeof byte));
  say("ack_timeout of 4 bytes", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &number, sizeof number));
  say("ack_timeout", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, sizeof byte));
  say("ack_timeout of datagrams",
      file.option(datagram, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, sizeof byte));
  say("a path without a device", file.option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, bytes, 72));
  say("an option at address 0", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1));
  say("an option longer than any", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, long_value.data(), 1 << 20));
  say("an option longer than what is there", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, nullptr, 1 << 20));
  say("an option of five megabytes", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, long_value.data(), 5 << 20));
  say("an option of no bytes", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, bytes, 0));
  say("bind", file.bind(id, address_of(at.own, own_port + 20)));
  say("a path of 71 bytes", file.option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, bytes, 71));
  say("a path of no bytes", file.option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, bytes, 0));
  say("a path without flags", file.option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, bytes, 72));
  bytes[0] = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
  say("a path before the address", file.option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, bytes, 72));
  say("afonly when bound", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, sizeof number));
  say("listen", file.listen(id));
  say("afonly of a listener", file.option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &number, sizeof number));
}

void questions(const Place& at) {
  CmFile file;
  const u32 id = file.made();
  rdma_ucm_query_addr_resp where{};
  const auto ask = [&](u32 option) { return file.call(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, id, option}, where); };
  ib_uverbs_qp_attr attributes{};
  const auto attributes_for = [&](u32 state) {
    return file.call(RDMA_USER_CM_CMD_INIT_QP_ATTR, rdma_ucm_init_qp_attr{0, id, state}, attributes);
  };
  say("query something else", ask(17));
  say("query the address of what has none", ask(RDMA_USER_CM_QUERY_ADDR));
  say("sizes of both", std::to_string(where.src_size) + " " + std::to_string(where.dst_size));
  say("query the path of what has none", ask(RDMA_USER_CM_QUERY_PATH));
  say("query GIDs of what has none", ask(RDMA_USER_CM_QUERY_GID));
  const rdma_ucm_query query{reinterpret_cast<u64>(&where), id, RDMA_USER_CM_QUERY_ADDR};
  say("query without room", file.write(RDMA_USER_CM_CMD_QUERY, &query, sizeof query, 8));
  rdma_ucm_query_route_resp route{};
  say("query_route of what has none", file.call(RDMA_USER_CM_CMD_QUERY_ROUTE, rdma_ucm_query{0, id, 0}, route));
  say("attributes without a device", attributes_for(IBV_QPS_INIT));
  say("attributes for a state that is none", attributes_for(IBV_QPS_UNKNOWN + 1));
  say("notify without a device", file.call(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{id, IBV_EVENT_COMM_EST}));
  say("bind", file.bind(id, address_of(at.own, own_port + 21)));
  say("notify without a connection", file.call(RDMA_USER_CM_CMD_NOTIFY, rdma_ucm_notify{id, IBV_EVENT_COMM_EST}));
  for (const auto& [name, state] : {std::pair{"RESET", IBV_QPS_RESET},
                                    {"INIT", IBV_QPS_INIT},
                                    {"RTR", IBV_QPS_RTR},
                                    {"RTS", IBV_QPS_RTS},
                                    {"ERR", IBV_QPS_ERR}}) {
    const int error = attributes_for(state);
    say(std::string("attributes for ") + name,
        errno_name(error) + (error ? "" : ", mask " + std::to_string(attributes.qp_attr_mask)));
  }
}

void groups(const Place& at) {
  CmFile file, other;
  u32 id = file.made(RDMA_PS_UDP), group = 0;
  const auto address = address_of("239.1.2.3");
  say("join without an address", file.join(id, address, RDMA_MC_JOIN_FLAG_FULLMEMBER, group));
  say("bind", file.bind(id, address_of(at.own, own_port + 22)));
  rdma_ucm_join_mcast request{};
  request.id = id;
  request.addr_size = 3;
  std::memcpy(&request.addr, &address, sizeof request.addr);
  rdma_ucm_create_id_resp response{};
  say("join with a size that is not the family's", file.call(RDMA_USER_CM_CMD_JOIN_MCAST, request, response));
  say("join with flags that are none", file.join(id, address, RDMA_MC_JOIN_FLAG_RESERVED, group));
  say("leave what was not joined", file.leave(4711));
  say("join", file.join(id, address, RDMA_MC_JOIN_FLAG_FULLMEMBER, group));
  CmEvent event = file.event();
  say("", event.words);
  say("its queue pair", event.response.param.ud.qp_num == 0xffffff ? "all ones" : "another");
  u32 again = 0;
  say("join again", file.join(id, address, RDMA_MC_JOIN_FLAG_FULLMEMBER, again));
  say("", file.event().words);
  say("leave by another file", other.leave(group));
  say("leave", file.leave(group));
  say("leave again", file.leave(group));
  say("join what is no group", file.join(id, address_of(at.own), RDMA_MC_JOIN_FLAG_FULLMEMBER, group));
  say("", file.event(silence_ms).words);
  const u32 connected = file.made();
  say("bind", file.bind(connected, address_of(at.own, own_port + 22)));
  say("join by what is no datagram's", file.join(connected, address, RDMA_MC_JOIN_FLAG_FULLMEMBER, group));
  const u32 listener = file.made(RDMA_PS_UDP);
  say("listen", file.listen(listener));
  say("join by a listener", file.join(listener, address, RDMA_MC_JOIN_FLAG_FULLMEMBER, group));
  say("destroy a member", file.destroy(id));
  say("leave after that", file.leave(again));
}

void moving(const Place& at) {
  Ends ends(at, own_port + 23);
  CmFile other;
  const u32 id = ends.ready();
  say("migrate from a closed descriptor", other.migrate_from(-1, id));
  say("migrate from a descriptor of something else", other.migrate_from(STDOUT_FILENO, id));
  say("migrate an id that is gone", other.migrate_from(ends.here.fd(), 999999));
  say("migrate an id of another file", other.migrate_from(ends.there.fd(), id));
  u32 events = 0;
  say("migrate", other.migrate_from(ends.here.fd(), id, &events));
  say("events that it had", std::to_string(events));
  say("use it by the old file", ends.here.connect(id, parameters()));
  say("migrate to where it is", other.migrate_from(other.fd(), id));
  say("connect", other.connect(id, parameters()));
  ends.there.event(silence_ms);
  say("migrate a listener", other.migrate_from(ends.there.fd(), ends.listener, &events));
  say("events that it had", std::to_string(events));
  const u32 second = ends.ready();
  say("connect", ends.here.connect(second, parameters()));
  say("the listener's event", other.event().words);
}

// A listener whose request nobody has seen: the event goes along, what it names does not.
void moving_unseen(const Place& at) {
  Ends ends(at, own_port + 24);
  CmFile other;
  const u32 first = ends.ready();
  say("connect", ends.here.connect(first, parameters()));
  ::usleep(silence_ms * 1000);
  u32 events = 0;
  say("migrate a listener with an unseen request", other.migrate_from(ends.there.fd(), ends.listener, &events));
  say("events that it had", std::to_string(events));
  say("its old file's event", ends.there.event(silence_ms).words);
  const CmEvent request = other.event();
  say("its new file's event", request.words);
  say("accept by the new file", other.accept(request.response.id, parameters()));
  say("reject by the new file", other.reject(request.response.id, consumer_defined, 0));
  say("migrate the request", other.migrate_from(ends.there.fd(), request.response.id, &events));
  say("reject by the new file", other.reject(request.response.id, consumer_defined, 0));
  say("", ends.here.event().words);
}

void all(const Place& at) {
  commands();
  ids();
  binding(at);
  sharing(at);
  any_port(at);
  resolving(at);
  asking(at);
  refusing(at);
  leaving(at);
  leaving_at_once(at);
  early(at);
  backlog(at);
  datagrams(at);
  wrong_space(at);
  options(at);
  questions(at);
  groups(at);
  moving(at);
  moving_unseen(at);
}

void silence(const std::string& silent) {
  CmFile file;
  const u32 id = file.made();
  say("resolve_addr of the silent", file.resolve(id, address_of(silent, 7000), 2000));
  say("", file.event(5000).words);
  say("resolve_route", file.route(id));
  say("", file.event().words);
  std::getchar();  // until the other end has fallen silent
  say("connect to silence", file.connect(id, parameters()));
  say("", file.event(300000).words);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  if (argc != 3 && argc != 5) {
    std::fprintf(stderr, "usage: cm_answers OWN STRANGER [--long SILENT]\n");
    return 2;
  }
  try {
    if (argc == 5)
      conformance::silence(argv[4]);
    else
      conformance::all({argv[1], argv[2]});
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "cm_answers: %s\n", fault.what());
    return 1;
  }
}

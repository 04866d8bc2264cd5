// RDMA WRITE with immediate over a reliable connection, in plain libibverbs.
//
//   rc_write_with_imm [--port N]          waits for a client
//   rc_write_with_imm [--port N] SERVER   connects to it
//
// The two agree on QP numbers, addresses and keys over TCP, as perftest does. Then the client writes a text straight
// into the server's memory; the immediate value, which tells its length, wakes the server, which writes it back in
// capitals. Works on any HCA; on SoftIB:
//
//   softib run host0 -- rc_write_with_imm &
//   softib run host1 -- rc_write_with_imm host0
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

namespace {

constexpr uint8_t port_number = 1;
constexpr int gid_index = 0;
constexpr size_t buffer_size = 4096;

[[noreturn]] void give_up(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

template <auto Destroy>
struct Destroyer {
  template <typename T>
  void operator()(T* object) const {
    Destroy(object);
  }
};
template <typename T, auto Destroy>
using Owned = std::unique_ptr<T, Destroyer<Destroy>>;

// What each side must know of the other.
struct Address {
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint32_t rkey = 0;
  uint16_t lid = 0;
  uint64_t buffer = 0;
  ibv_gid gid{};
};

// -- the side channel

class Connection {
 public:
  explicit Connection(int fd) : fd_(fd) {}
  ~Connection() { ::close(fd_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Both sides are of one kind of machine here; a real protocol fixes byte order and sizes.
  Address exchange(const Address& mine) const {
    Address theirs;
    if (::send(fd_, &mine, sizeof mine, 0) != sizeof mine) give_up("send");
    if (::recv(fd_, &theirs, sizeof theirs, MSG_WAITALL) != sizeof theirs) give_up("the other side went");
    return theirs;
  }

 private:
  int fd_;
};

int listen_once(uint16_t port) {
  const int listener = ::socket(AF_INET6, SOCK_STREAM, 0);
  const int on = 1;
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_port = htons(port);
  if (listener < 0 || ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) give_up("socket");
  if (::bind(listener, reinterpret_cast<sockaddr*>(&any), sizeof any) < 0 || ::listen(listener, 1) < 0)
    give_up("cannot listen on port " + std::to_string(port));
  const int accepted = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  if (accepted < 0) give_up("accept");
  return accepted;
}

int try_to_connect(const addrinfo* all) {
  for (const addrinfo* one = all; one; one = one->ai_next) {
    const int fd = ::socket(one->ai_family, one->ai_socktype, one->ai_protocol);
    if (fd >= 0 && ::connect(fd, one->ai_addr, one->ai_addrlen) == 0) return fd;
    if (fd >= 0) ::close(fd);
  }
  return -1;
}

// The server may still be starting.
int connect_to(const std::string& server, uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (int error = ::getaddrinfo(server.c_str(), std::to_string(port).c_str(), &hints, &found))
    throw std::runtime_error(server + ": " + ::gai_strerror(error));
  const Owned<addrinfo, ::freeaddrinfo> owned(found);
  for (int tries = 0; tries < 100; ++tries) {
    if (const int fd = try_to_connect(found); fd >= 0) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  give_up("cannot connect to " + server);
}

// -- one end of the RDMA connection

class Endpoint {
 public:
  Endpoint() {
    open_first_device();
    domain_.reset(::ibv_alloc_pd(context_.get()));
    queue_.reset(::ibv_create_cq(context_.get(), 16, nullptr, nullptr, 0));
    if (!domain_ || !queue_) give_up("cannot allocate");
    memory_.reset(
        ::ibv_reg_mr(domain_.get(), buffer_.data(), buffer_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
    if (!memory_) give_up("ibv_reg_mr");
    ibv_qp_init_attr wanted{};
    wanted.qp_type = IBV_QPT_RC;
    wanted.send_cq = wanted.recv_cq = queue_.get();
    wanted.cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    wanted.sq_sig_all = 1;
    qp_.reset(::ibv_create_qp(domain_.get(), &wanted));
    if (!qp_) give_up("ibv_create_qp");
    to_init();
  }

  [[nodiscard]] Address address() const {
    Address mine;
    mine.qpn = qp_->qp_num;
    mine.psn = 0x123456;
    mine.rkey = memory_->rkey;
    mine.buffer = reinterpret_cast<uint64_t>(buffer_.data());
    mine.lid = port_.lid;
    if (::ibv_query_gid(context_.get(), port_number, gid_index, &mine.gid)) give_up("ibv_query_gid");
    return mine;
  }

  void connect(const Address& peer) {
    peer_ = peer;
    to_ready_to_receive();
    to_ready_to_send();
  }

  // Room for the notice of one write: it takes a receive request, though no byte goes to that one's memory.
  void expect_write() {
    ibv_recv_wr request{};
    ibv_recv_wr* refused = nullptr;
    if ((errno = ::ibv_post_recv(qp_.get(), &request, &refused))) give_up("ibv_post_recv");
  }

  void write(const std::string& text) {
    std::copy(text.begin(), text.end(), buffer_.begin());
    ibv_sge piece{reinterpret_cast<uint64_t>(buffer_.data()), static_cast<uint32_t>(text.size()), memory_->lkey};
    ibv_send_wr request{};
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    request.sg_list = &piece;
    request.num_sge = 1;
    request.imm_data = htonl(static_cast<uint32_t>(text.size()));
    request.wr.rdma.remote_addr = peer_.buffer;
    request.wr.rdma.rkey = peer_.rkey;
    ibv_send_wr* refused = nullptr;
    if ((errno = ::ibv_post_send(qp_.get(), &request, &refused))) give_up("ibv_post_send");
    (void)next_completion();
  }

  std::string read_what_came() {
    const ibv_wc done = next_completion();
    if (done.opcode != IBV_WC_RECV_RDMA_WITH_IMM) throw std::runtime_error("an unexpected completion");
    return std::string(buffer_.data(), std::min<size_t>(ntohl(done.imm_data), buffer_.size()));
  }

 private:
  void open_first_device() {
    const Owned<ibv_device*, ::ibv_free_device_list> devices(::ibv_get_device_list(nullptr));
    if (!devices || !*devices) throw std::runtime_error("no RDMA device here");
    context_.reset(::ibv_open_device(*devices));
    if (!context_) give_up("ibv_open_device");
    if ((errno = ::ibv_query_port(context_.get(), port_number, &port_))) give_up("ibv_query_port");
    if (port_.state != IBV_PORT_ACTIVE) throw std::runtime_error("the port is not active");
  }

  void modify(ibv_qp_attr& wanted, int mask, const char* state) {
    if ((errno = ::ibv_modify_qp(qp_.get(), &wanted, mask | IBV_QP_STATE))) give_up(std::string("to ") + state);
  }

  void to_init() {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_INIT;
    wanted.port_num = port_number;
    wanted.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    modify(wanted, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  }

  void to_ready_to_receive() {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTR;
    wanted.path_mtu = port_.active_mtu;
    wanted.dest_qp_num = peer_.qpn;
    wanted.rq_psn = peer_.psn;
    wanted.max_dest_rd_atomic = 1;
    wanted.min_rnr_timer = 12;
    wanted.ah_attr.port_num = port_number;
    wanted.ah_attr.dlid = peer_.lid;
    if (port_.link_layer == IBV_LINK_LAYER_ETHERNET) {  // there are no LIDs on Ethernet: the GID is the address
      wanted.ah_attr.is_global = 1;
      wanted.ah_attr.grh.dgid = peer_.gid;
      wanted.ah_attr.grh.sgid_index = gid_index;
      wanted.ah_attr.grh.hop_limit = 64;
    }
    modify(wanted,
           IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
               IBV_QP_MIN_RNR_TIMER,
           "RTR");
  }

  void to_ready_to_send() {
    ibv_qp_attr wanted{};
    wanted.qp_state = IBV_QPS_RTS;
    wanted.sq_psn = 0x123456;
    wanted.timeout = 14;
    wanted.retry_cnt = 7;
    wanted.rnr_retry = 7;
    wanted.max_rd_atomic = 1;
    modify(wanted, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
           "RTS");
  }

  ibv_wc next_completion() {
    ibv_wc done{};
    int got = 0;
    while ((got = ::ibv_poll_cq(queue_.get(), 1, &done)) == 0) std::this_thread::yield();
    if (got < 0) throw std::runtime_error("ibv_poll_cq failed");
    if (done.status != IBV_WC_SUCCESS) throw std::runtime_error(::ibv_wc_status_str(done.status));
    return done;
  }

  std::array<char, buffer_size> buffer_{};
  Address peer_;
  ibv_port_attr port_{};
  Owned<ibv_context, ::ibv_close_device> context_;
  Owned<ibv_pd, ::ibv_dealloc_pd> domain_;
  Owned<ibv_cq, ::ibv_destroy_cq> queue_;
  Owned<ibv_mr, ::ibv_dereg_mr> memory_;
  Owned<ibv_qp, ::ibv_destroy_qp> qp_;
};

std::string in_capitals(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

void serve(uint16_t port) {
  Endpoint endpoint;
  const Connection connection(listen_once(port));
  endpoint.expect_write();
  endpoint.connect(connection.exchange(endpoint.address()));
  (void)connection.exchange({});  // nobody writes before both are ready
  const std::string text = endpoint.read_what_came();
  std::printf("server: got \"%s\"\n", text.c_str());
  endpoint.write(in_capitals(text));
  (void)connection.exchange({});  // nobody goes before both are done
}

void ask(const std::string& server, uint16_t port) {
  Endpoint endpoint;
  const Connection connection(connect_to(server, port));
  endpoint.expect_write();
  endpoint.connect(connection.exchange(endpoint.address()));
  (void)connection.exchange({});
  endpoint.write("hello over RDMA");
  std::printf("client: got \"%s\"\n", endpoint.read_what_came().c_str());
  (void)connection.exchange({});
}

}  // namespace

int main(int argc, char** argv) {
  uint16_t port = 18515;
  std::string server;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--port" && i + 1 < argc) {
      port = static_cast<uint16_t>(std::atoi(argv[++i]));
    } else if (word.starts_with("-") || !server.empty()) {
      std::fprintf(stderr, "usage: rc_write_with_imm [--port N] [SERVER]\n");
      return 2;
    } else {
      server = word;
    }
  }
  try {
    server.empty() ? serve(port) : ask(server, port);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "rc_write_with_imm: %s\n", fault.what());
    return 1;
  }
  return 0;
}

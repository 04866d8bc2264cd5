// A server that sends back what it gets, and its client, connected by rdma_cm: addresses and ports as with sockets, and
// the library brings the queue pair through its states.
//
//   cm_echo --listen [PORT]         serves clients one after the other, until it is ended
//   cm_echo SERVER PORT TEXT        SERVER: an address of the server's InfiniBand or RoCE interface
//
// On SoftIB:
//
//   softib run host0 -- cm_echo --listen 7471 &
//   softib run host1 -- cm_echo host0-ib0 7471 'hello over rdma_cm'
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>

namespace {

constexpr const char* usual_port = "7471";
constexpr size_t longest = 1024;

[[noreturn]] void give_up(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

struct EndpointDeleter {
  void operator()(rdma_cm_id* id) const { ::rdma_destroy_ep(id); }
};
using Endpoint = std::unique_ptr<rdma_cm_id, EndpointDeleter>;

struct RegionDeleter {
  void operator()(ibv_mr* region) const { ::ibv_dereg_mr(region); }
};
using Region = std::unique_ptr<ibv_mr, RegionDeleter>;

// What the queue pairs of both sides are made with.
ibv_qp_init_attr queue_sizes() {
  ibv_qp_init_attr sizes{};
  sizes.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  sizes.sq_sig_all = 1;
  return sizes;
}

// `server`: null to listen.
Endpoint make_endpoint(const char* server, const char* port) {
  rdma_addrinfo hints{};
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = server ? 0 : RAI_PASSIVE;
  rdma_addrinfo* found = nullptr;
  if (::rdma_getaddrinfo(server, port, &hints, &found)) give_up(std::string("no address: ") + (server ? server : port));
  const std::unique_ptr<rdma_addrinfo, decltype(&::rdma_freeaddrinfo)> owned(found, ::rdma_freeaddrinfo);
  ibv_qp_init_attr sizes = queue_sizes();
  rdma_cm_id* id = nullptr;
  if (::rdma_create_ep(&id, found, nullptr, &sizes)) give_up("no endpoint");
  return Endpoint(id);
}

// A connection with a buffer for each direction.
class Talk {
 public:
  explicit Talk(rdma_cm_id* id)
      : id_(id),
        in_(::rdma_reg_msgs(id, incoming_.data(), incoming_.size())),
        out_(::rdma_reg_msgs(id, outgoing_.data(), outgoing_.size())) {
    if (!in_ || !out_) give_up("cannot register memory");
  }

  // To be called before the other side may send.
  void expect() {
    if (::rdma_post_recv(id_, nullptr, incoming_.data(), incoming_.size(), in_.get())) give_up("cannot receive");
  }

  // Nothing: the other side has hung up.
  std::string receive() {
    ibv_wc done{};
    if (::rdma_get_recv_comp(id_, &done) < 0) give_up("no completion");
    if (done.status == IBV_WC_WR_FLUSH_ERR) return {};
    if (done.status != IBV_WC_SUCCESS) throw std::runtime_error(::ibv_wc_status_str(done.status));
    return std::string(incoming_.data(), done.byte_len);
  }

  void send(const std::string& text) {
    std::copy(text.begin(), text.end(), outgoing_.begin());
    ibv_wc done{};
    if (::rdma_post_send(id_, nullptr, outgoing_.data(), text.size(), out_.get(), 0)) give_up("cannot send");
    if (::rdma_get_send_comp(id_, &done) < 0) give_up("no completion");
    if (done.status != IBV_WC_SUCCESS) throw std::runtime_error(::ibv_wc_status_str(done.status));
  }

 private:
  rdma_cm_id* id_;
  std::array<char, longest> incoming_{};
  std::array<char, longest> outgoing_{};
  Region in_;
  Region out_;
};

void serve_one(rdma_cm_id* listener) {
  rdma_cm_id* asked = nullptr;
  if (::rdma_get_request(listener, &asked)) give_up("no request");
  const Endpoint id(asked);
  Talk talk(id.get());
  talk.expect();
  if (::rdma_accept(id.get(), nullptr)) give_up("cannot accept");
  const std::string text = talk.receive();
  std::printf("server: got \"%s\"\n", text.c_str());
  std::fflush(stdout);
  talk.send(text);
  ::rdma_disconnect(id.get());
}

int serve(const char* port) {
  const Endpoint listener = make_endpoint(nullptr, port);
  if (::rdma_listen(listener.get(), 16)) give_up("cannot listen");
  for (;;) {
    try {
      serve_one(listener.get());
    } catch (const std::exception& fault) {
      std::fprintf(stderr, "cm_echo: a client: %s\n", fault.what());
    }
  }
}

int ask(const char* server, const char* port, const std::string& text) {
  if (text.size() > longest) throw std::runtime_error("the text is longer than 1024 bytes");
  const Endpoint id = make_endpoint(server, port);
  Talk talk(id.get());
  talk.expect();
  if (::rdma_connect(id.get(), nullptr)) give_up(std::string("cannot connect to ") + server);
  talk.send(text);
  std::printf("client: got \"%s\"\n", talk.receive().c_str());
  ::rdma_disconnect(id.get());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool listens = argc >= 2 && std::strcmp(argv[1], "--listen") == 0;
  if ((listens && argc > 3) || (!listens && argc != 4)) {
    std::fprintf(stderr, "usage: cm_echo --listen [PORT]\n       cm_echo SERVER PORT TEXT\n");
    return 2;
  }
  try {
    return listens ? serve(argc == 3 ? argv[2] : usual_port) : ask(argv[1], argv[2], argv[3]);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "cm_echo: %s\n", fault.what());
    return 1;
  }
}

// all_gather, broadcast, gather, scatter, alltoall: data that is only moved.
#include "perf/collective.h"
#include "perf/pattern.h"

namespace softib::perf {

namespace {

// Each rank has a stream of its own.
u64 stream_of(const Setting& setting, u32 rank) { return setting.seed * 4096 + rank; }

std::byte* at(const Setting& setting, void* memory, u64 element) {
  return static_cast<std::byte*>(memory) + setting.bytes(element);
}

class AllGather : public Collective {
 public:
  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    const u64 part = part_of(count, element_size, ranks);
    return {part, part * ranks, part, part, 0};
  }
  void fill_input(const Setting& setting, void* memory) const override {
    write_stream(memory, setting.type, 0, setting.shape.sent, stream_of(setting, setting.rank));
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    const u64 part = setting.shape.sent;
    for (u32 rank = 0; rank < setting.ranks; ++rank)
      write_stream(at(setting, memory, rank * part), setting.type, 0, part, stream_of(setting, rank));
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_all_gather(in, out, setting.shape.count, setting.type);
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count * setting.ranks), seconds, others(setting.ranks));
  }
};

class Broadcast : public Collective {
 public:
  [[nodiscard]] bool has_root() const override { return true; }
  [[nodiscard]] Shape shape(u64 count, u64 /*element_size*/, u32 /*ranks*/) const override {
    return {count, count, count, 0, 0};
  }
  void fill_input(const Setting& setting, void* memory) const override {
    if (setting.rank == setting.root) write_stream(memory, setting.type, 0, setting.shape.sent, stream_of(setting, 0));
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    write_stream(memory, setting.type, 0, setting.shape.received, stream_of(setting, 0));
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_broadcast(in, out, setting.shape.count, setting.type, setting.root);
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count), seconds, 1);
  }
};

class Gather : public Collective {
 public:
  [[nodiscard]] bool has_root() const override { return true; }
  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    const u64 part = part_of(count, element_size, ranks);
    return {part, part * ranks, part, part, 0};
  }
  void fill_input(const Setting& setting, void* memory) const override {
    const u64 part = setting.shape.sent;
    write_stream(memory, setting.type, setting.rank * part, part, stream_of(setting, 0));
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    if (setting.rank == setting.root)
      write_stream(memory, setting.type, 0, setting.shape.received, stream_of(setting, 0));
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_gather(in, out, setting.shape.count, setting.type, setting.root);
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count * setting.ranks), seconds, others(setting.ranks));
  }
};

class Scatter : public Collective {
 public:
  [[nodiscard]] bool has_root() const override { return true; }
  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    const u64 part = part_of(count, element_size, ranks);
    return {part * ranks, part, part, 0, part};
  }
  void fill_input(const Setting& setting, void* memory) const override {
    if (setting.rank == setting.root) write_stream(memory, setting.type, 0, setting.shape.sent, stream_of(setting, 0));
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    const u64 part = setting.shape.received;
    write_stream(memory, setting.type, setting.rank * part, part, stream_of(setting, 0));
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_scatter(in, out, setting.shape.count, setting.type, setting.root);
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count * setting.ranks), seconds, others(setting.ranks));
  }
};

class AllToAll : public Collective {
 public:
  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    const u64 part = part_of(count, element_size, ranks);
    return {part * ranks, part * ranks, part, 0, 0};
  }
  void fill_input(const Setting& setting, void* memory) const override {
    write_stream(memory, setting.type, 0, setting.shape.sent, stream_of(setting, setting.rank));
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    const u64 part = setting.shape.count;
    for (u32 rank = 0; rank < setting.ranks; ++rank)
      write_stream(at(setting, memory, rank * part), setting.type, setting.rank * part, part, stream_of(setting, rank));
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_all_to_all(in, out, setting.shape.count, setting.type);
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count * setting.ranks), seconds, others(setting.ranks));
  }
};

}  // namespace

std::unique_ptr<Collective> make_all_gather() { return std::make_unique<AllGather>(); }
std::unique_ptr<Collective> make_broadcast() { return std::make_unique<Broadcast>(); }
std::unique_ptr<Collective> make_gather() { return std::make_unique<Gather>(); }
std::unique_ptr<Collective> make_scatter() { return std::make_unique<Scatter>(); }
std::unique_ptr<Collective> make_all_to_all() { return std::make_unique<AllToAll>(); }

}  // namespace softib::perf

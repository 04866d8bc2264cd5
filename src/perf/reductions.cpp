// all_reduce, reduce, reduce_scatter.
#include "perf/collective.h"
#include "perf/pattern.h"

namespace softib::perf {

namespace {

class Reducing : public Collective {
 public:
  [[nodiscard]] Operators operators() const override { return Operators::listed; }
  void fill_input(const Setting& setting, void* memory) const override {
    pattern_of(setting).give(memory, 0, setting.shape.sent, setting.rank);
  }

 protected:
  static Pattern pattern_of(const Setting& setting) { return {setting.type, setting.op, setting.ranks, setting.seed}; }
};

class AllReduce : public Reducing {
 public:
  [[nodiscard]] Shape shape(u64 count, u64 /*element_size*/, u32 /*ranks*/) const override {
    return {count, count, count, 0, 0};
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    pattern_of(setting).result(memory, 0, setting.shape.received);
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_all_reduce(in, out, setting.shape.count, setting.reduction());
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count), seconds, 2 * others(setting.ranks));
  }
};

class Reduce : public Reducing {
 public:
  [[nodiscard]] bool has_root() const override { return true; }
  [[nodiscard]] Shape shape(u64 count, u64 /*element_size*/, u32 /*ranks*/) const override {
    return {count, count, count, 0, 0};
  }
  // The output of other ranks than the root isn't theirs to get, and stays as it was.
  void fill_expected(const Setting& setting, void* memory) const override {
    if (setting.rank == setting.root) pattern_of(setting).result(memory, 0, setting.shape.received);
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_reduce(in, out, setting.shape.count, setting.reduction(), setting.root);
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count), seconds, 1);
  }
};

class ReduceScatter : public Reducing {
 public:
  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    const u64 part = part_of(count, element_size, ranks);
    return {part * ranks, part, part, 0, part};
  }
  void fill_expected(const Setting& setting, void* memory) const override {
    pattern_of(setting).result(memory, setting.rank * setting.shape.received, setting.shape.received);
  }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    return communicator.start_reduce_scatter(in, out, setting.shape.count, setting.reduction());
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return bandwidth_of(setting.bytes(setting.shape.count * setting.ranks), seconds, others(setting.ranks));
  }
};

}  // namespace

std::unique_ptr<Collective> make_all_reduce() { return std::make_unique<AllReduce>(); }
std::unique_ptr<Collective> make_reduce() { return std::make_unique<Reduce>(); }
std::unique_ptr<Collective> make_reduce_scatter() { return std::make_unique<ReduceScatter>(); }

}  // namespace softib::perf

// An all-reduce with one wrong element on its last rank: what a benchmark must find. In programs that are built for
// tests only.
#pragma once

#include <memory>
#include <utility>

#include "perf/collective.h"

namespace softib::perf::test {

class PlantedAllReduce : public Collective {
 public:
  [[nodiscard]] Operators operators() const override { return good_->operators(); }
  [[nodiscard]] Shape shape(u64 count, u64 element_size, u32 ranks) const override {
    return good_->shape(count, element_size, ranks);
  }
  void fill_input(const Setting& setting, void* memory) const override { good_->fill_input(setting, memory); }
  void fill_expected(const Setting& setting, void* memory) const override { good_->fill_expected(setting, memory); }
  [[nodiscard]] coll::Started start(coll::Communicator& communicator, const Setting& setting, const void* in,
                                    void* out) const override {
    auto started = good_->start(communicator, setting, in, out);
    if (!started) return started;
    if (auto done = communicator.wait(*started); !done) return tl::unexpected(done.error());
    const u64 middle = setting.bytes(setting.shape.count / 2);
    if (setting.rank + 1 == setting.ranks && setting.shape.count != 0)
      static_cast<std::byte*>(out)[middle] ^= std::byte{1};
    return started;
  }
  [[nodiscard]] Bandwidth bandwidth(const Setting& setting, double seconds) const override {
    return good_->bandwidth(setting, seconds);
  }

 private:
  std::unique_ptr<Collective> good_ = make_all_reduce();
};

}  // namespace softib::perf::test

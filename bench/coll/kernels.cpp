// coll_kernels [KiB]... : what combining, scaling and copying reach, beside memcpy in the same run, each kind in turn;
// medians. GB/s of memory touched: a memcpy of n bytes reads n and writes n, a sum of two reads 2n and writes n.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coll/kernels/kernels.h"

namespace {

using softib::u64;
namespace coll = softib::coll;
namespace kernels = softib::coll::kernels;
using coll::DataType;
using coll::Op;
using kernels::Stores;

constexpr std::size_t most_inputs = 8;

class Buffer {
 public:
  explicit Buffer(u64 size) : data_(static_cast<std::byte*>(std::aligned_alloc(4096, size)), std::free) {
    std::memset(data_.get(), 0x11, size);
  }
  [[nodiscard]] std::byte* data() const { return data_.get(); }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

struct Kind {
  std::string name;
  unsigned touched;  // times the length
  std::function<void()> run;
  std::vector<double> seconds;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Long enough for the clock, and the same for all kinds.
u64 repeats(u64 size) { return std::max<u64>(1, (u64{8} << 20) / size); }

double time_of(const Kind& kind, u64 times) {
  const auto start = std::chrono::steady_clock::now();
  for (u64 i = 0; i < times; ++i) kind.run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(times);
}

class Bench {
 public:
  explicit Bench(u64 size) : size_(size), out_(size) {
    for (std::size_t i = 0; i < most_inputs; ++i) inputs_.emplace_back(size);
    for (const Buffer& input : inputs_) pointers_.push_back(input.data());
    add_copies();
    for (const coll::TypeRow& row : coll::type_table) add_type(row);
    for (const std::size_t count : {4, 8}) add_reduce(DataType::float32, Op::sum, count, Stores::cached, "");
    add_in_place();
  }

  void run() {
    for (int round = 0; round < 7; ++round)
      for (Kind& kind : kinds_) kind.seconds.push_back(time_of(kind, repeats(size_)));
    fmt::print("\n{} KiB, {}\n", size_ >> 10, kernels::instructions());
    for (const Kind& kind : kinds_)
      fmt::print("  {:<28}{:8.2f} GB/s\n", kind.name,
                 static_cast<double>(size_ * kind.touched) / median(kind.seconds) * 1e-9);
  }

 private:
  void add(std::string name, unsigned touched, std::function<void()> run) {
    kinds_.push_back({std::move(name), touched, std::move(run), {}});
  }

  void add_copies() {
    add("memcpy", 2, [this] { std::memcpy(out_.data(), pointers_[0], size_); });
    add("copy, cached", 2, [this] { kernels::copy(out_.data(), pointers_[0], size_, Stores::cached); });
    add("copy, streaming", 2, [this] { kernels::copy(out_.data(), pointers_[0], size_, Stores::streaming); });
  }

  void add_reduce(DataType type, Op op, std::size_t inputs, Stores stores, std::string_view note) {
    const auto name = fmt::format("{} {} of {}{}", coll::name_of(type), coll::name_of(op), inputs, note);
    const u64 count = size_ / coll::size_of(type);
    add(name, static_cast<unsigned>(inputs) + 1, [this, type, op, inputs, stores, count] {
      kernels::reduce(type, op, out_.data(), std::span(pointers_).first(inputs), count, op == Op::avg ? 3 : 1, stores);
    });
  }

  void add_type(const coll::TypeRow& row) {
    for (const Op op : {Op::sum, Op::prod, Op::max, Op::min, Op::avg}) add_reduce(row.type, op, 2, Stores::cached, "");
    add_reduce(row.type, Op::sum, 2, Stores::streaming, ", streaming");
    const coll::Scalar scalar = coll::Scalar::from_number(row.type, 3);
    add(fmt::format("{} scaled", row.name), 2,
        [this, scalar, row] { kernels::scale(scalar, out_.data(), pointers_[0], size_ / row.size, Stores::cached); });
  }

  void add_in_place() {
    in_place_ = {out_.data(), pointers_[0]};
    add("float sum of 2, in place", 3,
        [this] { kernels::reduce(DataType::float32, Op::sum, out_.data(), in_place_, size_ / 4, 1, Stores::cached); });
  }

  u64 size_;
  Buffer out_;
  std::vector<Buffer> inputs_;
  std::vector<const void*> pointers_;
  std::vector<const void*> in_place_;
  std::vector<Kind> kinds_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<u64> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10) << 10);
  if (sizes.empty()) sizes = {u64{16} << 10, u64{256} << 10, u64{8} << 20, u64{64} << 20};
  for (const u64 size : sizes) {
    if (size == 0) {
      fmt::print(stderr, "usage: coll_kernels [KiB]...\n");
      return 2;
    }
    Bench(size).run();
  }
  return 0;
}

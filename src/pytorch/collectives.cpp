// PyTorch's collectives, each as stages of communication and what comes before and after.
#include <algorithm>
#include <numeric>
#include <utility>

#include "pytorch/group.h"

namespace softib::pytorch {

using ::c10d::OpType;
using coll::Communicator;
using coll::DataType;
using coll::Done;
using coll::Request;
using Use = Contiguous::Use;

namespace {

Done begun(const coll::Started& started, std::vector<Request>& requests) {
  if (!started) return tl::unexpected(started.error());
  requests.push_back(*started);
  return {};
}

// A stage that begins one collective.
template <typename Start>
Task::Stage stage(Start start) {
  return [start = std::move(start)](Communicator& communicator, std::vector<Request>& requests) {
    return begun(start(communicator), requests);
  };
}

// Bytes of what is only moved: types don't matter.
constexpr DataType bytes_type = DataType::uint8;

std::vector<u64> sizes_of(const Tensors& tensors) {
  std::vector<u64> sizes;
  for (const at::Tensor& tensor : tensors) sizes.push_back(bytes_of(tensor));
  return sizes;
}

bool all_equal(const std::vector<u64>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [&](u64 number) { return number == numbers[0]; });
}

std::vector<u64> offsets_of(const std::vector<u64>& counts) {
  std::vector<u64> offsets(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), u64{0});
  return offsets;
}

at::Tensor rows_like(const at::Tensor& tensor, std::size_t rows) {
  std::vector<i64> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), static_cast<i64>(rows));
  return at::empty(sizes, tensor.options().memory_format(at::MemoryFormat::Contiguous));
}

// A tensor that is reduced: as the collectives know it, and back.
struct Reduced {
  at::Tensor tensor;
  at::Tensor wide;
  Contiguous data;

  Reduced(const at::Tensor& given, const Combining& combining, Use use)
      : tensor(given), wide(widened(given, combining)), data(wide, use) {}
  [[nodiscard]] u64 count() const { return static_cast<u64>(wide.numel()); }
  void finish() const {
    data.finish();
    narrow_into(tensor, wide);
  }
};

Task::Stage all_reduce_stage(const Reduced& part, const coll::Reduction& reduction) {
  return stage([memory = part.data.memory(), count = part.count(), reduction](Communicator& communicator) {
    return communicator.start_all_reduce(memory, memory, count, reduction);
  });
}

// Collectives on tensors that don't depend on each other: their communication is under way at once.
struct Together {
  std::vector<Task::Stage> stages;
  std::vector<std::function<void()>> after;

  void add(Task::Stage one, std::function<void()> then) {
    stages.push_back(std::move(one));
    after.push_back(std::move(then));
  }
  [[nodiscard]] Task::Stage stage() {
    return [stages = std::move(stages)](Communicator& communicator, std::vector<Request>& requests) -> Done {
      for (const Task::Stage& one : stages)
        if (auto done = one(communicator, requests); !done) return done;
      return {};
    };
  }
  [[nodiscard]] std::function<void()> finish() {
    return [after = std::move(after)] {
      for (const auto& one : after) one();
    };
  }
};

}  // namespace

WorkPointer Group::broadcast(Tensors& tensors, const ::c10d::BroadcastOptions& options) {
  check_root(options.rootRank);
  ++collectives_;
  const Contiguous data(only(tensors), rank_ == options.rootRank ? Use::read : Use::both);
  auto start = [data, bytes = bytes_of(tensors[0]), root = static_cast<u32>(options.rootRank)](Communicator& ranks) {
    return ranks.start_broadcast(data.memory(), data.memory(), bytes, bytes_type, root);
  };
  return launch(
      {OpType::BROADCAST, "softib:broadcast", options.timeout, {tensors}, tensors, {stage(std::move(start))}, [data] {
         data.finish();
       }});
}

WorkPointer Group::allreduce(Tensors& tensors, const ::c10d::AllreduceOptions& options) {
  if (tensors.size() == 1 && tensors[0].is_sparse()) return reduce_sparse(tensors[0], options);
  static_cast<void>(only(tensors));
  ::c10d::AllreduceCoalescedOptions all;
  all.reduceOp = options.reduceOp;
  all.timeout = options.timeout;
  return allreduce_coalesced(tensors, all);
}

WorkPointer Group::allreduce_coalesced(Tensors& tensors, const ::c10d::AllreduceCoalescedOptions& options) {
  ++collectives_;
  check_tensors(tensors);
  Together together;
  for (const at::Tensor& tensor : tensors) {
    const Combining combining = combining_of(options.reduceOp, tensor.scalar_type());
    if (!combining.bitwise) {
      const Reduced part(tensor, combining, Use::both);
      together.add(all_reduce_stage(part, combining.reduction), [part] { part.finish(); });
      continue;
    }
    const Contiguous own(tensor, Use::read);
    const at::Tensor rows = rows_like(tensor, count());
    together.add(stage([own, rows](Communicator& ranks) {
                   return ranks.start_all_gather(own.memory(), rows.data_ptr(), bytes_of(own.tensor()), bytes_type);
                 }),
                 [rows, tensor, op = combining.op] { combine_rows(rows, tensor, op); });
  }
  return launch({OpType::ALLREDUCE,
                 "softib:all_reduce",
                 options.timeout,
                 {tensors},
                 tensors,
                 {together.stage()},
                 together.finish()});
}

// First how many elements each rank has, then all of them; equal places are summed here.
WorkPointer Group::reduce_sparse(const at::Tensor& tensor, const ::c10d::AllreduceOptions& options) {
  const ::c10d::ReduceOp::RedOpType op = options.reduceOp;
  TORCH_CHECK(op == ::c10d::ReduceOp::SUM || op == ::c10d::ReduceOp::AVG,
              "softib: sparse tensors are summed or "
              "averaged, nothing else");
  ++collectives_;
  struct State {
    at::Tensor tensor, indices, values;
    std::vector<u64> counts;
    Tensors all_indices, all_values;
  };
  auto state = std::make_shared<State>();
  const at::Tensor own = tensor.coalesce();
  state->tensor = tensor;
  state->indices = own.indices().contiguous();
  state->values = own.values().contiguous();
  state->counts.resize(count());
  state->counts[static_cast<std::size_t>(rank_)] = static_cast<u64>(own._nnz());
  auto tell = [state, rank = rank_](Communicator& ranks) {
    u64* counts = state->counts.data();
    return ranks.start_all_gather(counts + rank, counts, 1, DataType::uint64);
  };
  const auto gather = [](const at::Tensor& mine, Tensors& all, const std::vector<u64>& counts, i64 dimension) {
    std::vector<u64> sizes;
    i64 total = 0;
    for (const u64 one : counts) {
      std::vector<i64> shape = mine.sizes().vec();
      shape[static_cast<std::size_t>(dimension)] = static_cast<i64>(one);
      sizes.push_back(static_cast<u64>(c10::multiply_integers(shape)) * mine.element_size());
      total += c10::multiply_integers(shape);
    }
    at::Tensor memory = at::empty({total}, mine.options());
    i64 at = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      std::vector<i64> shape = mine.sizes().vec();
      shape[static_cast<std::size_t>(dimension)] = static_cast<i64>(counts[rank]);
      all.push_back(memory.narrow(0, at, c10::multiply_integers(shape)).view(shape));
      at += c10::multiply_integers(shape);
    }
    return std::pair{memory, sizes};
  };
  Task::Stage move = [state, gather](Communicator& ranks, std::vector<Request>& requests) -> Done {
    for (const bool values : {false, true}) {
      const at::Tensor& mine = values ? state->values : state->indices;
      const auto [memory, sizes] =
          gather(mine, values ? state->all_values : state->all_indices, state->counts, values ? 0 : 1);
      const auto started = ranks.start_all_gather_v(mine.data_ptr(), memory.data_ptr(), sizes, bytes_type);
      if (auto done = begun(started, requests); !done) return done;
    }
    return {};
  };
  auto after = [state, mean = op == ::c10d::ReduceOp::AVG, ranks = size_] {
    at::Tensor sum = at::sparse_coo_tensor(at::cat(state->all_indices, 1), at::cat(state->all_values, 0),
                                           state->tensor.sizes(), state->tensor.options())
                         .coalesce();
    if (mean) sum = sum.div(ranks);
    state->tensor.copy_(sum);
  };
  return launch({OpType::ALLREDUCE,
                 "softib:all_reduce",
                 options.timeout,
                 {{tensor}},
                 {tensor},
                 {stage(std::move(tell)), std::move(move)},
                 std::move(after)});
}

WorkPointer Group::reduce(Tensors& tensors, const ::c10d::ReduceOptions& options) {
  check_root(options.rootRank);
  ++collectives_;
  const at::Tensor& tensor = only(tensors);
  const Combining combining = combining_of(options.reduceOp, tensor.scalar_type());
  const auto root = static_cast<u32>(options.rootRank);
  const bool mine = rank_ == options.rootRank;
  Order order{OpType::REDUCE, "softib:reduce", options.timeout, {tensors}, tensors, {}, {}};
  if (combining.bitwise) {
    const Contiguous own(tensor, Use::read);
    const at::Tensor rows = mine ? rows_like(tensor, count()) : at::Tensor();
    order.stages.push_back(stage([own, rows, root](Communicator& ranks) {
      void* out = rows.defined() ? rows.data_ptr() : nullptr;
      return ranks.start_gather(own.memory(), out, bytes_of(own.tensor()), bytes_type, root);
    }));
    if (mine) order.after = [rows, tensor, op = combining.op] { combine_rows(rows, tensor, op); };
    return launch(std::move(order));
  }
  const Reduced part(tensor, combining, mine ? Use::both : Use::read);
  order.stages.push_back(stage([part, mine, root, reduction = combining.reduction](Communicator& ranks) {
    void* memory = part.data.memory();
    return ranks.start_reduce(memory, mine ? memory : nullptr, part.count(), reduction, root);
  }));
  if (mine) order.after = [part] { part.finish(); };
  return launch(std::move(order));
}

// Every rank gets every rank's inputs, one rank's after the other's.
WorkPointer Group::gather_blocks(Order order, const Tensors& outputs, const Tensors& inputs,
                                 const std::vector<u64>& block_bytes) {
  ++collectives_;
  TORCH_CHECK(block_bytes[static_cast<std::size_t>(rank_)] == bytes_of(inputs), "softib: rank ", rank_, " gives ",
              bytes_of(inputs), " bytes, where ", block_bytes[static_cast<std::size_t>(rank_)], " are expected of it");
  const Flat in(inputs, Use::read);
  const Flat out(outputs, Use::write);
  order.inputs = inputs;
  order.stages.push_back(stage([in, out, block_bytes](Communicator& ranks) {
    if (all_equal(block_bytes)) return ranks.start_all_gather(in.memory(), out.memory(), in.bytes(), bytes_type);
    return ranks.start_all_gather_v(in.memory(), out.memory(), block_bytes, bytes_type);
  }));
  order.after = [out] { out.finish(); };
  return launch(std::move(order));
}

WorkPointer Group::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const ::c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == 1, "softib: one list of outputs, not ", outputs.size());
  check_list(outputs[0], only(inputs));
  return gather_blocks({OpType::ALLGATHER, "softib:all_gather", options.timeout, outputs, {}, {}, {}}, outputs[0],
                       inputs, sizes_of(outputs[0]));
}

WorkPointer Group::_allgather_base(at::Tensor& output, at::Tensor& input, const ::c10d::AllgatherOptions& options) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "softib: output and input have different types");
  TORCH_CHECK(output.numel() == input.numel() * size_, "softib: the output has ", output.numel(), " elements, not ",
              size_, " times ", input.numel());
  return gather_blocks({OpType::_ALLGATHER_BASE, "softib:all_gather", options.timeout, {{output}}, {}, {}, {}},
                       {output}, {input}, std::vector<u64>(count(), bytes_of(input)));
}

WorkPointer Group::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                       const ::c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == count(), "softib: ", outputs.size(), " lists of outputs for ", size_, " ranks");
  Tensors all;
  std::vector<u64> sizes;
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), "softib: ", list.size(), " outputs for ", inputs.size(), " inputs");
    all.insert(all.end(), list.begin(), list.end());
    sizes.push_back(bytes_of(list));
  }
  return gather_blocks({OpType::ALLGATHER_COALESCED, "softib:all_gather", options.timeout, outputs, {}, {}, {}}, all,
                       inputs, sizes);
}

WorkPointer Group::gather(std::vector<Tensors>& outputs, Tensors& inputs, const ::c10d::GatherOptions& options) {
  check_root(options.rootRank);
  ++collectives_;
  const at::Tensor& input = only(inputs);
  const bool mine = rank_ == options.rootRank;
  TORCH_CHECK(outputs.size() == (mine ? 1 : 0), "softib: the root, and nobody else, gives one list of outputs");
  if (mine) check_list(outputs[0], input);
  if (mine)
    for (const at::Tensor& output : outputs[0])
      TORCH_CHECK(output.numel() == input.numel(), "softib: gather needs tensors of one size");
  const Contiguous in(input, Use::read);
  const Flat out(mine ? outputs[0] : Tensors{}, Use::write);
  auto start = [in, out, root = static_cast<u32>(options.rootRank)](Communicator& ranks) {
    return ranks.start_gather(in.memory(), out.memory(), bytes_of(in.tensor()), bytes_type, root);
  };
  return launch({OpType::GATHER, "softib:gather", options.timeout, outputs, inputs, {stage(std::move(start))}, [out] {
                   out.finish();
                 }});
}

WorkPointer Group::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const ::c10d::ScatterOptions& options) {
  check_root(options.rootRank);
  ++collectives_;
  const at::Tensor& output = only(outputs);
  const bool mine = rank_ == options.rootRank;
  TORCH_CHECK(inputs.size() == (mine ? 1 : 0), "softib: the root, and nobody else, gives one list of inputs");
  if (mine) check_list(inputs[0], output);
  if (mine)
    for (const at::Tensor& input : inputs[0])
      TORCH_CHECK(input.numel() == output.numel(), "softib: scatter needs tensors of one size");
  const Flat in(mine ? inputs[0] : Tensors{}, Use::read);
  const Contiguous out(output, Use::write);
  auto start = [in, out, root = static_cast<u32>(options.rootRank)](Communicator& ranks) {
    return ranks.start_scatter(in.memory(), out.memory(), bytes_of(out.tensor()), bytes_type, root);
  };
  return launch({OpType::SCATTER,
                 "softib:scatter",
                 options.timeout,
                 {outputs},
                 mine ? inputs[0] : Tensors{},
                 {stage(std::move(start))},
                 [out] { out.finish(); }});
}

namespace {

// One of the collectives of scatter_reduced(). `inputs`: for each rank what it gets of this one.
void add_reduce_scatter(Together& together, const at::Tensor& output, const Tensors& inputs,
                        const Combining& combining) {
  if (combining.bitwise) {
    const Flat in(inputs, Use::read);
    const at::Tensor rows = rows_like(output, inputs.size());
    together.add(
        stage([in, rows, sent = sizes_of(inputs), bytes = bytes_of(output)](Communicator& ranks) {
          const std::vector<u64> received(sent.size(), bytes);
          const std::vector<u64> from = offsets_of(sent);
          const std::vector<u64> to = offsets_of(received);
          return ranks.start_all_to_all_v(in.memory(), {sent, from}, rows.data_ptr(), {received, to}, bytes_type);
        }),
        [rows, output, what = combining.op] { combine_rows(rows, output, what); });
    return;
  }
  Tensors wide;
  std::vector<u64> counts;
  for (const at::Tensor& input : inputs) {
    wide.push_back(widened(input, combining));
    counts.push_back(static_cast<u64>(wide.back().numel()));
  }
  const Flat in(wide, Use::read);
  const Reduced out(output, combining, Use::write);
  together.add(stage([in, out, counts, reduction = combining.reduction](Communicator& ranks) {
                 if (all_equal(counts))
                   return ranks.start_reduce_scatter(in.memory(), out.data.memory(), counts[0], reduction);
                 return ranks.start_reduce_scatter_v(in.memory(), out.data.memory(), counts, reduction);
               }),
               [out] { out.finish(); });
}

}  // namespace

// `inputs`: for each output, and in that for each rank what it gets of this one.
WorkPointer Group::scatter_reduced(Order order, const Tensors& outputs, const std::vector<Tensors>& inputs,
                                   const ::c10d::ReduceOp& op) {
  ++collectives_;
  Together together;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK(inputs[i][static_cast<std::size_t>(rank_)].numel() == outputs[i].numel(),
                "softib: the output has another size than rank ", rank_, "'s part of the input");
    add_reduce_scatter(together, outputs[i], inputs[i], combining_of(op, outputs[i].scalar_type()));
    order.inputs.insert(order.inputs.end(), inputs[i].begin(), inputs[i].end());
  }
  order.stages.push_back(together.stage());
  order.after = together.finish();
  return launch(std::move(order));
}

WorkPointer Group::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                  const ::c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(inputs.size() == 1, "softib: one list of inputs, not ", inputs.size());
  const at::Tensor& output = only(outputs);
  check_list(inputs[0], output);
  return scatter_reduced({OpType::REDUCE_SCATTER, "softib:reduce_scatter", options.timeout, {outputs}, {}, {}, {}},
                         outputs, inputs, options.reduceOp);
}

namespace {

// An input for each rank, as parts of one tensor.
Tensors parts_of(const at::Tensor& input, const at::Tensor& output, int ranks) {
  check_tensor(output);
  check_tensor(input);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "softib: output and input have different types");
  TORCH_CHECK(output.numel() * ranks == input.numel(), "softib: the input has ", input.numel(), " elements, not ",
              ranks, " times ", output.numel());
  return input.contiguous().view({ranks, output.numel()}).unbind(0);
}

}  // namespace

WorkPointer Group::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                        const ::c10d::ReduceScatterOptions& options) {
  return scatter_reduced(
      {OpType::_REDUCE_SCATTER_BASE, "softib:reduce_scatter", options.timeout, {{output}}, {}, {}, {}}, {output},
      {parts_of(input, output, size_)}, options.reduceOp);
}

// To each rank a tensor, of each rank one.
WorkPointer Group::exchange(Order order, const Tensors& outputs, const Tensors& inputs) {
  ++collectives_;
  const Flat in(inputs, Use::read);
  const Flat out(outputs, Use::write);
  order.inputs = inputs;
  auto start = [in, out, sent = sizes_of(inputs), received = sizes_of(outputs)](Communicator& ranks) {
    const std::vector<u64> from = offsets_of(sent);
    const std::vector<u64> to = offsets_of(received);
    return ranks.start_all_to_all_v(in.memory(), {sent, from}, out.memory(), {received, to}, bytes_type);
  };
  order.stages.push_back(stage(std::move(start)));
  order.after = [out] { out.finish(); };
  return launch(std::move(order));
}

WorkPointer Group::alltoall(Tensors& outputs, Tensors& inputs, const ::c10d::AllToAllOptions& options) {
  TORCH_CHECK(!inputs.empty(), "softib: no inputs");
  check_list(inputs, inputs[0]);
  check_list(outputs, inputs[0]);
  return exchange({OpType::ALLTOALL, "softib:all_to_all", options.timeout, {outputs}, {}, {}, {}}, outputs, inputs);
}

namespace {

// Rows of a tensor for each rank: as many as the list says, without one an equal number.
Tensors split_rows(const at::Tensor& tensor, const std::vector<i64>& splits, int ranks) {
  check_tensor(tensor);
  TORCH_CHECK(tensor.dim() > 0, "softib: a number has no rows to split");
  const i64 rows = tensor.size(0);
  std::vector<i64> sizes = splits;
  if (sizes.empty()) {
    TORCH_CHECK(rows % ranks == 0, "softib: ", rows, " rows don't divide by ", ranks, " ranks");
    sizes.assign(static_cast<std::size_t>(ranks), rows / ranks);
  }
  TORCH_CHECK(sizes.size() == static_cast<std::size_t>(ranks), "softib: ", sizes.size(), " splits for ", ranks,
              " ranks");
  TORCH_CHECK(std::accumulate(sizes.begin(), sizes.end(), i64{0}) == rows, "softib: splits don't make up the ", rows,
              " rows of the tensor");
  return tensor.split_with_sizes(sizes, 0);
}

}  // namespace

WorkPointer Group::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<i64>& output_splits,
                                 std::vector<i64>& input_splits, const ::c10d::AllToAllOptions& options) {
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "softib: output and input have different types");
  const Tensors outputs = split_rows(output, output_splits, size_);
  const Tensors inputs = split_rows(input, input_splits, size_);
  return exchange({OpType::ALLTOALL_BASE, "softib:all_to_all", options.timeout, {{output}}, {}, {}, {}}, outputs,
                  inputs);
}

WorkPointer Group::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                   const ::c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "softib: ", outputs.size(), " outputs for ", inputs.size(), " inputs");
  std::vector<Tensors> by_rank(count());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_tensor(outputs[i]);
    TORCH_CHECK(outputs[i].scalar_type() == inputs[i].scalar_type(), "softib: output and input ", i,
                " have different types");
    TORCH_CHECK(outputs[i].is_contiguous() && outputs[i].numel() == inputs[i].numel() * size_, "softib: output ", i,
                " isn't contiguous, or not ", size_, " times its input");
    const Tensors parts = outputs[i].view({size_, inputs[i].numel()}).unbind(0);
    for (std::size_t rank = 0; rank < count(); ++rank) by_rank[rank].push_back(parts[rank]);
  }
  return allgather_coalesced(by_rank, inputs, options);
}

WorkPointer Group::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                   const ::c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "softib: ", outputs.size(), " outputs for ", inputs.size(), " inputs");
  std::vector<Tensors> parts;
  for (std::size_t i = 0; i < outputs.size(); ++i) parts.push_back(parts_of(inputs[i], outputs[i], size_));
  return scatter_reduced(
      {OpType::_REDUCE_SCATTER_BASE, "softib:reduce_scatter", options.timeout, {outputs}, {}, {}, {}}, outputs, parts,
      options.reduceOp);
}

WorkPointer Group::barrier(const ::c10d::BarrierOptions& options) {
  ++collectives_;
  auto start = [](Communicator& ranks) { return ranks.start_barrier(); };
  return launch({OpType::BARRIER, "softib:barrier", options.timeout, {}, {}, {stage(std::move(start))}, {}});
}

}  // namespace softib::pytorch

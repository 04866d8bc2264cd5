// The extension module softib_torch._softib.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>

#include "pytorch/group.h"

namespace {

using softib::pytorch::Group;
using softib::pytorch::Tensors;
using softib::pytorch::WorkPointer;

c10::intrusive_ptr<Group> make_group(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                                     double seconds) {
  const auto timeout = std::chrono::milliseconds(static_cast<softib::i64>(seconds * 1000));
  return c10::make_intrusive<Group>(store, rank, size, timeout);
}

// By that store, and with the time-out of this group.
c10::intrusive_ptr<Group> split(Group& self, const c10::intrusive_ptr<::c10d::Store>& store,
                                const std::vector<int>& ranks) {
  return c10::dynamic_intrusive_pointer_cast<Group>(self.split(store, ranks, self.getBackendOptions()));
}

WorkPointer gather_coalesced(Group& self, Tensors outputs, Tensors inputs) {
  return self.allgather_into_tensor_coalesced(outputs, inputs, {});
}

WorkPointer reduce_scatter_coalesced(Group& self, Tensors outputs, Tensors inputs, const ::c10d::ReduceOp& op) {
  ::c10d::ReduceScatterOptions options;
  options.reduceOp = op;
  return self.reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

std::optional<std::string> failure_of(Group& self) {
  const auto error = self.failure();
  return error ? std::optional(error->text) : std::nullopt;
}

}  // namespace

PYBIND11_MODULE(_softib, module) {
  // Registers what these are derived from.
  pybind11::module_::import("torch.distributed");
  using Free = pybind11::call_guard<pybind11::gil_scoped_release>;
  pybind11::class_<Group, c10::intrusive_ptr<Group>, softib::pytorch::GroupBase>(module, "SoftibGroup")
      .def(pybind11::init(&make_group), Free(), pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"),
           pybind11::arg("seconds"))
      .def(
          "stop", [](Group& self) { self.stop("the process group was stopped"); }, Free(),
          "Ends what is under way; all later calls raise.")
      // What ProcessGroup has for all backends in 2.x, and not in 1.13.
      .def("abort", &Group::abort, Free())
      .def("shutdown", &Group::shutdown, Free())
      .def("set_timeout", &Group::setTimeout, Free(), pybind11::arg("timeout"))
      .def("split", &split, Free(), pybind11::arg("store"), pybind11::arg("ranks"))
      .def("start_coalescing", &Group::start_batch, Free())
      .def("end_coalescing", &Group::end_batch, Free())
      .def("allgather_into_tensor_coalesced", &gather_coalesced, Free(), pybind11::arg("outputs"),
           pybind11::arg("inputs"))
      .def("reduce_scatter_tensor_coalesced", &reduce_scatter_coalesced, Free(), pybind11::arg("outputs"),
           pybind11::arg("inputs"), pybind11::arg("op") = ::c10d::ReduceOp(::c10d::ReduceOp::SUM))
      .def("failure", &failure_of, Free(), "Why no call can succeed any more; None while they can.");
  module.def("stop_all", &Group::stop_all, Free());
}

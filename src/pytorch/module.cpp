// The extension module softib_torch._softib.
#include <torch/csrc/utils/pybind.h>

#include <chrono>

#include "pytorch/group.h"

namespace {

using softib::pytorch::Group;

c10::intrusive_ptr<Group> make_group(const c10::intrusive_ptr<::c10d::Store>& store, int rank, int size,
                                     double seconds) {
  const auto timeout = std::chrono::milliseconds(static_cast<softib::i64>(seconds * 1000));
  return c10::make_intrusive<Group>(store, rank, size, timeout);
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
          "Ends what is under way; all later calls raise.");
  module.def("stop_all", &Group::stop_all, Free());
}

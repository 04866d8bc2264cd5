#include "perf/collective.h"

#include <array>

#include "perf/pattern.h"

namespace softib::perf {

namespace {

struct NameRow {
  std::string_view name;
  std::unique_ptr<Collective> (*make)();
};

constexpr std::array<NameRow, 11> names{{
    {"all_reduce", make_all_reduce},
    {"all_gather", make_all_gather},
    {"broadcast", make_broadcast},
    {"reduce", make_reduce},
    {"reduce_scatter", make_reduce_scatter},
    {"alltoall", make_all_to_all},
    {"alltoallv", make_all_to_all_v},
    {"gather", make_gather},
    {"scatter", make_scatter},
    {"sendrecv", make_send_receive},
    {"hypercube", make_hypercube},
}};

}  // namespace

coll::Reduction Setting::reduction() const { return {type, op, coll::Scalar::from_number(type, factor_of(rank))}; }

std::unique_ptr<Collective> make_collective(std::string_view name) {
  for (const NameRow& row : names)
    if (row.name == name) return row.make();
  return nullptr;
}

}  // namespace softib::perf

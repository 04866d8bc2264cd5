#include "coll/schedule/algorithms.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace softib::coll {

namespace {

using C = Collective;
using A = Algorithm;

constexpr std::array<std::string_view, 9> collective_names{
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all", "barrier"};

constexpr std::array<std::string_view, 16> algorithm_names{"ring",
                                                           "recursive_doubling",
                                                           "halving_doubling",
                                                           "double_tree",
                                                           "direct",
                                                           "one_shot",
                                                           "hierarchical",
                                                           "bruck",
                                                           "pairwise",
                                                           "recursive_halving",
                                                           "binomial",
                                                           "chain",
                                                           "scatter_all_gather",
                                                           "reduce_scatter_gather",
                                                           "dissemination",
                                                           "innetwork"};

constexpr AlgorithmRow algorithm_table[]{
    {C::all_reduce, A::ring, all_reduce_ring},
    {C::all_reduce, A::recursive_doubling, all_reduce_recursive_doubling},
    {C::all_reduce, A::halving_doubling, all_reduce_halving_doubling},
    {C::all_reduce, A::double_tree, all_reduce_double_tree, Counts::any, 2},
    {C::all_reduce, A::direct, all_reduce_direct},
    {C::all_reduce, A::one_shot, all_reduce_one_shot},
    {C::all_reduce, A::hierarchical, all_reduce_hierarchical},
    {C::all_reduce, A::innetwork, all_reduce_innetwork},
    {C::all_gather, A::ring, all_gather_ring},
    {C::all_gather, A::recursive_doubling, all_gather_recursive_doubling},
    {C::all_gather, A::bruck, all_gather_bruck},
    {C::all_gather, A::direct, all_gather_direct},
    {C::all_gather, A::hierarchical, all_gather_hierarchical},
    {C::reduce_scatter, A::ring, reduce_scatter_ring},
    {C::reduce_scatter, A::recursive_halving, reduce_scatter_recursive_halving},
    {C::reduce_scatter, A::pairwise, reduce_scatter_pairwise},
    {C::reduce_scatter, A::direct, reduce_scatter_direct},
    {C::reduce_scatter, A::hierarchical, reduce_scatter_hierarchical},
    {C::broadcast, A::binomial, broadcast_binomial},
    {C::broadcast, A::chain, broadcast_chain},
    {C::broadcast, A::scatter_all_gather, broadcast_scatter_all_gather},
    {C::broadcast, A::direct, broadcast_direct},
    {C::broadcast, A::hierarchical, broadcast_hierarchical},
    {C::broadcast, A::innetwork, broadcast_innetwork},
    {C::reduce, A::binomial, reduce_binomial},
    {C::reduce, A::chain, reduce_chain},
    {C::reduce, A::reduce_scatter_gather, reduce_reduce_scatter_gather},
    {C::reduce, A::direct, reduce_direct},
    {C::reduce, A::hierarchical, reduce_hierarchical},
    {C::reduce, A::innetwork, reduce_innetwork},
    {C::gather, A::binomial, gather_binomial, Counts::equal},
    {C::gather, A::direct, gather_direct},
    {C::scatter, A::binomial, scatter_binomial, Counts::equal},
    {C::scatter, A::direct, scatter_direct},
    {C::all_to_all, A::pairwise, all_to_all_pairwise},
    {C::all_to_all, A::bruck, all_to_all_bruck, Counts::equal},
    {C::all_to_all, A::direct, all_to_all_direct},
    {C::barrier, A::dissemination, barrier_dissemination},
    {C::barrier, A::innetwork, barrier_innetwork},
};

// Names are compared without underscores and case.
std::string folded_name(std::string_view name) {
  std::string folded;
  for (const char letter : name)
    if (letter != '_') folded += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return folded;
}

}  // namespace

std::string_view name_of(Collective collective) { return collective_names[static_cast<u8>(collective)]; }

std::string_view name_of(Algorithm algorithm) { return algorithm_names[static_cast<u8>(algorithm)]; }

std::optional<Collective> collective_from_name(std::string_view name) {
  for (std::size_t i = 0; i < collective_names.size(); ++i)
    if (folded_name(collective_names[i]) == folded_name(name)) return static_cast<Collective>(i);
  return std::nullopt;
}

std::vector<Algorithm> algorithms_from_name(std::string_view name) {
  const std::string folded = folded_name(name);
  if (folded == "tree") return {Algorithm::double_tree, Algorithm::binomial};
  for (std::size_t i = 0; i < algorithm_names.size(); ++i)
    if (folded_name(algorithm_names[i]) == folded) return {static_cast<Algorithm>(i)};
  return {};
}

std::string algorithm_names_for(Collective collective) {
  std::string names;
  for (const AlgorithmRow& row : algorithm_table) {
    if (row.collective != collective) continue;
    if (!names.empty()) names += ", ";
    names += name_of(row.algorithm);
  }
  return names;
}

std::span<const AlgorithmRow> algorithms() { return algorithm_table; }

const AlgorithmRow* find_algorithm(Collective collective, Algorithm algorithm) {
  for (const AlgorithmRow& row : algorithm_table)
    if (row.collective == collective && row.algorithm == algorithm) return &row;
  return nullptr;
}

std::vector<Schedule> make_lanes(const AlgorithmRow& row, const Problem& problem, u32 lanes) {
  std::vector<Schedule> schedules;
  const u32 number = std::max(lanes, row.least_lanes);
  for (u32 lane = 0; lane < number; ++lane) schedules.push_back(row.schedule(slice(problem, lane, number)));
  return schedules;
}

}  // namespace softib::coll

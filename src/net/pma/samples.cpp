// PortSamplesControl and PortSamplesResult: counters over an interval that the requester sets.
#include <algorithm>

#include "net/pma/pma.h"

namespace softib::net {

namespace {

using wire::MadStatus;
using wire::SampleSelect;
using wire::SampleStatus;
namespace control = wire::samples_control;
namespace result = wire::samples_result;

constexpr u64 tick_ns = 4;  // a symbol of the slowest link, which tick code 0 stands for
constexpr u8 width_32 = 4;
constexpr u64 longest = 0xffff'ffff;

u64 sampled(const Port& port, u16 select) {
  switch (static_cast<SampleSelect>(select)) {
    case SampleSelect::xmit_data:
      return counted(port, index_of(Count::xmit_words));
    case SampleSelect::receive_data:
      return counted(port, index_of(Count::receive_words));
    case SampleSelect::xmit_packets:
      return counted(port, index_of(Count::xmit_packets));
    case SampleSelect::receive_packets:
      return counted(port, index_of(Count::receive_packets));
    case SampleSelect::xmit_wait:
      return counted(port, index_of(Cause::xmit_wait));
    default:
      return 0;
  }
}

void measure(const Port& port, Sampling& sampling) {
  for (size_t i = 0; i < sampling.select.size(); ++i)
    sampling.values[i] = sampled(port, sampling.select[i]) - sampling.values[i];
}

void advance(Port& port, Sampling& sampling, u64 now) {
  if (sampling.due == 0) sampling.due = now + sampling.start * tick_ns;
  if (sampling.status == SampleStatus::waiting && sampling.due <= now) {
    sampling.values.fill(0);
    measure(port, sampling);
    sampling.status = SampleStatus::sampling;
    sampling.due += sampling.interval * tick_ns;
    if (sampling.due <= now) sampling.due = now + 1;  // called late: the interval is not to be lost
  } else if (sampling.status == SampleStatus::sampling && sampling.due <= now) {
    measure(port, sampling);
    sampling.status = SampleStatus::done;
  }
}

void write_control(const Sampling& sampling, std::span<u8> data) {
  wire::set(data, control::counter_width, width_32);
  wire::set(data, control::counter_mask0, 1);  // the counters that all have to offer
  wire::set(data, control::status, static_cast<u8>(sampling.status));
  wire::set(data, control::start, sampling.start);
  wire::set(data, control::interval, sampling.interval);
  wire::set(data, control::tag, sampling.tag);
  for (u32 i = 0; i < control::counters; ++i) wire::set(data, control::select(i), sampling.select[i]);
}

void begin(World& world, Sampling& sampling, std::span<const u8> data) {
  sampling = {};
  sampling.status = SampleStatus::waiting;
  sampling.start = static_cast<u32>(wire::get(data, control::start));
  sampling.interval = static_cast<u32>(wire::get(data, control::interval));
  sampling.tag = static_cast<u16>(wire::get(data, control::tag));
  for (u32 i = 0; i < control::counters; ++i)
    sampling.select[i] = static_cast<u16>(wire::get(data, control::select(i)));
  ++world.samplings;
}

Sampling sampling_of(const Port& port) { return port.monitor ? port.monitor->sampling : Sampling{}; }

}  // namespace

MadStatus pma_samples_control(const PmaCall& call) {
  const std::span<Port> ports = selected_ports(call);
  if (ports.size() != 1) return MadStatus::bad_value;  // one at a time
  const u64 select = wire::get(call.data, control::port_select);
  if (call.set) {
    const Port& last = call.world.ports[call.node.first + call.node.sampled_port];
    if (sampling_of(last).status != SampleStatus::done) return MadStatus::busy;
    call.node.sampled_port = ports[0].ref.port;
    begin(call.world, monitor_of(ports[0]).sampling, call.data);
  }
  call.clear();
  wire::set(call.data, control::port_select, select);
  write_control(sampling_of(ports[0]), call.data);
  return MadStatus::ok;
}

// Those of the port that was asked for last: a node has one sampler.
MadStatus pma_samples_result(const PmaCall& call) {
  if (call.set) return MadStatus::bad_attribute;
  const Sampling sampling = sampling_of(call.world.ports[call.node.first + call.node.sampled_port]);
  call.clear();
  wire::set(call.data, result::tag, sampling.tag);
  wire::set(call.data, result::status, static_cast<u8>(sampling.status));
  if (sampling.status != SampleStatus::done) return MadStatus::ok;
  for (u32 i = 0; i < control::counters; ++i)
    wire::set(call.data, result::counter(i), std::min(sampling.values[i], longest));
  return MadStatus::ok;
}

u64 sample(World& world) {
  u64 next = ~u64{0};
  if (world.samplings == 0) return next;
  world.samplings = 0;
  for (Port& port : world.ports) {
    if (!port.monitor || port.monitor->sampling.status == SampleStatus::done) continue;
    Sampling& sampling = port.monitor->sampling;
    advance(port, sampling, world.now);
    if (sampling.status == SampleStatus::done) continue;
    ++world.samplings;
    next = std::min(next, sampling.due);
  }
  return next;
}

}  // namespace softib::net

#include "net/pma/monitor.h"

namespace softib::net {

void MonitorDeleter::operator()(Monitor* monitor) const { delete monitor; }

Monitor& monitor_of(Port& port) {
  if (!port.monitor) port.monitor.reset(new Monitor);
  return *port.monitor;
}

u64 counted(const Port& port, size_t index) {
  return port.monitor && port.monitor->stuck ? port.monitor->frozen[index] : port.tally[index];
}

u64 shown(const Port& port, Family family, size_t index) {
  const u64 base = port.monitor ? port.monitor->base[static_cast<size_t>(family)][index] : 0;
  return counted(port, index) - base;
}

void reset(Port& port, Family family, size_t index, u64 value) {
  Monitor& monitor = monitor_of(port);
  if (!monitor.stuck) monitor.base[static_cast<size_t>(family)][index] = port.tally[index] - value;
}

bool stuck(const Port& port) { return port.monitor && port.monitor->stuck; }

void stick(Port& port, bool stuck) {
  Monitor& monitor = monitor_of(port);
  if (monitor.stuck == stuck) return;
  monitor.stuck = stuck;
  if (stuck) {
    monitor.frozen = port.tally;
    return;
  }
  for (Tally& base : monitor.base)  // what came meanwhile was never shown
    for (size_t i = 0; i < base.size(); ++i) base[i] += port.tally[i] - monitor.frozen[i];
}

void reset_all(Port& port) {
  Monitor& monitor = monitor_of(port);
  const bool stuck = monitor.stuck;
  monitor = {};
  monitor.stuck = stuck;
  monitor.frozen = port.tally;
  monitor.base.fill(port.tally);
}

}  // namespace softib::net

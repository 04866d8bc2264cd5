#include "daemon/host_trees.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "daemon/port_record.h"

namespace softib::daemon {

HostTrees::HostTrees(const fabric::Fabric& fabric, const ipc::Segment& segment)
    : fabric_(fabric), segment_(segment), made_(fabric.hosts.size()) {
  u32 next = 1;
  for (const fabric::Host& host : fabric.hosts) {
    first_port_.push_back(next);
    for (const fabric::Hca& hca : host.hcas) next += static_cast<u32>(hca.ports.size());
  }
}

// Somebody may have taken it away.
bool HostTrees::is_there(u32 host) const {
  return made_[host] && ::access((dir_ + "/hosts/" + fabric_.hosts[host].name).c_str(), F_OK) == 0;
}

Result<void> HostTrees::prepare(u32 host) {
  if (dir_.empty()) return fail(ENOENT);
  if (is_there(host)) return {};
  std::vector<fabric::PortStatus> ports;
  u32 index = first_port_[host];
  for (const fabric::Hca& hca : fabric_.hosts[host].hcas)
    for (size_t i = 0; i < hca.ports.size(); ++i) ports.push_back(read_status(segment_.ports[index++]));
  if (auto written = fabric::write_host_tree(dir_, fabric_, host, ports); !written) {
    spdlog::error("cannot write the sysfs tree of {} below {}: {}", fabric_.hosts[host].name, dir_,
                  std::strerror(to_int(written.error())));
    return written;
  }
  made_[host] = true;
  for (const HcaPlace& at : removed_)
    if (at.host == host) hide(at, true);
  return {};
}

void HostTrees::show_all_but(const std::set<HcaPlace>& removed) {
  if (removed == removed_) return;
  for (const HcaPlace& at : removed_)
    if (!removed.contains(at) && made_[at.host]) hide(at, false);
  for (const HcaPlace& at : removed)
    if (!removed_.contains(at) && made_[at.host]) hide(at, true);
  removed_ = removed;
}

// What lists it is kept beside the tree meanwhile.
void HostTrees::hide(HcaPlace at, bool hidden) const {
  const std::string aside = dir_ + "/removed";
  ::mkdir(aside.c_str(), 0755);
  for (const std::string& path : fabric::device_entries(fabric_, at.host, at.hca)) {
    std::string name = path;
    std::replace(name.begin(), name.end(), '/', ':');
    const std::string shown = dir_ + "/" + path, kept = aside + "/" + name;
    if (::rename((hidden ? shown : kept).c_str(), (hidden ? kept : shown).c_str()) < 0)
      spdlog::warn("{} of {} is as it was: {}", path, fabric_.hosts[at.host].name, std::strerror(errno));
  }
}

void HostTrees::update(u32 port, const fabric::PortStatus& before, const fabric::PortStatus& now) const {
  const ipc::Device& device = segment_.devices[segment_.ports[port].device % ipc::max_devices];
  if (device.host >= made_.size() || !made_[device.host]) return;
  const fabric::PortPlace place{device.host, device.index_on_host, port - device.first_port};
  if (auto updated = fabric::update_port(dir_, fabric_, place, before, now); !updated)
    spdlog::warn("the sysfs tree of {} is out of date: {}", fabric_.hosts[place.host].name,
                 std::strerror(to_int(updated.error())));
}

}  // namespace softib::daemon

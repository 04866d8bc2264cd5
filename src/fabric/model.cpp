// The makes of HCA that a fabric file can name. Real makes carry their real identity, so that programs that look at it
// take the settings that they would take on such a card.
#include <array>

#include "fabric/fabric.h"

namespace softib::fabric {

namespace {

constexpr u32 mellanox_oui = 0x0002c9;
constexpr u16 mellanox_pci = 0x15b3;

constexpr std::array<Model, 6> models{{
    {"softib", "SoftIB", "SOFTIB_0001", "1.0.0", 0xffffff, 1, 0, 0x1234, 0x0001},
    {"connectx-5", "MT4119", "MT_0000000010", "16.35.3502", mellanox_oui, 4119, 0, mellanox_pci, 0x1017},
    {"connectx-6", "MT4123", "MT_0000000223", "20.38.1002", mellanox_oui, 4123, 0, mellanox_pci, 0x101b},
    {"connectx-6-dx", "MT4125", "MT_0000000359", "22.38.1002", mellanox_oui, 4125, 0, mellanox_pci, 0x101d},
    {"connectx-7", "MT4129", "MT_0000000838", "28.38.1002", mellanox_oui, 4129, 0, mellanox_pci, 0x1021},
    {"bluefield-3", "MT41692", "MT_0000000884", "32.38.1002", mellanox_oui, 41692, 1, mellanox_pci, 0xa2dc},
}};

struct SwitchModel {
  u32 device_id;
  Firmware firmware;
};

// SwitchX, Switch-IB 2, Quantum, Quantum-2, Quantum-3.
constexpr std::array<SwitchModel, 5> switch_models{{
    {0xc738, {"9.4.5110", "MT_1240212020"}},
    {0xcf08, {"15.2008.2402", "MT_2630110032"}},
    {0xd2f0, {"27.2010.4102", "MT_0000000063"}},
    {0xd2f2, {"31.2012.1024", "MT_0000000579"}},
    {0xd2f4, {"35.2014.1748", {}}},
}};

// The switch generation that is at home at a speed.
u32 switch_device(Speed speed) {
  switch (speed) {
    case Speed::edr:
      return 0xcf08;
    case Speed::hdr:
      return 0xd2f0;
    case Speed::ndr:
      return 0xd2f2;
    case Speed::xdr:
      return 0xd2f4;
    default:
      return 0xc738;
  }
}

}  // namespace

Make make_of(const Hca& hca) {
  const Model* model = find_model(hca.model);
  const Make made = model ? Make{model->vendor_id, model->vendor_part_id} : Make{};
  return {hca.vendor_id ? hca.vendor_id : made.vendor_id, hca.device_id ? hca.device_id : made.device_id};
}

Make make_of(const Switch& sw) {
  return {sw.vendor_id ? sw.vendor_id : mellanox_oui, sw.device_id ? sw.device_id : switch_device(sw.speed)};
}

bool is_mellanox(const Make& make) { return make.vendor_id == mellanox_oui; }

Firmware firmware_of(const Make& make) {
  if (const Model* model = find_model(make.vendor_id, make.device_id)) return {model->firmware, model->board_id};
  for (const SwitchModel& model : switch_models)
    if (is_mellanox(make) && model.device_id == make.device_id) return model.firmware;
  return {};
}

const Model* find_model(std::string_view name) {
  for (const Model& model : models)
    if (model.name == name) return &model;
  return nullptr;
}

const Model* find_model(u32 vendor_id, u32 device_id) {
  for (const Model& model : models)
    if (model.vendor_id == vendor_id && model.vendor_part_id == device_id) return &model;
  return nullptr;
}

std::vector<std::string_view> model_names() {
  std::vector<std::string_view> names;
  for (const Model& model : models) names.push_back(model.name);
  return names;
}

}  // namespace softib::fabric

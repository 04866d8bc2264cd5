// The fuzzers' recorded inputs, in every build: each is refused with one line or gives a fabric that holds together.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fabric/topo/export.h"
#include "fabric/topo/ibnl.h"
#include "fabric/topo/import.h"

namespace softib::fabric::topo {
namespace {

std::vector<std::pair<std::string, std::string>> corpus(const std::string& name) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(SOFTIB_CORPUS) + "/" + name)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files.emplace_back(entry.path().filename(), text.str());
  }
  return files;
}

void expect_sound(const Parsed<Imported>& imported) {
  if (!imported) {
    EXPECT_EQ(imported.error().text.find('\n'), std::string::npos);
    EXPECT_TRUE(imported.error().text.starts_with("fuzz:")) << imported.error().text;
    return;
  }
  auto again = parse(to_yaml(imported->fabric), "again");
  ASSERT_TRUE(again) << again.error().text;
  EXPECT_EQ(*again, imported->fabric);
  auto dumped = import_ibnetdiscover(to_ibnetdiscover(imported->fabric), "dump");
  ASSERT_TRUE(dumped) << dumped.error().text;
  EXPECT_EQ(dumped->fabric.cables.size(), imported->fabric.cables.size());
}

TEST(Corpus, Records) {
  size_t good = 0;
  for (const auto& [name, text] : corpus("topo_net")) {
    SCOPED_TRACE(name);
    auto imported = import_ibnetdiscover(text, "fuzz");
    expect_sound(imported);
    auto net = import_ibsim(text, "fuzz");
    expect_sound(net);
    good += imported || net;
  }
  EXPECT_GE(good, 3U);
}

TEST(Corpus, TopologyFiles) {
  size_t good = 0;
  for (const auto& [name, file] : corpus("topo_ibutils")) {
    SCOPED_TRACE(name);
    std::string_view text = file;
    IbnlLibrary library({});
    for (size_t cut = text.find("\n----"); cut != text.npos; cut = text.find("\n----")) {
      (void)library.add(text.substr(0, cut + 1), "fuzz");
      text.remove_prefix(std::min(text.find('\n', cut + 1), text.size()));
    }
    auto imported = import_topo(text, "fuzz", library);
    expect_sound(imported);
    good += imported.has_value();
  }
  EXPECT_GE(good, 2U);
}

}  // namespace
}  // namespace softib::fabric::topo

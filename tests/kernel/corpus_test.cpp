// Replays the fuzzers' recorded corpus, so that every build runs it; and the corpus holds what it should.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "seeds.h"

namespace softib::kernel::testing {
namespace {

namespace fs = std::filesystem;

std::vector<u8> read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

size_t replay(const char* folder, Entry entry) {
  size_t count = 0;
  for (const auto& file : fs::directory_iterator(fs::path(SOFTIB_CORPUS) / folder)) {
    SCOPED_TRACE(file.path().string());
    std::vector<u8> bytes = read_file(file.path());
    run_input(bytes.data(), bytes.size(), entry);
    ++count;
  }
  return count;
}

TEST(Corpus, Ioctl) { EXPECT_GE(replay("uverbs_ioctl", Entry::ioctl), method_table().size() + command_table().size()); }

TEST(Corpus, Write) { EXPECT_GE(replay("uverbs_write", Entry::write), command_table().size()); }

// A seed whose call fails would teach a fuzzer little: all but those of absent things succeed.
int result_of(const std::vector<u8>& seed, Entry entry) {
  CallHead head;
  std::memcpy(&head, seed.data(), sizeof head);
  World world;
  world.make_objects();
  world.window.reset();
  world.window.set(Window::base, seed.data() + sizeof head, head.size);
  if (entry == Entry::ioctl) return world.file->ioctl(Window::base);
  ssize_t written = world.file->write(Window::base, head.length);
  return written < 0 ? static_cast<int>(written) : 0;
}

TEST(Corpus, SeedsAreGoodCalls) {
  SeedMaker seeds;
  std::map<std::string, int> expected{
      {"get_context", -EINVAL},       {"invoke_get_context", -EINVAL}, {"invoke_write", -ENOSPC},
      {"reg_dmabuf_mr", -EOPNOTSUPP}, {"detach_mcast", -EINVAL},       {"invoke_detach_mcast", -EINVAL},
      {"advise_mr", -EINVAL},         {"info_handles", -EINVAL},       {"query_gid_entry", -EINVAL},
      {"query_gid_table", -EINVAL},   {"query_port", -EINVAL}};
  for (const auto& [name, seed] : seeds.ioctls) {
    auto known = expected.find(name);
    EXPECT_EQ(result_of(seed, Entry::ioctl), known == expected.end() ? 0 : known->second) << name;
  }
  for (const auto& [name, seed] : seeds.writes) {
    bool fails = name == "get_context" || name == "detach_mcast";
    EXPECT_EQ(result_of(seed, Entry::write), fails ? -EINVAL : 0) << name;
  }
}

TEST(Corpus, TheRecordedSeedsAreThoseOfTheMaker) {
  SeedMaker seeds;
  for (const auto& [folder, corpus] : {std::pair{"uverbs_ioctl", seeds.ioctls}, {"uverbs_write", seeds.writes}}) {
    for (const auto& [name, bytes] : corpus)
      EXPECT_EQ(read_file(fs::path(SOFTIB_CORPUS) / folder / name), bytes) << folder << "/" << name;
  }
}

}  // namespace
}  // namespace softib::kernel::testing

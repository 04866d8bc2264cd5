// Writes the seed corpus: make_seeds fuzz/corpus
#include <filesystem>
#include <fstream>

#include "seeds.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY\n", argv[0]);
    return 2;
  }
  softib::kernel::testing::SeedMaker seeds;
  for (const auto& [folder, corpus] : {std::pair{"uverbs_ioctl", seeds.ioctls}, {"uverbs_write", seeds.writes}}) {
    std::filesystem::path place = std::filesystem::path(argv[1]) / folder;
    std::filesystem::create_directories(place);
    for (const auto& [name, bytes] : corpus) {
      std::ofstream file(place / name, std::ios::binary);
      file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      if (!file) return 1;
    }
  }
  return 0;
}

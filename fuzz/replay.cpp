// A fuzz target without a fuzzer: gives it each file once, of the arguments or of folders that they name. Options of
// libFuzzer are passed over.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr unsigned limit_s = 60;  // for one input, under sanitizers and on a busy machine

std::string name_of_current;

bool replay(const std::filesystem::path& path) {
  name_of_current = path;
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) return false;
  ::alarm(limit_s);
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  ::alarm(0);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    const std::filesystem::path argument(argv[i]);
    if (argv[i][0] == '-') continue;
    std::vector<std::filesystem::path> files{argument};
    if (std::filesystem::is_directory(argument))
      files.assign(std::filesystem::directory_iterator(argument), std::filesystem::directory_iterator{});
    for (const auto& file : files) {
      if (!replay(file)) {
        std::fprintf(stderr, "cannot read %s\n", name_of_current.c_str());
        return 1;
      }
      ++count;
    }
  }
  std::printf("%zu inputs\n", count);
  return count ? 0 : 1;
}

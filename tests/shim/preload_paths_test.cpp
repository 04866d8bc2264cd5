// The stat, open and path calls under the preload library.
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/fd.h"

namespace softib {
namespace {

const std::string device_folder = "/sys/devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0";

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

void expect_device(mode_t mode, unsigned device_major, unsigned device_minor) {
  EXPECT_TRUE(S_ISCHR(mode));
  EXPECT_EQ(device_major, 231U);
  EXPECT_EQ(device_minor, 193U);
}

TEST(PreloadPaths, AttributesReadThroughEveryOpen) {
  const char* path = "/sys/class/infiniband/mlx5_0/node_guid";
  char text[64] = {};
  for (int how = 0; how < 3; ++how) {
    Fd fd(how == 0 ? ::open(path, O_RDONLY) : how == 1 ? ::openat(AT_FDCWD, path, O_RDONLY) : ::open64(path, O_RDONLY));
    ASSERT_TRUE(fd) << how;
    EXPECT_EQ(::read(fd.get(), text, sizeof text), 20);
  }
  EXPECT_STREQ(text, "5254:00ff:fe00:0001\n");
  EXPECT_EQ(first_line(path), "5254:00ff:fe00:0001");
  FILE* stream = std::fopen(path, "r");
  ASSERT_TRUE(stream);
  std::fclose(stream);
}

TEST(PreloadPaths, FoldersOpenRelatively) {
  DIR* classes = ::opendir("/sys/class/infiniband_verbs");
  ASSERT_TRUE(classes);
  Fd uverbs(::openat(::dirfd(classes), "uverbs1", O_RDONLY | O_DIRECTORY));
  ASSERT_TRUE(uverbs);
  Fd attribute(::openat(uverbs.get(), "ibdev", O_RDONLY));
  char text[16] = {};
  EXPECT_GT(::read(attribute.get(), text, sizeof text - 1), 0);
  EXPECT_STREQ(text, "mlx5_1\n");
  ::closedir(classes);
}

TEST(PreloadPaths, DeviceNodesShowAsCharacterDevices) {
  const char* path = "/dev/infiniband/uverbs1";
  struct stat status {};
  ASSERT_EQ(::stat(path, &status), 0);
  expect_device(status.st_mode, major(status.st_rdev), minor(status.st_rdev));
  ASSERT_EQ(::lstat(path, &status), 0);
  expect_device(status.st_mode, major(status.st_rdev), minor(status.st_rdev));
  ASSERT_EQ(::fstatat(AT_FDCWD, path, &status, 0), 0);
  expect_device(status.st_mode, major(status.st_rdev), minor(status.st_rdev));
  struct statx extended {};
  ASSERT_EQ(::statx(AT_FDCWD, path, 0, STATX_BASIC_STATS, &extended), 0);
  expect_device(extended.stx_mode, extended.stx_rdev_major, extended.stx_rdev_minor);
  EXPECT_EQ(::access(path, R_OK | W_OK), 0);
  EXPECT_EQ(::stat("/dev/infiniband/uverbs2", &status), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(PreloadPaths, DeviceNodesRelativeToTheirFolder) {
  Fd folder(::open("/dev/infiniband", O_RDONLY | O_DIRECTORY));
  ASSERT_TRUE(folder);
  struct stat status {};
  ASSERT_EQ(::fstatat(folder.get(), "uverbs1", &status, 0), 0);
  expect_device(status.st_mode, major(status.st_rdev), minor(status.st_rdev));
}

extern "C" int __xstat(int, const char*, struct stat*);

TEST(PreloadPaths, TheOldStatCallsWork) {
  struct stat status {};
  ASSERT_EQ(__xstat(1, "/dev/infiniband/uverbs1", &status), 0);
  expect_device(status.st_mode, major(status.st_rdev), minor(status.st_rdev));
}

TEST(PreloadPaths, AnswersAreThePathsThatTheProgramKnows) {
  char resolved[PATH_MAX];
  ASSERT_TRUE(::realpath("/sys/class/infiniband/mlx5_0", resolved));
  EXPECT_EQ(resolved, device_folder);
  char* allocated = ::realpath("/sys/class/infiniband/mlx5_0/device", nullptr);
  ASSERT_TRUE(allocated);
  EXPECT_STREQ(allocated, "/sys/devices/pci0000:00/0000:01:00.0");
  ::free(allocated);
  EXPECT_STREQ(::realpath("/dev/infiniband/uverbs0", resolved), "/dev/infiniband/uverbs0");
  // what realpath gave can be used again
  EXPECT_EQ(first_line("/sys/devices/pci0000:00/0000:01:00.0/vendor"), "0x15b3");
}

TEST(PreloadPaths, LinksReadAsTheyAre) {
  char target[PATH_MAX];
  ssize_t length = ::readlink("/sys/class/infiniband/mlx5_0", target, sizeof target);
  ASSERT_GT(length, 0);
  EXPECT_EQ(std::string(target, static_cast<size_t>(length)),
            "../../devices/pci0000:00/0000:01:00.0/infiniband/mlx5_0");
  EXPECT_EQ(::readlink("/sys/class/infiniband/mlx5_0", target, 5), 5);
  Fd folder(::open("/sys/class/infiniband/mlx5_0/", O_RDONLY | O_DIRECTORY));
  std::string link = "/proc/self/fd/" + std::to_string(folder.get());
  length = ::readlink(link.c_str(), target, sizeof target);
  EXPECT_EQ(std::string(target, static_cast<size_t>(length)), device_folder);
}

TEST(PreloadPaths, TheWorkingFolderMayBeInTheTree) {
  char before[PATH_MAX], now[PATH_MAX];
  ASSERT_TRUE(::getcwd(before, sizeof before));
  ASSERT_EQ(::chdir("/sys/class/infiniband/mlx5_0"), 0);
  EXPECT_STREQ(::getcwd(now, sizeof now), device_folder.c_str());
  EXPECT_EQ(::access("ports/1/lid", R_OK), 0);
  // a real folder of the machine, and a name that only the fabric has
  ASSERT_EQ(::chdir("/sys/class"), 0);
  EXPECT_EQ(::access("infiniband/mlx5_0/ports/1/lid", R_OK), 0);
  EXPECT_EQ(::chdir(before), 0);
}

TEST(PreloadPaths, GlobFindsTheTree) {
  glob_t found{};
  ASSERT_EQ(::glob("/sys/class/infiniband/*/ports/1", 0, nullptr, &found), 0);
  ASSERT_EQ(found.gl_pathc, 2U);
  EXPECT_STREQ(found.gl_pathv[0], "/sys/class/infiniband/mlx5_0/ports/1");
  EXPECT_STREQ(found.gl_pathv[1], "/sys/class/infiniband/mlx5_1/ports/1");
  ::globfree(&found);
}

TEST(PreloadPaths, ScandirListsTheTree) {
  dirent** list = nullptr;
  int count = ::scandir(
      "/dev/infiniband", &list, [](const dirent* entry) { return int{entry->d_name[0] != '.'}; }, ::alphasort);
  ASSERT_EQ(count, 2);
  EXPECT_STREQ(list[0]->d_name, "uverbs0");
  for (int i = 0; i < count; ++i) std::free(list[i]);
  std::free(list);
}

TEST(PreloadPaths, SysfsFilesCannotBeWrittenOrMade) {
  EXPECT_EQ(::open("/sys/class/infiniband/mlx5_0/node_guid", O_WRONLY), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_EQ(::open("/sys/class/infiniband/mlx5_0/new", O_WRONLY | O_CREAT, 0600), -1);
  EXPECT_EQ(errno, EACCES);
}

TEST(PreloadPaths, TheMachinesOwnFilesAreUntouched) {
  EXPECT_EQ(::access("/sys/class", R_OK), 0);
  struct stat null {};
  ASSERT_EQ(::stat("/dev/null", &null), 0);
  EXPECT_EQ(null.st_rdev, makedev(1, 3));
  EXPECT_EQ(::open("/dev/no/such/file", O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
}

TEST(PreloadPaths, WithoutADaemonOpeningSaysSo) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(::open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC), -1);
  EXPECT_EQ(errno, ENODEV);
  EXPECT_EQ(::open("/dev/infiniband/uverbs0", O_RDWR | O_CLOEXEC), -1);
  std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("softib up"), std::string::npos) << told;
  EXPECT_EQ(told.find("softib up"), told.rfind("softib up")) << "told twice: " << told;
}

}  // namespace
}  // namespace softib

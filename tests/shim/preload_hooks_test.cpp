// Libraries that cache registrations write a jump over the mapping calls that dlsym() finds (UCX's bistro, Open MPI's
// patcher, libfabric's memhooks). That must be the C library's, so that a program's call passes the wrapper first.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <string>

namespace softib {
namespace {

std::string library_of(const void* function) {
  Dl_info found{};
  return ::dladdr(function, &found) != 0 && found.dli_fname ? found.dli_fname : "";
}

template <typename Function>
void expect_hooked_behind(const char* name, Function* called) {
  EXPECT_NE(library_of(reinterpret_cast<const void*>(called)).find("libsoftib-preload"), std::string::npos) << name;
  for (void* scope : {RTLD_DEFAULT, RTLD_NEXT})
    EXPECT_NE(library_of(::dlsym(scope, name)).find("libc.so"), std::string::npos) << name;
}

TEST(PreloadHooks, TheCLibrarysMappingCallsAreFoundBehindTheWrappers) {
  expect_hooked_behind("mmap", ::mmap);
  expect_hooked_behind("munmap", ::munmap);
  expect_hooked_behind("mremap", ::mremap);
  expect_hooked_behind("madvise", ::madvise);
}

}  // namespace
}  // namespace softib

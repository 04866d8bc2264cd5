// A second view of a part of the memory file, to fill it before it takes its place.
#pragma once

#include "hca/memory.h"

namespace softib::hca {

class FileWindow {
 public:
  FileWindow(int fd, AddressRange offsets);
  ~FileWindow();
  FileWindow(const FileWindow&) = delete;
  FileWindow& operator=(const FileWindow&) = delete;

  [[nodiscard]] explicit operator bool() const { return view_ != 0; }

  // Copies what lies at the addresses `range` to the same offsets of the file.
  void fill(AddressRange range);

  // Asks for huge pages behind a part of the window. 0 or an errno.
  int make_huge(AddressRange range);

 private:
  AddressRange offsets_;
  AddressRange reserved_;
  u64 view_ = 0;  // where the first byte of offsets_ shows
};

}  // namespace softib::hca

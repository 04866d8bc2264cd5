// The sparse memory file of a process: the page at user address A lies at offset A.
#pragma once

#include "base/fd.h"
#include "base/types.h"
#include "hca/memory.h"
#include "hca/memory/kernel_map.h"

namespace softib::hca {

class MemoryFile {
 public:
  // ENOMEM also where RLIMIT_FSIZE forbids a file of that size; no SIGXFSZ is raised.
  static Result<MemoryFile> create();

  [[nodiscard]] int fd() const { return fd_.get(); }

  // False once the program has closed our descriptor (a daemon that closes all it finds): its number may by now
  // stand for a file of the program, which must not be written to.
  [[nodiscard]] bool intact() const;

  // Whether the mapping shows this file, at whatever place.
  [[nodiscard]] bool shows(const Mapping& mapping) const {
    return mapping.shared && mapping.inode == inode_ && mapping.device_major == major_ &&
           mapping.device_minor == minor_;
  }
  // Whether it shows each page at that page's own place.
  [[nodiscard]] bool shows_at_home(const Mapping& mapping) const {
    return shows(mapping) && mapping.offset == mapping.range.begin;
  }

  // Gives the pages back; they read as zero from now on, for this process and its peers.
  void punch(AddressRange offsets) const;

  [[nodiscard]] u64 allocated_bytes() const;

  // By a plain system call: a forked child calls it while the table of descriptors is locked.
  void close();

 private:
  Fd fd_;
  u64 inode_ = 0;
  u32 major_ = 0;
  u32 minor_ = 0;
};

}  // namespace softib::hca

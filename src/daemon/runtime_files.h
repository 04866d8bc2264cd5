// softibd's files in the fabric's folder (fabric/runtime.h).
#pragma once

#include <string>

#include "base/fd.h"
#include "fabric/fabric.h"

namespace softib::daemon {

// Holds the folder's lock. Sweeps out what a dead daemon left there, and its own files when it goes.
class RuntimeFiles {
 public:
  // The error is one line for people; a living daemon in the folder is one.
  [[nodiscard]] static fabric::Parsed<RuntimeFiles> claim(const std::string& dir);
  ~RuntimeFiles();
  RuntimeFiles(RuntimeFiles&&) = default;
  RuntimeFiles& operator=(RuntimeFiles&&) = delete;

  // daemon.pid.
  [[nodiscard]] fabric::Parsed<void> write() const;
  // daemon.sock, listening, for this user only.
  [[nodiscard]] fabric::Parsed<Fd> listen() const;

  [[nodiscard]] const std::string& dir() const { return dir_; }

 private:
  RuntimeFiles(std::string dir, Fd lock) : dir_(std::move(dir)), lock_(std::move(lock)) {}
  void sweep() const;

  std::string dir_;
  Fd lock_;
};

}  // namespace softib::daemon

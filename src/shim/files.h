// The descriptors that the program holds of a context, and how they come to be.
#pragma once

#include "base/fd.h"
#include "base/types.h"
#include "hca/session.h"
#include "kernel/fd_registry.h"
#include "kernel/uverbs.h"
#include "shim/fd_table.h"
#include "shim/paths.h"

namespace softib::shim {

// An open /dev/infiniband/uverbsN.
class CommandFile final : public File {
 public:
  CommandFile(hca::Session& session, u32 context, u32 device, kernel::FileOrigin origin);
  ~CommandFile() override;
  void closed() override;

  [[nodiscard]] kernel::UverbsFile& uverbs() { return storage_.uverbs; }
  [[nodiscard]] u32 number() const { return number_; }  // the N of uverbsN

 private:
  // Ends at closed(), before this object does: see File.
  union Storage {
    Storage() {}
    ~Storage() {}
    kernel::UverbsFile uverbs;
  } storage_;
  bool alive_ = true;
  u32 number_;
};

class AsyncFile final : public File {
 public:
  explicit AsyncFile(u32 context) : context_(context) {}
  [[nodiscard]] u32 context() const { return context_; }

 private:
  u32 context_;
};

class ChannelFile final : public File {
 public:
  ChannelFile(u32 context, kernel::FdRegistry::Channel channel) : context_(context), channel_(channel) {}
  [[nodiscard]] u32 context() const { return context_; }
  [[nodiscard]] kernel::FdRegistry::Channel channel() const { return channel_; }

 private:
  u32 context_;
  kernel::FdRegistry::Channel channel_;
};

// This process's session; on its first use the shim learns which descriptors are the session's.
Result<hca::Session*> session();

// open("/dev/infiniband/uverbsN"): the new descriptor.
Result<int> open_device(u32 number, int flags);

// True when `fd`, of which only that it may be ours is known, is a command file of this fabric. The table then says so.
bool recognise_command_file(int fd);

// Gives a descriptor that the library made to the program, as the lowest free number.
Result<int> hand_over(Fd made, FdClass kind, std::unique_ptr<File> file, bool close_on_exec);

// The same for one that is like any other to the library from now on.
Fd hand_over_plain(Fd made, bool close_on_exec);

// "The daemon does not answer any more", once.
void tell_lost_daemon();

// The segment's index of this host's uverbsN.
Result<u32> find_device(const hca::Session& in, u32 number);

// The device number that fstat() shows.
u64 device_number(DeviceNode node);

}  // namespace softib::shim

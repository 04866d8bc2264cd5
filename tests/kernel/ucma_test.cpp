// Commands of an rdma_cm file at the system call boundary: what is refused before softibd hears of it.
#include "kernel/ucma.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "abi/rdma_cm.h"
#include "fake_daemon.h"
#include "kernel/ucma_table.h"

namespace softib::kernel {
namespace {

using Call = ipc::RdmaCmCommand;

class Descriptor final : public UcmaDescriptor {
 public:
  Result<void> hold() override { return {}; }
  Result<void> wait() override {
    ++waits;
    return waits < 3 ? Result<void>{} : fail(EINTR);
  }
  Result<u32> file_of(int fd) override { return fd == 9 ? Result<u32>(77U) : fail(ENOENT); }
  int waits = 0;
};

class Softibd final : public Control {
 public:
  ipc::Segment& segment() override { return daemon_.segment(); }
  hca::Engine& engine() override { return daemon_.engine(); }
  hca::ProcessMemory& memory() override { return daemon_.memory(); }
  Result<void> exchange(ipc::Op op, u32, const void* request, u32, void* reply, u32, Fd*) override {
    EXPECT_EQ(op, ipc::Op::rdma_cm_command);
    std::memcpy(&last, request, sizeof last);
    ++calls;
    if (error) return fail(error);
    std::memcpy(reply, &answer, sizeof answer);
    return {};
  }
  Call::Request last{};
  Call::Reply answer{};
  int error = 0;
  int calls = 0;

 private:
  testing::FakeDaemon daemon_;
};

class UcmaTest : public ::testing::Test {
 protected:
  template <typename Request>
  ssize_t write(u32 command, const Request& request, u16 out, int shorter = 0) {
    std::vector<u8> bytes(sizeof(rdma_ucm_cmd_hdr) + sizeof request);
    const rdma_ucm_cmd_hdr header{command, static_cast<u16>(sizeof request - static_cast<size_t>(shorter)), out};
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, &request, sizeof request);
    return file.write(descriptor, reinterpret_cast<u64>(bytes.data()), bytes.size());
  }

  Softibd softibd;
  Descriptor descriptor;
  UcmaFile file{softibd, own_memory(), 5};
};

TEST_F(UcmaTest, AnswersGoWhereTheRequestSays) {
  softibd.answer.size = 4;
  const u32 handle = 1234;
  std::memcpy(softibd.answer.out, &handle, sizeof handle);
  rdma_ucm_create_id_resp response{};
  rdma_ucm_create_id request{};
  request.response = reinterpret_cast<u64>(&response);
  request.ps = RDMA_PS_TCP;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, request, sizeof response), 32);
  EXPECT_EQ(response.id, 1234u);
  EXPECT_EQ(softibd.last.file, 5u);
  EXPECT_EQ(softibd.last.room, sizeof response);
}

TEST_F(UcmaTest, WhatTheKernelRefusesNeverLeaves) {
  rdma_ucm_create_id request{};
  EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, request, 3), -ENOSPC);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, request, 4), -EFAULT);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_JOIN_MCAST + 1, request, 4), -EINVAL);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_OPTION, request, 4), -ENOSYS);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_CREATE_ID, request, 4, -8), -EINVAL);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_CONNECT, rdma_ucm_connect{}, 0, 16), -EINVAL);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_QUERY, rdma_ucm_query{0, 0, RDMA_USER_CM_QUERY_ADDR}, 100), -ENOSPC);
  EXPECT_EQ(write(RDMA_USER_CM_CMD_MIGRATE_ID, rdma_ucm_migrate_id{0, 0, 8}, 4), -ENOENT);
  rdma_ucm_set_option option{};
  option.optlen = 4;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option, 0), -EFAULT);
  option.optlen = 1 << 20;
  EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option, 0), -EFAULT) << "nothing is there";
  const std::vector<u8> value(1 << 20);
  option.optval = reinterpret_cast<u64>(value.data());
  EXPECT_EQ(write(RDMA_USER_CM_CMD_SET_OPTION, option, 0), -EINVAL);
  EXPECT_EQ(file.write(descriptor, 0, 7), -EINVAL);
  EXPECT_EQ(file.write(descriptor, 0, 8), -EFAULT);
  EXPECT_EQ(softibd.calls, 0);
}

TEST_F(UcmaTest, OlderProgramsHaveShorterRequests) {
  EXPECT_EQ(write(RDMA_USER_CM_CMD_CONNECT, rdma_ucm_connect{}, 0, 8), 8 + 288);
  EXPECT_EQ(softibd.last.size, 280u);
}

TEST_F(UcmaTest, WaitsForAnEventUntilASignal) {
  softibd.error = EAGAIN;
  rdma_ucm_event_resp response{};
  const rdma_ucm_get_event request{reinterpret_cast<u64>(&response)};
  EXPECT_EQ(write(RDMA_USER_CM_CMD_GET_EVENT, request, sizeof response), -EINTR);
  EXPECT_EQ(softibd.calls, 3);
}

TEST_F(UcmaTest, OptionsAndOtherFilesGoAlong) {
  const u32 value = 0x01020304;
  rdma_ucm_set_option option{};
  option.optval = reinterpret_cast<u64>(&value);
  option.optlen = sizeof value;
  EXPECT_GT(write(RDMA_USER_CM_CMD_SET_OPTION, option, 0), 0);
  EXPECT_EQ(std::memcmp(softibd.last.extra, &value, sizeof value), 0);
  rdma_ucm_migrate_resp response{};
  rdma_ucm_migrate_id request{};
  request.response = reinterpret_cast<u64>(&response);
  request.fd = 9;
  EXPECT_GT(write(RDMA_USER_CM_CMD_MIGRATE_ID, request, sizeof response), 0);
  EXPECT_EQ(softibd.last.other_file, 77u);
}

TEST(UcmaTable, HasEveryCommandButOne) {
  for (u32 command = 0; command <= RDMA_USER_CM_CMD_JOIN_MCAST; ++command)
    EXPECT_EQ(find_ucma_row(command).has_value(), command != RDMA_USER_CM_CMD_GET_OPTION) << command;
}

}  // namespace
}  // namespace softib::kernel

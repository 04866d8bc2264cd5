#include "hca/rules/qp_attributes.h"

#include <gtest/gtest.h>

#include <array>

#include "hca/limits.h"

namespace softib::hca {
namespace {

class QpAttributesTest : public ::testing::Test {
 protected:
  QpAttributesTest() {
    for (u8 i = 0; i < 2; ++i) {
      ports_[i].link_layer = ipc::LinkLayer::infiniband;
      ports_[i].number = static_cast<u8>(i + 1);
      ports_[i].active_mtu = 4;
      ports_[i].pkey_count = 2;
      ports_[i].gid_count = 1;
    }
    attributes_.av.port_num = 1;
    attributes_.av.dlid = 5;
    attributes_.path_mtu = 4;
    attributes_.port_num = 1;
  }

  bool accepted(QpAttr mask, u8 port_num = 1) {
    auto result = check_values(attributes_, mask, {port_num, ports_});
    if (!result) {
      EXPECT_EQ(to_int(result.error()), EINVAL);
    }
    return result.has_value();
  }

  // `field` may hold `most` and no more.
  template <typename T>
  void expect_bound(T& field, T most, QpAttr attribute) {
    field = most;
    EXPECT_TRUE(accepted(attribute)) << u32(attribute);
    field = static_cast<T>(most + 1);
    EXPECT_FALSE(accepted(attribute)) << u32(attribute);
    // What the mask does not name does not count.
    EXPECT_TRUE(accepted(QpAttr::state)) << u32(attribute);
  }

  std::array<ipc::Port, 2> ports_{};
  ipc::QpAttributes attributes_{};
};

TEST_F(QpAttributesTest, NumbersHaveTheWidthOfTheirFields) {
  expect_bound<u8>(attributes_.timeout, 31, QpAttr::timeout);
  expect_bound<u8>(attributes_.min_rnr_timer, 31, QpAttr::min_rnr_timer);
  expect_bound<u8>(attributes_.retry_count, 7, QpAttr::retry_count);
  expect_bound<u8>(attributes_.rnr_retry, 7, QpAttr::rnr_retry);
  expect_bound<u8>(attributes_.max_rd_atomic, limits::max_rd_atomic, QpAttr::max_rd_atomic);
  expect_bound<u8>(attributes_.max_dest_rd_atomic, limits::max_rd_atomic, QpAttr::max_dest_rd_atomic);
  expect_bound<u32>(attributes_.dest_qp_num, 0xffffff, QpAttr::dest_qpn);
  expect_bound<u32>(attributes_.path_mig_state, 2, QpAttr::path_mig_state);
}

TEST_F(QpAttributesTest, PortAndTablesOfThePort) {
  expect_bound<u8>(attributes_.port_num, 2, QpAttr::port);
  attributes_.port_num = 0;
  EXPECT_FALSE(accepted(QpAttr::port));
  attributes_.port_num = 1;
  expect_bound<u16>(attributes_.pkey_index, 1, QpAttr::pkey_index);
}

TEST_F(QpAttributesTest, MtuThatThePortCannotDo) {
  for (u32 mtu = 1; mtu <= 4; ++mtu) {
    attributes_.path_mtu = mtu;
    EXPECT_TRUE(accepted(QpAttr::path_mtu));
  }
  for (u32 mtu : {0U, 5U, 6U, 4096U}) {
    attributes_.path_mtu = mtu;
    EXPECT_FALSE(accepted(QpAttr::path_mtu)) << mtu;
  }
}

TEST_F(QpAttributesTest, PathOfAConnection) {
  QpAttr to_rtr = QpAttr::state | QpAttr::av;
  EXPECT_TRUE(accepted(to_rtr));
  attributes_.av.port_num = 2;
  EXPECT_FALSE(accepted(to_rtr)) << "another port than the QP's";
  EXPECT_TRUE(accepted(QpAttr::av)) << "in SQD the path may move to another port";
  EXPECT_FALSE(accepted(QpAttr::av | QpAttr::port)) << "two ports named";
  attributes_.av.port_num = 1;
  attributes_.av.dlid = 0;
  EXPECT_FALSE(accepted(to_rtr)) << "no LID";
  attributes_.av.dlid = 0xC001;
  EXPECT_FALSE(accepted(to_rtr)) << "a multicast group";
  EXPECT_FALSE(accepted(to_rtr, 0)) << "no port yet";
}

TEST_F(QpAttributesTest, AlternatePath) {
  attributes_.alt_port_num = 2;
  attributes_.alt_av = attributes_.av;
  attributes_.alt_av.port_num = 2;
  EXPECT_TRUE(accepted(QpAttr::alt_path));
  attributes_.alt_timeout = 32;
  EXPECT_FALSE(accepted(QpAttr::alt_path));
  attributes_.alt_timeout = 31;
  attributes_.alt_pkey_index = 2;
  EXPECT_FALSE(accepted(QpAttr::alt_path));
  attributes_.alt_pkey_index = 1;
  attributes_.alt_av.port_num = 1;
  EXPECT_FALSE(accepted(QpAttr::alt_path));
  attributes_.alt_port_num = attributes_.alt_av.port_num = 3;
  EXPECT_FALSE(accepted(QpAttr::alt_path));
}

TEST_F(QpAttributesTest, MtuNumbers) {
  EXPECT_EQ(mtu_enum(0), 0U);
  for (u32 number = 1; number <= 5; ++number) EXPECT_EQ(mtu_enum(mtu_bytes(number)), number);
  EXPECT_EQ(mtu_bytes(1), 256U);
  EXPECT_EQ(mtu_bytes(5), 4096U);
}

}  // namespace
}  // namespace softib::hca

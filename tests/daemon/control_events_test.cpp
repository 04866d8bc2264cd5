// Async events, completion channels, and what is told to tools.
#include <fcntl.h>
#include <poll.h>

#include <nlohmann/json.hpp>

#include "control_fixture.h"
#include "hca/engine/verbs.h"

namespace softib::daemon {
namespace {

using ipc::ObjectKind;

class ControlEvents : public ControlTest {
 protected:
  template <typename Record>
  static std::optional<Record> next(const Fd& pipe) {
    pollfd wait{pipe.get(), POLLIN, 0};
    if (::poll(&wait, 1, 0) != 1 || !(wait.revents & POLLIN)) return std::nullopt;
    Record record{};
    if (::read(pipe.get(), &record, sizeof record) != static_cast<ssize_t>(sizeof record)) return std::nullopt;
    return record;
  }

  Result<ipc::Empty> raise(const TestProcess& by, ObjectKind kind, u32 object, u32 generation, u32 event) {
    return call<ipc::RaiseEvent>(by.peer, 0, {kind, object, generation, event});
  }
};

constexpr u32 access_error = static_cast<u32>(hca::AsyncEvent::qp_access_err);

TEST_F(ControlEvents, APeerRaisesAnEventForTheOwner) {
  TestProcess owner = start("host0");
  TestProcess peer = start("host1");
  Connection c = make_qp(owner);
  u32 generation = qp(c.qpn).generation;
  ASSERT_TRUE(raise(peer, ObjectKind::qp, c.qpn, generation, access_error));
  auto record = next<ipc::AsyncRecord>(owner.async);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->element, 0xabcU);
  EXPECT_EQ(record->event_type, access_error);
  EXPECT_EQ(record->object, c.qpn);
  EXPECT_EQ(record->generation, generation);
  EXPECT_FALSE(next<ipc::AsyncRecord>(peer.async));
  EXPECT_FALSE(raise(peer, ObjectKind::qp, c.qpn, generation + 1, access_error)) << "another one's event";
  EXPECT_FALSE(raise(peer, ObjectKind::qp, c.qpn, generation, 200));
  EXPECT_FALSE(raise(peer, ObjectKind::port, 1, 0, access_error)) << "ports are softibd's";
}

TEST_F(ControlEvents, EventsOfADestroyedObjectAreTakenBack) {
  TestProcess owner = start("host0");
  Connection c = make_qp(owner);
  Connection kept = make_qp(owner);
  ASSERT_TRUE(raise(owner, ObjectKind::qp, c.qpn, qp(c.qpn).generation, access_error));
  ASSERT_TRUE(raise(owner, ObjectKind::qp, kept.qpn, qp(kept.qpn).generation, access_error));
  qp(c.qpn).async_events_reported = 3;
  EXPECT_EQ(call<ipc::DestroyQp>(owner, {c.qpn})->async_events_reported, 3U);
  EXPECT_EQ(next<ipc::AsyncRecord>(owner.async)->object, kept.qpn);
  EXPECT_FALSE(next<ipc::AsyncRecord>(owner.async));
}

TEST_F(ControlEvents, SendQueueDrainedIsToldToThoseWhoAsked) {
  constexpr u32 drained = static_cast<u32>(hca::AsyncEvent::sq_drained);
  TestProcess owner = start("host0");
  Connection c = make_qp(owner);
  for (bool asks : {false, true}) {
    bring_to(owner, c.qpn, ipc::QpType::rc, ipc::QpState::rts);
    ipc::QpAttributes a{};
    a.mask = static_cast<u32>(hca::QpAttr::state | hca::QpAttr::en_sqd_async_notify);
    a.qp_state = static_cast<u32>(ipc::QpState::sqd);
    a.en_sqd_async_notify = asks;
    ASSERT_EQ(modify(owner, c.qpn, a), 0);
    ASSERT_TRUE(raise(owner, ObjectKind::qp, c.qpn, qp(c.qpn).generation, drained));
    EXPECT_EQ(next<ipc::AsyncRecord>(owner.async).has_value(), asks);
    a = {};
    a.mask = static_cast<u32>(hca::QpAttr::state);
    ASSERT_EQ(modify(owner, c.qpn, a), 0);
  }
}

TEST_F(ControlEvents, ObjectEventsGoToTheFirstReaderPortEventsToAll) {
  TestProcess owner = start("host0");
  Connection c = make_qp(owner);
  Fd second;
  ASSERT_TRUE(call<ipc::AllocAsyncFd>(owner.peer, owner.context, {}, {}, &second));
  control_->raise_port_event(1, static_cast<u32>(hca::AsyncEvent::port_err));
  control_->raise_port_event(2, static_cast<u32>(hca::AsyncEvent::port_err));
  for (Fd* pipe : {&owner.async, &second}) {
    auto record = next<ipc::AsyncRecord>(*pipe);
    ASSERT_TRUE(record);
    EXPECT_EQ(record->element, 1U);
    EXPECT_EQ(record->kind, ObjectKind::port);
    EXPECT_FALSE(next<ipc::AsyncRecord>(*pipe)) << "host1's port is none of host0's";
  }
  u32 generation = qp(c.qpn).generation;
  ASSERT_TRUE(raise(owner, ObjectKind::qp, c.qpn, generation, access_error));
  EXPECT_TRUE(next<ipc::AsyncRecord>(owner.async));
  EXPECT_FALSE(next<ipc::AsyncRecord>(second));
  owner.async.reset();
  ASSERT_TRUE(raise(owner, ObjectKind::qp, c.qpn, generation, access_error));
  EXPECT_TRUE(next<ipc::AsyncRecord>(second)) << "the first reader is gone";
  second.reset();
  EXPECT_TRUE(raise(owner, ObjectKind::qp, c.qpn, generation, access_error)) << "nobody reads: no harm";
}

TEST_F(ControlEvents, AFullAsyncPipeLosesEventsAndNothingElse) {
  TestProcess owner = start("host0");
  Connection c = make_qp(owner);
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(raise(owner, ObjectKind::qp, c.qpn, qp(c.qpn).generation, access_error));
  int read = 0;
  while (next<ipc::AsyncRecord>(owner.async)) ++read;
  EXPECT_GT(read, 1000);
  EXPECT_LT(read, 10'000);
}

TEST_F(ControlEvents, ChannelsAreReachedByTheirWriteEnd) {
  TestProcess owner = start("host0");
  TestProcess peer = start("host1");
  Fd reader;
  auto channel = call<ipc::CreateChannel>(owner.peer, owner.context, {}, {}, &reader);
  ASSERT_TRUE(channel);
  u32 cq = make_cq(owner, 16, channel->channel);
  u32 other = make_cq(owner, 16, channel->channel);
  EXPECT_EQ(segment().cqs[cq].channel, channel->channel);
  EXPECT_EQ(segment().cqs[cq].channel_generation, channel->generation);
  Fd writer;
  ASSERT_TRUE(call<ipc::ChannelFd>(peer.peer, 0, {channel->channel, channel->generation}, {}, &writer));
  EXPECT_NE(::fcntl(writer.get(), F_GETFL) & O_NONBLOCK, 0);
  for (u32 of : {cq, other}) {
    ipc::CompletionRecord record{1, of, segment().cqs[of].generation};
    ASSERT_EQ(::write(writer.get(), &record, sizeof record), static_cast<ssize_t>(sizeof record));
  }
  segment().cqs[cq].events_reported = 5;
  auto destroyed = call<ipc::DestroyCq>(owner, {cq});
  ASSERT_TRUE(destroyed);
  EXPECT_EQ(destroyed->comp_events_reported, 5U);
  EXPECT_EQ(next<ipc::CompletionRecord>(reader)->cq, other) << "the events of the CQ that went are taken back";
  EXPECT_FALSE(next<ipc::CompletionRecord>(reader));
  auto stale = call<ipc::ChannelFd>(peer.peer, 0, {channel->channel, channel->generation + 1});
  ASSERT_FALSE(stale);
  EXPECT_EQ(to_int(stale.error()), ENOENT);
}

// A data path that fires an event into a pipe without a reader would die of SIGPIPE.
TEST_F(ControlEvents, AWriterNeverMeetsAPipeWithoutReader) {
  TestProcess owner = start("host0");
  TestProcess peer = start("host1");
  Fd reader;
  auto channel = call<ipc::CreateChannel>(owner.peer, owner.context, {}, {}, &reader);
  make_cq(owner, 16, channel->channel);
  Fd writer;
  ASSERT_TRUE(call<ipc::ChannelFd>(peer.peer, 0, {channel->channel, channel->generation}, {}, &writer));
  ipc::CompletionRecord record{};
  auto write_error = [&] { return ::write(writer.get(), &record, sizeof record) < 0 ? errno : 0; };
  auto& lane = segment().processes[peer.attached.slot].lanes[0];
  lane.sequence += 1;
  reader.reset();
  EXPECT_EQ(write_error(), 0) << "the program has closed its end";
  die(owner);
  settle();
  EXPECT_EQ(write_error(), 0) << "the program has died, the peer is still at work";
  lane.sequence += 1;
  settle();
  EXPECT_EQ(write_error(), EPIPE);
}

TEST_F(ControlEvents, AChannelGoesWithItsReaderOrItsLastCq) {
  TestProcess owner = start("host0");
  auto unused = call<ipc::CreateChannel>(owner);
  control_->channel_unread(unused->channel);
  EXPECT_FALSE(call<ipc::ChannelFd>(owner.peer, 0, {unused->channel, unused->generation}));
  auto used = call<ipc::CreateChannel>(owner);
  u32 cq = make_cq(owner, 16, used->channel);
  control_->channel_unread(used->channel);
  EXPECT_TRUE(call<ipc::ChannelFd>(owner.peer, 0, {used->channel, used->generation}));
  EXPECT_EQ(error_of<ipc::DestroyCq>(owner, {cq}), 0);
  EXPECT_FALSE(call<ipc::ChannelFd>(owner.peer, 0, {used->channel, used->generation}));
  EXPECT_TRUE(watcher_.channels.empty());
}

TEST_F(ControlEvents, Handles) {
  TestProcess owner = start("host0");
  Connection c = make_qp(owner);
  auto list = [&](ObjectKind kind) {
    auto reply = call<ipc::ListHandles>(owner, {kind});
    EXPECT_TRUE(reply);
    return std::vector<u32>(reply->handles, reply->handles + reply->count);
  };
  EXPECT_EQ(list(ObjectKind::qp), std::vector<u32>{c.qpn});
  EXPECT_EQ(list(ObjectKind::cq), std::vector<u32>{c.cq});
  EXPECT_EQ(list(ObjectKind::pd), std::vector<u32>{c.pd});
  EXPECT_TRUE(list(ObjectKind::mr).empty());
  EXPECT_EQ(error_of<ipc::ListHandles>(owner, {static_cast<ObjectKind>(99)}), EINVAL);
  for (int i = 0; i < 5000; ++i) make_pd(owner);
  auto many = call<ipc::ListHandles>(owner, {ObjectKind::pd});
  EXPECT_EQ(many->count, 4096U);
  EXPECT_EQ(many->total, 5001U);
}

TEST_F(ControlEvents, StatusTellsAll) {
  TestProcess owner = start("host0");
  make_qp(owner);
  for (int i = 0; i < 300; ++i) {
    attach("host1");
  }
  u32 tool = control_->connect(1);
  ipc::Attach::Request request{};
  request.version = ipc::interface_version;
  request.size_of_qp = sizeof(ipc::Qp);
  request.is_tool = 1;
  ASSERT_TRUE(call<ipc::Attach>(tool, 0, request));
  std::string text;
  u64 total = 1;
  while (text.size() < total) {
    auto piece = call<ipc::Status>(tool, 0, {text.size(), ipc::Topic::all, 0});
    ASSERT_TRUE(piece);
    ASSERT_GT(piece->length, 0U);
    total = piece->total;
    text.append(piece->text, piece->length);
  }
  EXPECT_GT(total, ipc::status_piece) << "told in several pieces";
  auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["fabric"], "test");
  EXPECT_LT(json["uptime_s"], 600);
  EXPECT_EQ(json["hosts"].size(), 2U);
  EXPECT_EQ(json["hosts"][0]["devices"][0]["name"], "mlx5_0");
  EXPECT_EQ(json["hosts"][0]["devices"][0]["ports"][0]["state"], "ACTIVE");
  EXPECT_EQ(json["hosts"][0]["devices"][0]["ports"][0]["lid"], segment().ports[1].lid);
  EXPECT_EQ(json["processes"].size(), 301U);
  EXPECT_EQ(json["processes"][0]["host"], "host0");
  EXPECT_EQ(json["processes"][0]["program"], "test");
  EXPECT_EQ(json["processes"][0]["objects"]["qp"], 1);
  EXPECT_EQ(json["objects"]["cq"], 1);
  EXPECT_GT(json["memory"]["segment_bytes"], 0);
  EXPECT_FALSE(call<ipc::Status>(tool, 0, {total + 1, ipc::Topic::all, 0}));
}

}  // namespace
}  // namespace softib::daemon

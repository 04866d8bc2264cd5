// Working off send queues. One thread at a time drives a QP's send queue: the one whose doorbell found it idle, or the
// helper thread when a wait has ended.
#pragma once

#include "hca/engine/context.h"
#include "hca/engine/verbs.h"

namespace softib::hca {

// What the queue asks for when it stops short.
class WaitList {
 public:
  virtual ~WaitList() = default;
  // The QP waits until qp.requester.deadline (never: until somebody changes its state).
  virtual void add(ipc::Qp& qp) = 0;
};

class SendQueue {
 public:
  SendQueue(Context& context, WaitList& waits) : context_(context), waits_(waits) {}

  // Carries out what the ring holds until it is empty, must wait, or may not go on in the QP's state.
  // The caller is the driver.
  void run(ipc::Qp& qp);

  // Becomes the driver unless another thread is, which then does this call's work too; runs.
  void drive(ipc::Qp& qp);

  // A wait is over (its time has come, or the state changed): forgets it and drives.
  void resume(ipc::Qp& qp);

  // In SQD, with nothing under way: the queue counts as drained, which is reported.
  void finish_draining(ipc::Qp& qp);

  // Takes back what was posted but not begun. The caller has made sure that no driver is at work.
  void discard(ipc::Qp& qp);

 private:
  enum class Begun : u8 { no, yes };  // whether the request at the head has been tried before
  bool step(ipc::Qp& qp, Begun begun);
  void fail_head(ipc::Qp& qp, WcStatus status);
  void run_until_idle(ipc::Qp& qp);

  Context& context_;
  WaitList& waits_;
};

}  // namespace softib::hca

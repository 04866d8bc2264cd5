// Breaking a running fabric on purpose: its description to name things by, and its daemon to do it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/fabric.h"
#include "fabric/faults/words.h"
#include "ipc/client.h"

namespace softib::cli {

class FaultSession {
 public:
  static fabric::Parsed<FaultSession> open(std::string_view fabric_name);

  [[nodiscard]] const fabric::Fabric& fabric() const { return *fabric_; }
  // The error says in words why it can't be.
  [[nodiscard]] fabric::Parsed<ipc::Fault::Reply> apply(const fabric::FaultRequest& fault);

 private:
  FaultSession(std::unique_ptr<fabric::Fabric> fabric, std::unique_ptr<ipc::Client> client)
      : fabric_(std::move(fabric)), client_(std::move(client)) {}
  [[nodiscard]] std::string reason(const fabric::FaultRequest& fault, Errno error) const;

  std::unique_ptr<fabric::Fabric> fabric_;
  std::unique_ptr<ipc::Client> client_;
};

// "link leaf0:1 down", and what else there is to say of it: "; it was so already", "; 2 programs killed".
[[nodiscard]] std::string outcome_text(const fabric::Fabric& fabric, const fabric::FaultRequest& fault,
                                       const ipc::Fault::Reply& reply);

// One fault in words, from the command line to its exit code.
[[nodiscard]] int do_fault(const std::string& fabric_name, const std::vector<std::string>& words);

}  // namespace softib::cli

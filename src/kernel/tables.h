// The two tables of what a command file understands. A row says what a call must look like and who carries it out;
// what has no row is refused with the errno that the kernel gives for a device of the rxe driver.
#pragma once

#include <span>

#include "kernel/attributes.h"
#include "kernel/command.h"
#include "kernel/interpreter.h"

namespace softib::kernel {

struct MethodRow {
  u16 object;
  u16 method;
  const char* name;
  std::span<const AttrSpec> attributes;
  bool driver_data;    // takes UVERBS_ATTR_UHW_IN and _OUT
  bool needs_context;  // EINVAL before GET_CONTEXT
  Result<void> (*handler)(Interpreter&, Attributes&);
};

struct CommandRow {
  u32 command;  // with IB_USER_VERBS_CMD_FLAG_EXTENDED for extended ones
  const char* name;
  u16 request_size;
  u16 response_size;
  bool has_response;  // the request starts with the response's address (write() only; never with extended commands)
  bool driver_data;   // what follows request and response is the provider's
  bool needs_context;
  Result<void> (*handler)(Interpreter&, Command&);

  [[nodiscard]] bool extended() const { return command & IB_USER_VERBS_CMD_FLAG_EXTENDED; }
};

// Sorted as written: by object, then method.
std::span<const MethodRow> method_table();
std::span<const CommandRow> command_table();

const MethodRow* find_method(u16 object, u16 method);
// EINVAL: no command number at all. EOPNOTSUPP: one that has no row.
Result<const CommandRow*> find_command(u32 command);

// Objects that the driver has; the others' methods do not exist (EPROTONOSUPPORT).
bool object_exists(u64 object);

}  // namespace softib::kernel

// write() on the command file: the commands of before the ioctl interface, which old programs and some paths of every
// rdma-core still use.
#include "kernel/interpreter.h"
#include "kernel/tables.h"

namespace softib::kernel {

namespace {

// `in_words` and `out_words` count 4 bytes; the first includes the header.
Result<void> check_plain(const CommandRow& row, const ib_uverbs_cmd_hdr& header, size_t length) {
  if (header.in_words * 4U != length) return fail(EINVAL);
  if (length < row.request_size + sizeof header) return fail(ENOSPC);
  if (header.out_words * 4U < row.response_size) return fail(ENOSPC);
  return {};
}

// Here the words count 8 bytes and leave both headers out.
Result<void> check_extended(const CommandRow& row, const ib_uverbs_cmd_hdr& header, const ib_uverbs_ex_cmd_hdr& more,
                            size_t length) {
  size_t room = length - sizeof header - sizeof more;
  if ((header.in_words + more.provider_in_words) * 8U != room) return fail(EINVAL);
  if (header.in_words * 8U < row.request_size) return fail(ENOSPC);
  if (more.cmd_hdr_reserved) return fail(EINVAL);
  bool wants_answer = header.out_words || more.provider_out_words;
  if (wants_answer != (more.response != 0)) return fail(EINVAL);
  if (wants_answer && header.out_words * 8U < row.response_size) return fail(ENOSPC);
  return {};
}

Result<void> run_plain(Interpreter& file, const CommandRow& row, const ib_uverbs_cmd_hdr& header, u64 buffer) {
  u64 payload = buffer + sizeof header;
  u32 in_size = header.in_words * 4U - sizeof header;
  u32 out_size = header.out_words * 4U;
  u64 response = 0;
  if (row.has_response) {
    if (auto done = file.memory().copy_in(&response, payload, sizeof response); !done) return done;
  }
  Input in = Input::at(payload, in_size);
  Output out{response, row.has_response ? out_size : 0};
  DriverData driver(file.memory(), {}, {});
  if (row.driver_data) {
    in = Input::at(payload, row.request_size);
    Output driver_out{};
    if (row.has_response) {
      out.size = row.response_size;
      driver_out = {response + row.response_size, out_size - row.response_size};
    }
    driver = DriverData(file.memory(), Input::at(payload + row.request_size, in_size - row.request_size), driver_out);
  }
  Command command(file.memory(), in, out, driver);
  return row.handler(file, command);
}

Result<void> run_extended(Interpreter& file, const CommandRow& row, const ib_uverbs_cmd_hdr& header,
                          const ib_uverbs_ex_cmd_hdr& more, u64 buffer) {
  u64 payload = buffer + sizeof header + sizeof more;
  u32 in_size = header.in_words * 8U;
  u32 out_size = header.out_words * 8U;
  DriverData driver(file.memory(), Input::at(payload + in_size, more.provider_in_words * 8U),
                    {more.response + out_size, more.provider_out_words * 8U});
  Command command(file.memory(), Input::at(payload, in_size), {more.response, out_size}, driver);
  return row.handler(file, command);
}

Result<void> run(Interpreter& file, u64 buffer, size_t length) {
  ib_uverbs_cmd_hdr header;
  if (length < sizeof header) return fail(EINVAL);
  if (auto done = file.memory().copy_in(&header, buffer, sizeof header); !done) return done;
  auto row = find_command(header.command);
  if (!row) return fail(row.error());
  if (file.is_removed()) return fail(EIO);
  if (!(*row)->extended()) {
    if (auto good = check_plain(**row, header, length); !good) return good;
    if ((*row)->needs_context && !file.ready()) return fail(EINVAL);
    return run_plain(file, **row, header, buffer);
  }
  ib_uverbs_ex_cmd_hdr more;
  if (length < sizeof header + sizeof more) return fail(EINVAL);
  if (auto done = file.memory().copy_in(&more, buffer + sizeof header, sizeof more); !done) return done;
  if (auto good = check_extended(**row, header, more, length); !good) return good;
  if ((*row)->needs_context && !file.ready()) return fail(EINVAL);
  return run_extended(file, **row, header, more, buffer);
}

}  // namespace

ssize_t Interpreter::write(u64 buffer, size_t length) {
  auto done = run(*this, buffer, length);
  return done ? static_cast<ssize_t>(length) : -to_int(done.error());
}

}  // namespace softib::kernel

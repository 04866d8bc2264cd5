// What the kernel says lies where in this process. The book (page_book.h) is only what we did ourselves; the C
// library unmaps and remaps behind our back, so nothing is done to a page before the kernel was asked.
#pragma once

#include <sys/mman.h>

#include "base/fd.h"
#include "base/types.h"
#include "hca/memory.h"

namespace softib::hca {

struct Mapping {
  AddressRange range;
  u64 offset = 0;  // in the file, if it is one
  u64 inode = 0;   // 0: anonymous
  u32 device_major = 0;
  u32 device_minor = 0;
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;

  [[nodiscard]] int protection() const {
    return (readable ? PROT_READ : 0) | (writable ? PROT_WRITE : 0) | (executable ? PROT_EXEC : 0);
  }
};

class KernelMap {
 public:
  enum class Only : bool { all, shared };

  // Calls visit(const Mapping&) -> bool (go on?) for the mappings that touch `range`, in order. What visit does to
  // the mapping it was given, and to those before it, is no harm. False when the kernel gave no answer.
  template <typename Visit>
  bool for_each(AddressRange range, Only only, Visit visit) {
    return walk(range, only, Visitor{&visit, [](void* f, const Mapping& m) { return (*static_cast<Visit*>(f))(m); }});
  }
  template <typename Visit>
  bool for_each(AddressRange range, Visit visit) {
    return for_each(range, Only::all, visit);
  }

  // In the child of a fork: the descriptor shows the parent's memory.
  void abandon() {
    maps_.reset();
    form_ = Form::unknown;
  }

  // For tests: reads the text form although the running kernel has the faster call.
  void use_text() { form_ = Form::text; }

 private:
  enum class Form : u8 { unknown, query, text };
  struct Visitor {
    void* function;
    bool (*call)(void*, const Mapping&);
    bool operator()(const Mapping& mapping) const { return call(function, mapping); }
  };
  enum class Answer : u8 { found, none, failed };

  bool walk(AddressRange range, Only only, Visitor visit);
  bool walk_by_query(AddressRange range, Only only, Visitor visit);
  static bool walk_text(AddressRange range, Only only, Visitor visit);
  Answer query(u64 address, Only only, Mapping& mapping);
  Answer ask(u64 address, Only only, Mapping& mapping) const;
  bool choose_form();

  Fd maps_;
  Form form_ = Form::unknown;
};

}  // namespace softib::hca

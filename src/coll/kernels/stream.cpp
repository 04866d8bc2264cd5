// Copies that pass the caches by.
#include <cstring>

#include "coll/kernels/dispatch.h"

#define HWY_TARGET_INCLUDE "coll/kernels/stream.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "coll/kernels/blocks.inl"

HWY_BEFORE_NAMESPACE();
namespace softib::coll::kernels {
namespace HWY_NAMESPACE {

void stream_bytes(void* out, const void* in, u64 bytes) {
  using Bytes = Plain<u8>;
  auto* to = static_cast<u8*>(out);
  const auto* from = static_cast<const u8*>(in);
  std::size_t at = elements_to_alignment(to, bytes);
  std::memcpy(to, from, at);
  constexpr std::size_t block = 4 * Bytes::lanes;
  for (; bytes - at >= block; at += block) Bytes::stream_block(load_block(Bytes(), from + at), to + at);
  hwy::FlushStream();
  std::memcpy(to + at, from + at, bytes - at);
}

}  // namespace HWY_NAMESPACE
}  // namespace softib::coll::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace softib::coll::kernels {

HWY_EXPORT(stream_bytes);

void stream_bytes(void* out, const void* in, u64 bytes) { HWY_DYNAMIC_DISPATCH(stream_bytes)(out, in, bytes); }

const char* instructions() {
  const i64 supported = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(supported & -supported);
}

}  // namespace softib::coll::kernels
#endif

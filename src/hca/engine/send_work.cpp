#include "hca/engine/send_work.h"

#include <algorithm>

#include "hca/limits.h"

namespace softib::hca {

WcStatus gather(Context& context, const SendWork& work, LocalUse use, Buffers& local) {
  const auto& dma = work.wqe.dma;
  if (work.is_inline()) {
    if (use == LocalUse::write || dma.length > work.qp.max_inline) return WcStatus::loc_qp_op_err;
    local.next().refer_to_own(context.slot, work.wqe.inline_data(), dma.length);
    local.added();
    return WcStatus::success;
  }
  if (dma.num_sge > std::min(work.qp.max_send_sge, limits::max_sge)) return WcStatus::loc_qp_op_err;
  if (!add_sges(context, local, work.wqe.sges(), dma.num_sge, work.qp.pd, use, ~0ULL)) return WcStatus::loc_prot_err;
  return local.total > limits::max_message ? WcStatus::loc_len_err : WcStatus::success;
}

}  // namespace softib::hca

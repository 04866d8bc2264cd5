// The ioctl methods.
#include "kernel/methods/handlers.h"
#include "kernel/tables.h"

namespace softib::kernel {

namespace {

using attr::constant;
using attr::fd;
using attr::flags;
using attr::in;
using attr::in_at_least;
using attr::in_struct;
using attr::object;
using attr::out;
using attr::out_at_least;
using attr::out_struct;
constexpr AttrKind object_new = AttrKind::object_new;
constexpr AttrKind object_read = AttrKind::object_read;
constexpr AttrKind object_destroy = AttrKind::object_destroy;
constexpr AttrKind fd_new = AttrKind::fd_new;
constexpr AttrKind fd_read = AttrKind::fd_read;
constexpr Need optional = Need::optional;
using Kind = ipc::ObjectKind;

constexpr AttrSpec invoke_write[] = {
    constant(UVERBS_ATTR_WRITE_CMD),
    in_at_least(UVERBS_ATTR_CORE_IN, sizeof(u32), optional),
    out_at_least(UVERBS_ATTR_CORE_OUT, 0, optional),
};
constexpr AttrSpec info_handles[] = {
    constant(UVERBS_ATTR_INFO_OBJECT_ID),
    out<u32>(UVERBS_ATTR_INFO_TOTAL_HANDLES, optional),
    out_at_least(UVERBS_ATTR_INFO_HANDLES_LIST, sizeof(u32), optional),
};
constexpr AttrSpec query_port[] = {
    constant(UVERBS_ATTR_QUERY_PORT_PORT_NUM),
    out_struct<ib_uverbs_query_port_resp_ex>(UVERBS_ATTR_QUERY_PORT_RESP),
};
constexpr AttrSpec get_context[] = {
    out<u32>(UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, optional),
    out<u64>(UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, optional),
};
constexpr AttrSpec query_context[] = {
    out<u32>(UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, optional),
    out<u64>(UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, optional),
};
constexpr AttrSpec query_gid_table[] = {
    constant(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE),
    flags(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, optional),
    out_at_least(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 0),
    out<u64>(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES),
};
constexpr AttrSpec query_gid_entry[] = {
    constant(UVERBS_ATTR_QUERY_GID_ENTRY_PORT),
    constant(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX),
    flags(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS),
    out_struct<ib_uverbs_gid_entry>(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY),
};

constexpr AttrSpec destroy_pd[] = {object(UVERBS_ATTR_DESTROY_PD_HANDLE, object_destroy, Kind::pd)};
constexpr AttrSpec destroy_ah[] = {object(UVERBS_ATTR_DESTROY_AH_HANDLE, object_destroy, Kind::ah)};
constexpr AttrSpec destroy_mw[] = {object(UVERBS_ATTR_DESTROY_MW_HANDLE, object_destroy, Kind::mw)};
constexpr AttrSpec destroy_mr[] = {object(UVERBS_ATTR_DESTROY_MR_HANDLE, object_destroy, Kind::mr)};

constexpr AttrSpec create_cq[] = {
    object(UVERBS_ATTR_CREATE_CQ_HANDLE, object_new, Kind::cq),
    in<u32>(UVERBS_ATTR_CREATE_CQ_CQE),
    in<u64>(UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
    fd(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, fd_read, optional),
    in<u32>(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR),
    flags(UVERBS_ATTR_CREATE_CQ_FLAGS, optional),
    fd(UVERBS_ATTR_CREATE_CQ_EVENT_FD, fd_read, optional),
    out<u32>(UVERBS_ATTR_CREATE_CQ_RESP_CQE),
};
constexpr AttrSpec destroy_cq[] = {
    object(UVERBS_ATTR_DESTROY_CQ_HANDLE, object_destroy, Kind::cq),
    out<ib_uverbs_destroy_cq_resp>(UVERBS_ATTR_DESTROY_CQ_RESP),
};

// XRC domains and indirection tables are objects that the device lacks, so their attributes are absent too.
constexpr AttrSpec create_qp[] = {
    object(UVERBS_ATTR_CREATE_QP_HANDLE, object_new, Kind::qp),
    object(UVERBS_ATTR_CREATE_QP_PD_HANDLE, object_read, Kind::pd, optional),
    object(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, object_read, Kind::srq, optional),
    object(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, object_read, Kind::cq, optional),
    object(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, object_read, Kind::cq, optional),
    in<u64>(UVERBS_ATTR_CREATE_QP_USER_HANDLE),
    in_struct<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_CAP),
    constant(UVERBS_ATTR_CREATE_QP_TYPE),
    flags(UVERBS_ATTR_CREATE_QP_FLAGS, optional),
    in<u32>(UVERBS_ATTR_CREATE_QP_SOURCE_QPN, optional),
    fd(UVERBS_ATTR_CREATE_QP_EVENT_FD, fd_read, optional),
    out_struct<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_RESP_CAP),
    out<u32>(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM),
};
constexpr AttrSpec destroy_qp[] = {
    object(UVERBS_ATTR_DESTROY_QP_HANDLE, object_destroy, Kind::qp),
    out<ib_uverbs_destroy_qp_resp>(UVERBS_ATTR_DESTROY_QP_RESP),
};

constexpr AttrSpec create_srq[] = {
    object(UVERBS_ATTR_CREATE_SRQ_HANDLE, object_new, Kind::srq),
    object(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, object_read, Kind::pd),
    constant(UVERBS_ATTR_CREATE_SRQ_TYPE),
    in<u64>(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
    in<u32>(UVERBS_ATTR_CREATE_SRQ_MAX_WR),
    in<u32>(UVERBS_ATTR_CREATE_SRQ_MAX_SGE),
    in<u32>(UVERBS_ATTR_CREATE_SRQ_LIMIT),
    object(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, object_read, Kind::cq, optional),
    in<u32>(UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, optional),
    fd(UVERBS_ATTR_CREATE_SRQ_EVENT_FD, fd_read, optional),
    out<u32>(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR),
    out<u32>(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE),
    out<u32>(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, optional),
};
constexpr AttrSpec destroy_srq[] = {
    object(UVERBS_ATTR_DESTROY_SRQ_HANDLE, object_destroy, Kind::srq),
    out<ib_uverbs_destroy_srq_resp>(UVERBS_ATTR_DESTROY_SRQ_RESP),
};

constexpr AttrSpec advise_mr[] = {
    object(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, object_read, Kind::pd),
    constant(UVERBS_ATTR_ADVISE_MR_ADVICE),
    flags(UVERBS_ATTR_ADVISE_MR_FLAGS),
    in_at_least(UVERBS_ATTR_ADVISE_MR_SGE_LIST, sizeof(ib_uverbs_sge)),
};
constexpr AttrSpec query_mr[] = {
    object(UVERBS_ATTR_QUERY_MR_HANDLE, object_read, Kind::mr),
    out<u32>(UVERBS_ATTR_QUERY_MR_RESP_LKEY),
    out<u32>(UVERBS_ATTR_QUERY_MR_RESP_RKEY),
    out<u64>(UVERBS_ATTR_QUERY_MR_RESP_LENGTH),
    out<u64>(UVERBS_ATTR_QUERY_MR_RESP_IOVA, optional),
};
constexpr AttrSpec reg_dmabuf_mr[] = {
    object(UVERBS_ATTR_REG_DMABUF_MR_HANDLE, object_new, Kind::mr),
    object(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, object_read, Kind::pd),
    in<u64>(UVERBS_ATTR_REG_DMABUF_MR_OFFSET),
    in<u64>(UVERBS_ATTR_REG_DMABUF_MR_LENGTH),
    in<u64>(UVERBS_ATTR_REG_DMABUF_MR_IOVA),
    in_at_least(UVERBS_ATTR_REG_DMABUF_MR_FD, 0),
    flags(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS),
    out<u32>(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY),
    out<u32>(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY),
};
constexpr AttrSpec alloc_async_fd[] = {fd(UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, fd_new)};

struct Traits {
  bool driver_data = false;
  bool needs_context = true;
};

constexpr MethodRow row(u16 object_id, u16 method, const char* name, std::span<const AttrSpec> attributes,
                        Result<void> (*handler)(Interpreter&, Attributes&), Traits traits = {}) {
  return {object_id, method, name, attributes, traits.driver_data, traits.needs_context, handler};
}

constexpr Traits with_driver_data{.driver_data = true};
constexpr Traits any_time{.driver_data = true, .needs_context = false};

constexpr MethodRow method_rows[] = {
    row(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE, "invoke_write", invoke_write, methods::invoke_write,
        any_time),
    row(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES, "info_handles", info_handles, methods::list_handles),
    row(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, "query_port", query_port, methods::query_port),
    row(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, "get_context", get_context, methods::get_context, any_time),
    row(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT, "query_context", query_context, methods::query_context),
    row(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE, "query_gid_table", query_gid_table,
        methods::query_gid_table),
    row(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY, "query_gid_entry", query_gid_entry,
        methods::query_gid_entry),
    row(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, "pd_destroy", destroy_pd, methods::dealloc_pd),
    row(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, "cq_create", create_cq, methods::create_cq, with_driver_data),
    row(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, "cq_destroy", destroy_cq, methods::destroy_cq),
    row(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, "qp_create", create_qp, methods::create_qp, with_driver_data),
    row(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, "qp_destroy", destroy_qp, methods::destroy_qp),
    row(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, "srq_create", create_srq, methods::create_srq, with_driver_data),
    row(UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, "srq_destroy", destroy_srq, methods::destroy_srq),
    row(UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, "ah_destroy", destroy_ah, methods::destroy_ah),
    row(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, "mr_destroy", destroy_mr, methods::dereg_mr),
    row(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, "advise_mr", advise_mr, methods::advise_mr),
    row(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR, "query_mr", query_mr, methods::query_mr),
    row(UVERBS_OBJECT_MR, UVERBS_METHOD_REG_DMABUF_MR, "reg_dmabuf_mr", reg_dmabuf_mr, methods::reg_dmabuf_mr),
    row(UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, "mw_destroy", destroy_mw, methods::dealloc_mw),
    row(UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC, "async_event_alloc", alloc_async_fd,
        methods::alloc_async_fd),
};

constexpr bool rows_fit() {
  for (const MethodRow& row : method_rows)
    if (row.attributes.size() + 2 > Attributes::capacity) return false;
  return true;
}
static_assert(rows_fit());

}  // namespace

std::span<const MethodRow> method_table() { return method_rows; }

const MethodRow* find_method(u16 object, u16 method) {
  for (const MethodRow& row : method_rows)
    if (row.object == object && row.method == method) return &row;
  return nullptr;
}

bool object_exists(u64 object) {
  if (object == UVERBS_OBJECT_COMP_CHANNEL) return true;  // made by a write command only
  for (const MethodRow& row : method_rows)
    if (row.object == object) return true;
  return false;
}

}  // namespace softib::kernel

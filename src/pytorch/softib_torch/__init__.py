"""torch.distributed over SoftIB's collectives: shared memory within a host, queue pairs or TCP between hosts.

    import softib_torch
    torch.distributed.init_process_group("softib")

Tensors must be in the processor's memory. monitored_barrier() is here, as torch.distributed's own refuses every backend
but gloo.
"""

import atexit
import datetime

import torch.distributed as dist

from . import _softib

__all__ = ["SoftibGroup", "monitored_barrier"]

SoftibGroup = _softib.SoftibGroup


def _create(store, rank, size, timeout):
    return SoftibGroup(store, rank, size, timeout.total_seconds())


def _create_extended(options, _group_options):
    return _create(options.store, options.group_rank, options.group_size, options.timeout)


def _register():
    if hasattr(dist, "Backend") and hasattr(dist.Backend, "default_device_backend_map"):  # 2.x
        dist.Backend.register_backend("softib", _create_extended, extended_api=True, devices=["cpu"])
    else:
        dist.Backend.register_backend("softib", _create)


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Blocks until all ranks of the group have come. If one does not within `timeout` (a timedelta; the group's without
    it), all raise RuntimeError with its rank and host; with wait_all_ranks, with all that did not come."""
    group = group or dist.distributed_c10d._get_default_group()
    if timeout is None:
        timeout = datetime.timedelta(0)
    if hasattr(group, "_get_backend"):  # 2.x
        import torch
        group = group._get_backend(torch.device("cpu"))
    group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)


_register()
# Threads of the groups may have to give back tensors that the interpreter knows: they end before it does.
atexit.register(_softib.stop_all)

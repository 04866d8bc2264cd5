"""torch.distributed over SoftIB's collectives: shared memory within a host, queue pairs or TCP between hosts.

    import softib_torch
    torch.distributed.init_process_group("softib")

Tensors must be in the processor's memory; with PyTorch 2.x others can be left to another backend:
init_process_group("cpu:softib,cuda:nccl"). monitored_barrier() is here, as torch.distributed's own refuses every
backend but gloo.
"""

import atexit
import datetime
import inspect

import torch
import torch.distributed as dist

from . import _softib

__all__ = ["SoftibGroup", "backend_of", "monitored_barrier", "stop"]

SoftibGroup = _softib.SoftibGroup


def _create(store, rank, size, timeout):
    return SoftibGroup(store, rank, size, timeout.total_seconds())


def _create_extended(options, _group_options):
    return _create(options.store, options.group_rank, options.group_size, options.timeout)


def _register():
    if "devices" in inspect.signature(dist.Backend.register_backend).parameters:  # 2.x
        dist.Backend.register_backend("softib", _create_extended, extended_api=True, devices=["cpu"])
    else:
        dist.Backend.register_backend("softib", _create)


def backend_of(group=None):
    """The SoftibGroup that a process group (the default one without it) has for tensors in the processor's memory: with
    PyTorch 1.13 the group itself, with 2.x a part of it."""
    group = group or dist.distributed_c10d._get_default_group()
    if hasattr(group, "_get_backend"):  # 2.x
        group = group._get_backend(torch.device("cpu"))
    return getattr(group, "wrapped_pg", group)  # there with TORCH_DISTRIBUTED_DEBUG=DETAIL


def stop(group=None):
    """Ends all that is under way in the group; all later calls of it raise. Not collective."""
    backend_of(group).stop()


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Blocks until all ranks of the group have come. If one does not within `timeout` (a timedelta; the group's without
    it), all raise RuntimeError with its rank and host; with wait_all_ranks, with all that did not come."""
    backend_of(group).monitored_barrier(timeout or datetime.timedelta(0), wait_all_ranks=wait_all_ranks)


_register()
# Threads of the groups may have to give back tensors that the interpreter knows: they end before it does.
atexit.register(_softib.stop_all)

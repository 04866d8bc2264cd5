#!/usr/bin/env python3
"""One rank of the tests of the backend for PyTorch; tests/integration/torch_backend.py starts as many as it wants.

    rank.py FOLDER CASE...     with RANK and WORLD_SIZE

Ranks meet by files in FOLDER. Ends with 0 if the cases passed on this rank.
"""

import datetime
import itertools
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import softib_torch

OPS = {dist.ReduceOp.SUM: "sum", dist.ReduceOp.PRODUCT: "prod", dist.ReduceOp.MIN: "min", dist.ReduceOp.MAX: "max",
       dist.ReduceOp.AVG: "avg", dist.ReduceOp.BAND: "band", dist.ReduceOp.BOR: "bor", dist.ReduceOp.BXOR: "bxor"}
NUMBERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32,
           torch.float64, torch.bool]
MOVED = NUMBERS + [torch.complex64]
SHAPES = [(), (0,), (1,), (7, 3), (2, 5, 401)]

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
folder = pathlib.Path(sys.argv[1])
stores = itertools.count()


def new_store(users=size):
    return dist.FileStore(str(folder / f"store{next(stores)}"), users)


def join(seconds=60):
    dist.init_process_group("softib", store=new_store(), rank=rank, world_size=size,
                            timeout=datetime.timedelta(seconds=seconds))


def tell(what):
    (folder / what).touch()


def await_word(what):
    while not (folder / what).exists():
        time.sleep(0.02)


def values(of, shape, dtype, seed=0):
    """What rank `of` gives: small whole numbers, so that sums are exact in every type."""
    generator = torch.Generator().manual_seed(1000 * seed + of)
    return torch.randint(0, 4, shape, generator=generator).to(dtype)


def all_values(shape, dtype, seed=0):
    return [values(of, shape, dtype, seed) for of in range(size)]


def combined(parts, op):
    name, dtype = OPS[op], parts[0].dtype
    if name in ("band", "bor", "bxor"):
        result = parts[0].clone()
        for part in parts[1:]:
            result = getattr(torch, {"band": "bitwise_and", "bor": "bitwise_or", "bxor": "bitwise_xor"}[name])(
                result, part)
        return result
    if dtype == torch.bool:
        stacked = torch.stack(parts)
        return stacked.any(0) if name in ("sum", "max") else stacked.all(0)
    stacked = torch.stack(parts).to(torch.float64)
    if name == "avg":
        mean = stacked.sum(0) / size
        return (mean if dtype.is_floating_point else mean.trunc()).to(dtype)
    return {"sum": stacked.sum(0), "prod": stacked.prod(0), "min": stacked.amin(0), "max": stacked.amax(0)}[name].to(
        dtype)


def goes_together(op, dtype):
    bitwise = OPS[op] in ("band", "bor", "bxor")
    if bitwise:
        return not dtype.is_floating_point
    return not (dtype == torch.bool and OPS[op] == "avg")


def same(got, wanted, what):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, f"{what}: {got.dtype} {got.shape}"
    assert torch.equal(got, wanted), f"{what}: rank {rank} has {got.flatten()[:8]}, not {wanted.flatten()[:8]}"


def spread(tensor):
    """The same values in memory with gaps."""
    wide = torch.zeros(*tensor.shape, 2, dtype=tensor.dtype)
    wide[..., 0] = tensor
    return wide[..., 0]


# -- collectives against a plain reference


def reductions():
    for seed, (op, dtype, shape) in enumerate(itertools.product(OPS, NUMBERS, SHAPES)):
        if not goes_together(op, dtype):
            continue
        what = f"{OPS[op]} {dtype} {shape}"
        parts = all_values(shape, dtype, seed)
        wanted = combined(parts, op)
        for form in (torch.clone, spread):
            mine = form(parts[rank])
            dist.all_reduce(mine, op=op)
            same(mine, wanted, f"all_reduce {what}")
            root = seed % size
            mine = form(parts[rank])
            dist.reduce(mine, root, op=op)
            if rank == root:
                same(mine, wanted, f"reduce {what}")
        reduce_scatters(op, dtype, shape, seed, what)


def reduce_scatters(op, dtype, shape, seed, what):
    given = [[values(of, shape, dtype, seed * 50 + to) for to in range(size)] for of in range(size)]
    wanted = combined([given[of][rank] for of in range(size)], op)
    for form in (torch.clone, spread):
        out = form(torch.zeros(shape, dtype=dtype))
        dist.reduce_scatter(out, [form(part) for part in given[rank]], op=op)
        same(out, wanted, f"reduce_scatter {what}")
    out = torch.zeros(shape, dtype=dtype)
    dist.reduce_scatter_tensor(out, torch.stack(given[rank]), op=op)
    same(out, wanted, f"reduce_scatter_tensor {what}")


def complex_numbers():
    parts = [torch.complex(values(of, (5,), torch.float32), values(of, (5,), torch.float32, 9)) for of in range(size)]
    mine = parts[rank].clone()
    dist.all_reduce(mine)
    same(mine, sum(parts[1:], parts[0]), "all_reduce complex")


def moves():
    for seed, (dtype, shape) in enumerate(itertools.product(MOVED, SHAPES)):
        parts, what, root = all_values(shape, dtype, seed), f"{dtype} {shape}", seed % size
        for form in (torch.clone, spread):
            mine = form(parts[rank])
            dist.broadcast(mine, root)
            same(mine, parts[root], f"broadcast {what}")
            outs = [form(torch.zeros(shape, dtype=dtype)) for _ in range(size)]
            dist.all_gather(outs, form(parts[rank]))
            for of in range(size):
                same(outs[of], parts[of], f"all_gather {what}")
            outs = [form(torch.zeros(shape, dtype=dtype)) for _ in range(size)] if rank == root else None
            dist.gather(form(parts[rank]), outs, dst=root)
            for of in range(size if outs else 0):
                same(outs[of], parts[of], f"gather {what}")
            out = form(torch.zeros(shape, dtype=dtype))
            dist.scatter(out, [form(part) for part in parts] if rank == root else None, src=root)
            same(out, parts[rank], f"scatter {what}")
        out = torch.zeros((size, *shape), dtype=dtype)
        dist.all_gather_into_tensor(out, parts[rank])
        same(out, torch.stack(parts), f"all_gather_into_tensor {what}")
        coalesced(dtype, shape, seed)
        all_to_alls(dtype, seed)


def coalesced(dtype, shape, seed):
    shapes = [shape, (3,), shape]
    outs = [[torch.zeros(one, dtype=dtype) for one in shapes] for _ in range(size)]
    dist.all_gather_coalesced(outs, [values(rank, one, dtype, seed + i) for i, one in enumerate(shapes)])
    for of, i in itertools.product(range(size), range(3)):
        same(outs[of][i], values(of, shapes[i], dtype, seed + i), f"all_gather_coalesced {dtype}")
    if dtype.is_complex:
        return
    mine = [values(rank, one, dtype, seed + i) for i, one in enumerate(shapes)]
    dist.all_reduce_coalesced(mine, op=dist.ReduceOp.MAX)
    for i, one in enumerate(shapes):
        same(mine[i], combined(all_values(one, dtype, seed + i), dist.ReduceOp.MAX), f"all_reduce_coalesced {dtype}")


def all_to_alls(dtype, seed):
    def part(of, to, equal):
        return values(of, (2 if equal else (of + 2 * to + seed) % 4, 3), dtype, seed * 20 + to)

    for equal in (True, False):
        given = [part(rank, to, equal) for to in range(size)]
        wanted = [part(of, rank, equal) for of in range(size)]
        outs = [torch.zeros_like(one) for one in wanted]
        dist.all_to_all(outs, given)
        for of in range(size):
            same(outs[of], wanted[of], f"all_to_all {dtype} {equal}")
        out = torch.zeros_like(torch.cat(wanted))
        splits = () if equal else ([len(one) for one in wanted], [len(one) for one in given])
        dist.all_to_all_single(out, torch.cat(given), *splits)
        same(out, torch.cat(wanted), f"all_to_all_single {dtype} {equal}")


def uneven():
    parts = [torch.arange(of * 3.0) for of in range(size)]
    outs = [torch.empty(of * 3) for of in range(size)]
    dist.distributed_c10d._get_default_group().allgather([outs], [parts[rank]]).wait()
    for of in range(size):
        same(outs[of], parts[of], "all_gather of parts that aren't equal")


def sparse():
    def part(of):
        return torch.sparse_coo_tensor([[0, of + 1, of + 1]], [[1.0, 2.0], [of, 1.0], [0.5, 0.0]], (9, 2))

    for empty in (False, True):
        mine = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (9, 2)) \
            if empty and rank == 0 else part(rank)
        dist.all_reduce(mine)
        wanted = sum(part(of).to_dense() for of in range(1 if empty else 0, size))
        same(mine.to_dense(), wanted, "all_reduce of sparse tensors")


def collectives():
    join()
    for case in (reductions, moves, complex_numbers, uneven, sparse):
        case()


# -- messages


def messages():
    join()
    for count in (0, 1, 5, 12, 13, 100_000):
        for form in (torch.clone, spread):
            ring(count, form)
    tags()
    any_source()
    itself()
    wrong_size()


def ring(count, form):
    to, of = (rank + 1) % size, (rank - 1) % size
    got = form(torch.zeros(count))
    requests = [dist.irecv(got, of, tag=4), dist.isend(form(torch.arange(float(count)) + rank), to, tag=4)]
    for request in requests:
        request.wait()
    same(got, torch.arange(float(count)) + of, "ring")


def tags():
    """Asked for in another order than sent."""
    peer = rank ^ 1
    sends = [dist.isend(torch.full((size_of,), float(tag)), peer, tag=tag)
             for tag, size_of in ((1, 3), (2, 999), (3, 0))]
    for tag, size_of in ((3, 0), (2, 999), (1, 3)):
        got = torch.zeros(size_of)
        dist.recv(got, peer, tag=tag)
        same(got, torch.full((size_of,), float(tag)), f"tag {tag}")
    for send in sends:
        send.wait()


def any_source():
    if rank == 0:
        sources = []
        for _ in range(2 * (size - 1)):
            got = torch.zeros(3)
            sources.append(dist.recv(got, tag=5))
            same(got, torch.full((3,), float(sources[-1])), "recv from any rank")
        assert sorted(sources) == sorted(2 * list(range(1, size))), sources
        for of in range(1, size):  # and from each by name after that
            got = torch.zeros(1)
            assert dist.recv(got, of, tag=6) == of and got.item() == of
    else:
        for _ in range(2):
            dist.send(torch.full((3,), float(rank)), 0, tag=5)
        dist.send(torch.full((1,), float(rank)), 0, tag=6)
    dist.all_reduce(torch.ones(1))


def itself():
    got = torch.zeros(2)
    group = dist.distributed_c10d._get_default_group()
    receive = group.recv([got], rank, 8)
    group.send([torch.full((2,), 3.0)], rank, 8).wait()
    receive.wait()
    same(got, torch.full((2,), 3.0), "message to oneself")


def wrong_size():
    peer = rank ^ 1
    send = dist.isend(torch.zeros(40), peer)
    error = raised(lambda: dist.recv(torch.zeros(39), peer))
    assert f"rank {peer} sent 160 bytes with tag 0 where 156 were to be received" in error, error
    send.wait()
    dist.all_reduce(torch.ones(1))  # all goes on


def raised(call):
    try:
        call()
    except Exception as error:  # pylint: disable=broad-except
        return str(error)
    raise AssertionError("no error")


# -- works, futures, groups, objects


def works():
    join()
    tensors = [torch.full((1000,), float(rank + i)) for i in range(20)]
    pending = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    for i in reversed(range(20)):
        assert pending[i].wait() and pending[i].is_completed() and pending[i].is_success()
        same(tensors[i], torch.full((1000,), float(sum(range(size)) + size * i)), "all_reduce, asynchronous")
    assert torch.equal(pending[3].result()[0], tensors[3])
    future = dist.all_reduce(torch.ones(5), async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    same(doubled.wait(), torch.full((5,), 2.0 * size), "future")
    nested = dist.all_reduce(torch.ones(5), async_op=True).get_future().then(inside_callback)
    same(nested.wait(), torch.full((5,), float(size * size)), "a collective inside a future's callback")
    refusals()


def inside_callback(done):
    tensor = done.value()[0]
    dist.all_reduce(tensor)
    return tensor


def refusals():
    group = dist.distributed_c10d._get_default_group()
    for call, words in ((lambda: dist.broadcast(torch.ones(1), size), "no rank"),
                        (lambda: dist.all_reduce(torch.ones(1), op=dist.ReduceOp.BAND), "bitwise"),
                        (lambda: dist.all_reduce(torch.ones(1, dtype=torch.bool), op=dist.ReduceOp.AVG), "bool"),
                        (lambda: group.allreduce([torch.ones(1), torch.ones(1)]).wait(), "one tensor")):
        error = raised(call)
        assert words in error, error


def groups():
    join()
    evens = dist.new_group(list(range(0, size, 2)))
    last_two = dist.new_group([size - 2, size - 1])
    for group, members in ((evens, range(0, size, 2)), (last_two, (size - 2, size - 1)), (None, range(size))):
        if rank in members:
            tensor = torch.ones(3) * rank
            dist.all_reduce(tensor, group=group)
            same(tensor, torch.ones(3) * sum(members), f"group of {list(members)}")
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "text": "x" * 1000 * rank})
    assert objects == [{"rank": of, "text": "x" * 1000 * of} for of in range(size)]
    things = [("a", 1), None, [2.5]] if rank == 1 else [None] * 3
    dist.broadcast_object_list(things, src=1)
    assert things == [("a", 1), None, [2.5]], things
    gathered = [None] * size if rank == 0 else None
    dist.gather_object(rank * "y", gathered, dst=0)
    assert rank != 0 or gathered == [of * "y" for of in range(size)]
    got = [None]
    dist.scatter_object_list(got, [f"for {to}" for to in range(size)] if rank == 0 else None, src=0)
    assert got == [f"for {rank}"], got
    softib_torch.monitored_barrier()
    if rank % 2 == 0:
        softib_torch.stop(evens)
        error = raised(lambda: evens.allreduce([torch.ones(1)]).wait())
        assert "the process group was stopped" in error, error
    dist.destroy_process_group()
    if rank % 2 == 0:
        error = raised(lambda: evens.allreduce([torch.ones(1)]).wait())
        assert "the process group was" in error, error


def by_environment():
    """As programs do it that are started by a launcher."""
    dist.init_process_group("softib")
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == size


# -- what PyTorch 2.x asks of a backend, and 1.13 doesn't


def newer():
    join()
    backend = softib_torch.backend_of()
    assert isinstance(backend, softib_torch.SoftibGroup)
    for case in (coalesced_reduce_scatter, coalesced_all_gather, coalescing, splitting):
        case(backend)


def coalesced_reduce_scatter(backend):
    """Tensors of several types, one of them empty."""
    shapes = ((40_000,), torch.float32), ((0,), torch.float32), ((2, 3), torch.int64), ((1,), torch.bfloat16)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.MAX):
        given = [[all_values((size, *shape), dtype, 60 + i)[of] for i, (shape, dtype) in enumerate(shapes)]
                 for of in range(size)]
        outputs = [torch.full(shape, 9, dtype=dtype) for shape, dtype in shapes]
        work = backend.reduce_scatter_tensor_coalesced(outputs, given[rank], op)
        assert work.wait() and len(work.result()) == len(shapes)
        for i, output in enumerate(outputs):
            same(output, combined([given[of][i][rank] for of in range(size)], op), f"coalesced reduce_scatter {op} {i}")
    error = raised(lambda: backend.reduce_scatter_tensor_coalesced([torch.ones(2)], [torch.ones(2 * size + 1)]))
    assert f"the input has {2 * size + 1} elements, not {size} times 2" in error, error


def coalesced_all_gather(backend):
    shapes = ((5, 7), torch.float64), ((0, 3), torch.float32), ((1,), torch.int16)
    inputs = [[values(of, shape, dtype, 70 + i) for i, (shape, dtype) in enumerate(shapes)] for of in range(size)]
    outputs = [torch.zeros(size, *shape, dtype=dtype) for shape, dtype in shapes]
    assert backend.allgather_into_tensor_coalesced(outputs, inputs[rank]).wait()
    for i, output in enumerate(outputs):
        same(output, torch.stack([inputs[of][i] for of in range(size)]), f"coalesced all_gather {i}")
    error = raised(lambda: backend.allgather_into_tensor_coalesced([torch.ones(size)], [torch.ones(1).double()]))
    assert "different types" in error, error


def coalescing(backend):
    """One work for all that is asked for in between."""
    tensors = [torch.full((1000,), float(rank + i)) for i in range(5)]
    got = torch.zeros(50_000)
    backend.start_coalescing()
    assert "started already" in raised(backend.start_coalescing)
    for tensor in tensors:
        dist.all_reduce(tensor, async_op=True)
    dist.irecv(got, (rank - 1) % size, tag=11)
    dist.isend(torch.full((50_000,), float(rank)), (rank + 1) % size, tag=11)
    work = backend.end_coalescing()
    assert work.wait() and work.is_success()
    for i, tensor in enumerate(tensors):
        same(tensor, torch.full((1000,), float(sum(range(size)) + size * i)), f"coalesced all_reduce {i}")
    same(got, torch.full((50_000,), float((rank - 1) % size)), "coalesced message")
    backend.start_coalescing()
    assert backend.end_coalescing().wait()
    assert "was not started" in raised(backend.end_coalescing)
    wrong_size_among_several(backend)


def wrong_size_among_several(backend):
    peer, ones = rank ^ 1, torch.ones(1)
    backend.start_coalescing()
    dist.isend(torch.zeros(40), peer, tag=12)
    dist.irecv(torch.zeros(39), peer, tag=12)
    dist.all_reduce(ones, async_op=True)
    work = backend.end_coalescing()
    error = raised(work.wait)
    assert f"rank {peer} sent 160 bytes" in error and not work.is_success(), error
    assert ones.item() == size, "the work was done before all of its parts were"


def splitting(backend):
    """Of two groups, each rank is in one; the second numbers its ranks backwards."""
    evens, odds = list(range(0, size, 2)), list(range(1, size, 2))[::-1]
    parts = [backend.split(dist.PrefixStore(name, store), ranks)
             for name, store, ranks in (("evens", new_store(len(evens)), evens), ("odds", new_store(len(odds)), odds))]
    mine, members = (parts[0], evens) if rank % 2 == 0 else (parts[1], odds)
    assert parts[1 - rank % 2] is None
    assert (mine.rank(), mine.size()) == (members.index(rank), len(members))
    tensor = torch.full((3,), float(rank))
    mine.allreduce([tensor]).wait()
    same(tensor, torch.full((3,), float(sum(members))), f"split into {members}")
    assert "no rank" in raised(lambda: backend.split(new_store(1), [size]))
    mine.abort()
    assert "was aborted" in raised(lambda: mine.allreduce([tensor]).wait()) and "was aborted" in mine.failure()
    assert backend.failure() is None
    dist.all_reduce(tensor)  # nothing else has ended


# -- training


def network():
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 40), torch.nn.Tanh(),
                               torch.nn.Linear(40, 2)).double()


def batches():
    generator = torch.Generator().manual_seed(3)
    points = torch.rand(5, 8 * size, 6, generator=generator, dtype=torch.float64)
    return [(one, torch.stack([one.sum(1), one.prod(1)], 1)) for one in points]


def trained(model, optimizer, part):
    losses = []
    for points, wanted in batches():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(points[part]), wanted[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def alone():
    """What one process makes of all data."""
    model = network()
    losses = trained(model, torch.optim.Adam(model.parameters(), lr=0.01), slice(None))
    return model, losses


def close(model, losses):
    wanted, wanted_losses = alone()
    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    torch.testing.assert_close(total, torch.tensor(wanted_losses, dtype=torch.float64), rtol=1e-9, atol=1e-12)
    for mine, other in zip(model.parameters(), wanted.parameters()):
        torch.testing.assert_close(mine, other, rtol=1e-7, atol=1e-9)


def mine():
    return slice(8 * rank, 8 * rank + 8)


def ddp():
    join()
    for words in ({}, {"bucket_cap_mb": 0.001}, {"find_unused_parameters": True}, {"gradient_as_bucket_view": True}):
        model = DistributedDataParallel(network(), **words)
        losses = trained(model, torch.optim.Adam(model.parameters(), lr=0.01), mine())
        close(model.module, losses)
    hooks()
    sparse_embedding()


def hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    model = DistributedDataParallel(network())
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    close(model.module, trained(model, torch.optim.Adam(model.parameters(), lr=0.01), mine()))
    model = DistributedDataParallel(network())
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    trained(model, torch.optim.Adam(model.parameters(), lr=0.01), mine())
    weights = torch.cat([one.detach().flatten() for one in model.parameters()])
    everyones = [torch.empty_like(weights) for _ in range(size)]
    dist.all_gather(everyones, weights)
    assert all(torch.equal(weights, other) for other in everyones)


def sparse_embedding():
    torch.manual_seed(1)
    model = DistributedDataParallel(torch.nn.Embedding(50, 4, sparse=True))
    model(torch.tensor([rank, rank + 1, 49])).sum().backward()
    gradient = model.module.weight.grad.to_dense()
    wanted = torch.zeros(50, 4)
    for of in range(size):
        for row in (of, of + 1, 49):
            wanted[row] += 1 / size
    torch.testing.assert_close(gradient, wanted)


def zero():
    from torch.distributed.optim import ZeroRedundancyOptimizer
    join()
    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    close(model.module, trained(model, optimizer, mine()))


def fsdp():
    """Where PyTorch has it on the processor, it must learn the same. Debian's 1.13 can't import it with Python 3.11; in
    2.6 the older kind wants an accelerator, and fully_shard() events that the processor's streams don't have."""
    try:
        from torch.distributed import fsdp as kinds
    except ValueError as error:
        assert "mutable default" in str(error), error
        return skip(error)
    join()
    if hasattr(kinds, "fully_shard"):
        model = fully_sharded(kinds.fully_shard)
    else:
        model = kinds.FullyShardedDataParallel(network())
    try:
        losses = trained(model, torch.optim.Adam(model.parameters(), lr=0.01), mine())
    except AttributeError as error:
        assert "record_event" in str(error), error
        return skip(error)
    total = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(total, op=dist.ReduceOp.AVG)
    wanted, wanted_losses = alone()
    torch.testing.assert_close(total, torch.tensor(wanted_losses, dtype=torch.float64), rtol=1e-6, atol=1e-9)
    for part, whole in zip(model.parameters(), wanted.parameters()):
        if hasattr(part, "full_tensor"):
            torch.testing.assert_close(part.full_tensor(), whole, rtol=1e-6, atol=1e-8)


def fully_sharded(fully_shard):
    from torch.distributed.device_mesh import init_device_mesh
    mesh = init_device_mesh("cpu", (size,))
    model = network()
    for layer in model:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def skip(why):
    print(f"SKIP: PyTorch {torch.__version__}: {why}", flush=True)


# -- what PyTorch 2.x has above its process groups


def modern():
    if not hasattr(dist.distributed_c10d, "_CoalescingManager"):
        return skip("no coalescing manager")
    join()
    for case in (functional, coalescing_manager, batch_of_messages, sharded_tensors):
        case()


def functional():
    from torch.distributed import _functional_collectives as f
    group = dist.group.WORLD
    same(f.wait_tensor(f.all_reduce(torch.full((5,), rank + 1.0), "sum", group)),
         torch.full((5,), size * (size + 1) / 2), "functional all_reduce")
    everyone = torch.arange(size).repeat_interleave(2).view(-1, 1).float()
    mine = torch.full((2, 1), float(rank))
    same(f.wait_tensor(f.all_gather_tensor(mine, 0, group)), everyone, "functional all_gather")
    for got in f.all_gather_into_tensor_coalesced([mine, mine + 1], group):
        same(f.wait_tensor(got) - got[0], everyone, "functional all_gather, coalesced")
    parts = torch.arange(3.0 * size) + rank
    wanted = torch.arange(3.0 * rank, 3.0 * rank + 3) * size + sum(range(size))
    same(f.wait_tensor(f.reduce_scatter_tensor(parts, "sum", 0, group)), wanted, "functional reduce_scatter")
    for i, got in enumerate(f.reduce_scatter_tensor_coalesced([parts, parts + 1], "sum", [0, 0], group)):
        same(f.wait_tensor(got), wanted + size * i, "functional reduce_scatter, coalesced")
    got = f.wait_tensor(f.all_to_all_single(torch.arange(2.0 * size) + 100 * rank, None, None, group))
    same(got, torch.cat([torch.arange(2.0 * rank, 2.0 * rank + 2) + 100 * of for of in range(size)]),
         "functional all_to_all")


def coalescing_manager():
    manager = dist.distributed_c10d._coalescing_manager
    for device in (None, torch.device("cpu")):
        tensors = [torch.full((1000,), float(rank + i)) for i in range(4)]
        with manager(device=device, async_ops=True) as work:
            for tensor in tensors:
                dist.all_reduce(tensor, async_op=device is not None)
        work.wait()
        for i, tensor in enumerate(tensors):
            same(tensor, torch.full((1000,), float(sum(range(size)) + size * i)), f"coalesced, {device}")
    outputs = [torch.zeros(3), torch.zeros(1, 2)]
    with manager():
        for output in outputs:
            dist.reduce_scatter_tensor(output, torch.ones(size, *output.shape).flatten(0, 1).contiguous())
    for output in outputs:
        same(output, torch.full_like(output, size), "reduce_scatter, coalesced")


def batch_of_messages():
    to, of = (rank + 1) % size, (rank - 1) % size
    got = torch.zeros(50_000)
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, of),
                                    dist.P2POp(dist.isend, torch.full((50_000,), float(rank)), to)])
    for work in works:
        work.wait()
    same(got, torch.full((50_000,), float(of)), "messages in a batch")


def sharded_tensors():
    """A product of matrices that are sharded by rows and by columns."""
    try:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        from torch.distributed.device_mesh import init_device_mesh
    except ImportError as error:
        return skip(error)
    mesh = init_device_mesh("cpu", (size,))
    left, right = values(0, (4 * size, 6), torch.float64), values(1, (6, 4 * size), torch.float64)
    product = distribute_tensor(left, mesh, [Shard(0)]) @ distribute_tensor(right, mesh, [Replicate()])
    same(product.full_tensor(), left @ right, "rows times a whole")
    product = distribute_tensor(left.t().contiguous(), mesh, [Shard(1)]) @ distribute_tensor(left, mesh, [Shard(0)])
    same(product.full_tensor(), left.t() @ left, "partial sums")


# -- what goes wrong


def absent():
    """The last rank stays away; the others say who and where."""
    join(seconds=2)
    if rank == size - 1:
        return await_word("told")
    error = raised(lambda: dist.all_reduce(torch.ones(1)))
    assert f"rank {size - 1} on " in error, error
    later = raised(lambda: dist.all_reduce(torch.ones(1)))
    assert f"rank {size - 1} on " in later, later
    print(error, flush=True)
    if rank == 0:
        tell("told")


def absent_later():
    """A time-out that is set later counts, and after it the reason is known."""
    join()
    backend = softib_torch.backend_of()
    backend.set_timeout(datetime.timedelta(seconds=2))
    if rank == size - 1:
        return await_word("told")
    error = raised(lambda: dist.all_reduce(torch.ones(1)))
    assert f"rank {size - 1} on " in error and "takes no part" in error, error
    assert f"rank {size - 1} on " in backend.failure(), backend.failure()
    assert "longer than nothing" in raised(lambda: backend.set_timeout(datetime.timedelta(0)))
    if rank == 0:
        tell("told")


def absent_from_receive():
    join(seconds=2)
    if rank == size - 1:
        return await_word("told")
    error = raised(lambda: dist.recv(torch.ones(1), size - 1))
    assert f"rank {size - 1} on " in error, error
    if rank == 0:
        tell("told")


def wait_with_limit():
    join()
    if rank == 0:
        work = dist.all_reduce(torch.ones(1), async_op=True)
        error = raised(lambda: work.wait(datetime.timedelta(seconds=0.3)))
        assert "all_reduce of rank 0 on " in error and "300 ms; it waits for rank " in error, error
        message = dist.irecv(torch.zeros(1), 1, tag=9)
        error = raised(lambda: message.wait(datetime.timedelta(seconds=0.1)))
        assert "it waits for a message with tag 9 from rank 1 on " in error, error
        tell("go")
        assert work.wait() and message.wait()
    else:
        await_word("go")
        dist.all_reduce(torch.ones(1))
        if rank == 1:
            dist.send(torch.ones(1), 0, tag=9)


def monitored():
    join()
    softib_torch.monitored_barrier()
    seconds = datetime.timedelta(seconds=1)
    present = max(1, size - 2)
    if rank < present:
        error = raised(lambda: softib_torch.monitored_barrier(timeout=seconds, wait_all_ranks=True))
        assert all(f"rank {absentee} on " in error for absentee in range(present, size)), error
        tell("done")
    else:
        await_word("done")


def monitored_by_one():
    """Who waits less long than rank 0, or comes where rank 0 doesn't, sees itself who is missing."""
    join()
    absentee = 0 if size == 2 else size - 1
    if rank == absentee:
        return await_word("seen")
    seconds = 5 if rank == 0 else 0.3
    error = raised(lambda: softib_torch.monitored_barrier(timeout=datetime.timedelta(seconds=seconds),
                                                          wait_all_ranks=True))
    assert f"rank {absentee} on " in error and "did not reach" in error, error
    if rank == (1 if size == 2 else 0):
        tell("seen")


def killed():
    """The last rank is killed while the others wait for it."""
    join()
    dist.all_reduce(torch.ones(1))
    if rank == size - 1:
        os.kill(os.getpid(), 9)
    error = raised(lambda: [dist.all_reduce(torch.ones(1)) for _ in range(1000)])
    assert f"rank {size - 1} on " in error, error
    print(error, flush=True)


def late():
    """A rank that never comes to the group's making."""
    store = new_store()
    if rank == size - 1:
        return await_word("told")
    error = raised(lambda: softib_torch.SoftibGroup(store, rank, size, 1.0))
    assert f"rank {size - 1} of {size} had not come" in error, error
    if rank == 0:
        tell("told")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[2:]:
        globals()[name]()
        if dist.is_initialized():
            dist.destroy_process_group()

#!/usr/bin/env python3
"""Data-parallel training over several hosts: PyTorch's DistributedDataParallel.

    MASTER_ADDR=host0-ib0 MASTER_PORT=29500 WORLD_SIZE=2 RANK=0 train_ddp.py     on host0
    MASTER_ADDR=host0-ib0 MASTER_PORT=29500 WORLD_SIZE=2 RANK=1 train_ddp.py     on host1
    softib run all -- train_ddp.py                                               on all hosts

--backend gloo, which is taken without it, sends by TCP: GLOO_SOCKET_IFNAME=ib0 makes that go over IPoIB. With
--backend softib it goes over the HCAs; the module softib_torch must be found (PYTHONPATH=build/release/python).

Each rank sees its own part of the data; after each step all hold the same weights. Prints the loss of each epoch; the
exit status is 0 if the loss went down and the weights of all ranks are equal. With --compare, rank 0 trains once more
alone, with the batches of all ranks as one, and the losses must be the same but for rounding.
"""

import argparse
import datetime
import os
import sys

try:
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
except ImportError as missing:
    sys.exit(f"train_ddp.py: {missing}; on Debian: apt install python3-torch")


def samples(rank, count):
    """Points in [-1, 1]^8 and whether they lie inside a curved surface: each rank draws its own."""
    generator = torch.Generator().manual_seed(1000 + rank)
    points = torch.rand(count, 8, generator=generator) * 2 - 1
    inside = (points.pow(2).sum(dim=1) < 8 / 3).to(points.dtype).unsqueeze(1)
    return points, inside


def network():
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 1))


def mean_over_ranks(value):
    total = torch.tensor([value])
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train(model, points, inside, epochs, batch, alone=False):
    """The mean loss over all ranks, after each epoch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    loss_of = torch.nn.BCEWithLogitsLoss()
    losses = []
    for epoch in range(epochs):
        total = 0.0
        for at in range(0, len(points), batch):
            optimizer.zero_grad()
            loss = loss_of(model(points[at:at + batch]), inside[at:at + batch])
            loss.backward()  # the gradients' mean over all ranks is taken in here
            optimizer.step()
            total += loss.item() * batch / len(points)
        losses.append(total if alone else mean_over_ranks(total))
        if dist.get_rank() == 0 and not alone:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}", flush=True)
    return losses


def losses_alone(ranks, count, epochs, batch):
    """What one process has with the same data, in batches of all ranks' together."""
    parts = [samples(rank, count) for rank in range(ranks)]
    cut = [[tensor.split(batch) for tensor in part] for part in parts]
    points, inside = (torch.cat([part[which][at] for at in range(len(cut[0][0])) for part in cut]) for which in (0, 1))
    torch.manual_seed(0)
    return train(network(), points, inside, epochs, batch * ranks, alone=True)


def weights_are_equal(model):
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    all_weights = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(all_weights, mine)
    return all(torch.equal(mine, other) for other in all_weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--samples", type=int, default=4096, help="of each rank")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--backend", choices=("gloo", "softib"), default="gloo")
    parser.add_argument("--compare", action="store_true", help="with one process that has all of the data")
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    if arguments.backend == "softib":
        import softib_torch  # registers the backend
    torch.set_default_dtype(torch.float64)  # so that rounding doesn't hide anything
    dist.init_process_group(arguments.backend, timeout=datetime.timedelta(seconds=60))
    torch.manual_seed(dist.get_rank())  # DDP gives rank 0's first weights to all
    model = DistributedDataParallel(network())
    points, inside = samples(dist.get_rank(), arguments.samples)
    losses = train(model, points, inside, arguments.epochs, arguments.batch)
    equal = weights_are_equal(model)
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, weights of {dist.get_world_size()} ranks "
              f"{'equal' if equal else 'DIFFERENT'}", flush=True)
    if arguments.compare and dist.get_rank() == 0:
        alone = losses_alone(dist.get_world_size(), arguments.samples, arguments.epochs, arguments.batch)
        apart = max(abs(one - other) / other for one, other in zip(losses, alone))
        equal = equal and apart < 1e-9
        print(f"one process: loss {alone[0]:.4f} -> {alone[-1]:.4f}, largest relative difference {apart:.1e}: "
              f"{'equal' if apart < 1e-9 else 'DIFFERENT'}", flush=True)
    dist.barrier()
    return 0 if equal and losses[-1] < losses[0] else 1


if __name__ == "__main__":
    status = main()
    # Not by the ordinary way out: gloo's threads may give back a tensor, for which they need the interpreter, while the
    # interpreter waits for them to end (PyTorch 1.13).
    os._exit(status)

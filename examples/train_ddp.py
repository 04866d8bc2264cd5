#!/usr/bin/env python3
"""Data-parallel training over several hosts: PyTorch's DistributedDataParallel with the gloo backend.

    MASTER_ADDR=host0-ib0 MASTER_PORT=29500 WORLD_SIZE=2 RANK=0 train_ddp.py     on host0
    MASTER_ADDR=host0-ib0 MASTER_PORT=29500 WORLD_SIZE=2 RANK=1 train_ddp.py     on host1

GLOO_SOCKET_IFNAME=ib0 makes gloo's own connections go over IPoIB. Each rank sees its own part of the data; after each
step all hold the same weights. Prints the loss of each epoch; the exit status is 0 if the loss went down and the
weights of all ranks are equal.
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
    inside = (points.pow(2).sum(dim=1) < 8 / 3).float().unsqueeze(1)
    return points, inside


def network():
    return torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.ReLU(),
                               torch.nn.Linear(64, 1))


def mean_over_ranks(value):
    total = torch.tensor([value])
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def train(model, points, inside, epochs, batch):
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
        losses.append(mean_over_ranks(total))
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {losses[-1]:.4f}", flush=True)
    return losses


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
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
    torch.manual_seed(dist.get_rank())  # DDP gives rank 0's first weights to all
    model = DistributedDataParallel(network())
    points, inside = samples(dist.get_rank(), arguments.samples)
    losses = train(model, points, inside, arguments.epochs, arguments.batch)
    equal = weights_are_equal(model)
    if dist.get_rank() == 0:
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}, weights of {dist.get_world_size()} ranks "
              f"{'equal' if equal else 'DIFFERENT'}", flush=True)
    dist.barrier()
    return 0 if equal and losses[-1] < losses[0] else 1


if __name__ == "__main__":
    status = main()
    # Not by the ordinary way out: gloo's threads may give back a tensor, for which they need the interpreter, while the
    # interpreter waits for them to end (PyTorch 1.13).
    os._exit(status)

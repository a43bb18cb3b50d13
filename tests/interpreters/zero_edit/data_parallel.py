"""Train with DistributedDataParallel: ranks of torchrun, or two processes of its own."""

import os

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel


def train(rank: int, port: str) -> None:
    if port:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        distributed.init_process_group("gloo", rank=rank, world_size=2)
    else:
        distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    while True:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(16, 8)), torch.randint(3, (16,))).backward()
        optimizer.step()


if __name__ == "__main__":
    if "RANK" in os.environ:
        train(int(os.environ["RANK"]), "")
    else:
        import socket

        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        torch.multiprocessing.spawn(train, (port,), nprocs=2)

"""The nets of models.rs in PyTorch: bare, DataParallel and DistributedDataParallel. Prints rows as JSON."""

import argparse
import json
import os
import time

import torch
from torch import nn

CLASSES, VOCABULARY = 10, 1000


class Layers(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


class Conv(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.hidden = nn.Linear(2 * width * 14 * 14, 128)
        self.head = nn.Linear(128, CLASSES)

    def forward(self, x):
        x = torch.relu(self.conv1(x.view(-1, 1, 28, 28)))
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.head(torch.relu(self.hidden(x.flatten(1))))


class Transformer(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(self.embedding(x.long())).mean(1))


def make(args, device):
    torch.manual_seed(1)
    if args.model in ("mlp", "tiny"):
        net = Layers(args.width, args.layers)
    elif args.model == "conv":
        net = Conv(args.width)
    else:
        net = Transformer(args.width, args.layers)
    return net.to(device)


def batch(args, rows, device):
    x = torch.rand(rows, args.input, device=device) * (VOCABULARY - 1) if args.model == "transformer" else torch.randn(rows, args.input, device=device)
    return x, torch.randint(0, CLASSES, (rows,), device=device)


def sync(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def run(args, name, net, replicas, rows, device, barrier=lambda: None):
    x, y = batch(args, rows, device)
    optim = torch.optim.Adam(net.parameters(), lr=1e-4)
    loss_fn = nn.CrossEntropyLoss()

    def step():
        optim.zero_grad(set_to_none=True)
        loss_fn(net(x), y).backward()
        optim.step()

    started = time.perf_counter()
    step()
    sync(device)
    first = time.perf_counter() - started
    for _ in range(4):
        step()
    rounds = []
    for _ in range(args.rounds):
        sync(device)
        barrier()
        started = time.perf_counter()
        for _ in range(args.steps):
            step()
        sync(device)
        rounds.append((time.perf_counter() - started) * 1e3 / args.steps)
    memory = torch.cuda.max_memory_reserved(device) if device.type == "cuda" else None
    return dict(name=name, replicas=replicas, samples=rows * (replicas if name.endswith("DDP") else 1), first_step_seconds=first, rounds=rounds, memory=[memory] if memory else [])


def ddp(rank, args, ordinals, queue):
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29512")
    device = torch.device("cuda", ordinals[rank])
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", rank=rank, world_size=len(ordinals))
    net = nn.parallel.DistributedDataParallel(make(args, device), device_ids=[device])
    rows = args.batch if args.weak else args.batch // len(ordinals)
    row = run(args, "PyTorch DDP", net, len(ordinals), rows, device, dist.barrier)
    if rank == 0:
        queue.put(row)
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    for name in ("batch", "width", "layers", "input", "rounds", "steps"):
        parser.add_argument("--" + name, type=int)
    parser.add_argument("--model")
    parser.add_argument("--devices")
    parser.add_argument("--weak", action="store_true")
    args = parser.parse_args()
    if args.devices == "cpu":
        device = torch.device("cpu")
        print(json.dumps([run(args, "PyTorch bare", make(args, device), 1, args.batch, device)]))
        return
    ordinals = [int(ordinal) for ordinal in args.devices.split(",")]
    device = torch.device("cuda", ordinals[0])
    rows = [run(args, "PyTorch bare", make(args, device), 1, args.batch, device)]
    count = len(ordinals)
    net = nn.DataParallel(make(args, device), device_ids=ordinals)
    rows.append(run(args, "PyTorch DataParallel", net, count, args.batch * (count if args.weak else 1), device))
    if count > 1:
        import torch.multiprocessing as mp

        queue = mp.get_context("spawn").SimpleQueue()
        mp.spawn(ddp, args=(args, ordinals, queue), nprocs=count)
        rows.append(queue.get())
    print(json.dumps(rows))


if __name__ == "__main__":
    main()

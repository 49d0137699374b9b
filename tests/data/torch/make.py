"""Writes the files of this folder: weights as PyTorch saves them, and what the net gives. Run with torch 2."""

import json
import pathlib

import torch
from torch import nn


class Net(nn.Module):
    """`Normed` of the tests."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


torch.manual_seed(1)
net = Net()
for _ in range(3):  # so that running statistics are not those of a new net
    net(torch.randn(16, 3) * 2 + 1)
net.eval()
inputs = torch.randn(5, 3)
folder = pathlib.Path(__file__).parent
torch.save(net.state_dict(), folder / "net.pt")
torch.save(nn.DataParallel(net).state_dict(), folder / "data_parallel.pt")  # run without a GPU: it would move the net there
expected = {"torch": torch.__version__, "inputs": inputs.tolist(), "outputs": net(inputs).tolist()}
(folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")

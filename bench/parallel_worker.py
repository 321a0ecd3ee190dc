"""What a worker of `bench.parallel` does: `python -m bench.parallel_worker CASE`; JSON at the end.

The model is a GPT of 10.8 million parameters, on 8 rows of 64 tokens a step.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import chainrule as cr
from bench.pairs import seconds
from chainrule import optim, parallel
from chainrule.models.config import GPTConfig
from chainrule.models.gpt import GPT, generator_draw
from chainrule.parallel import tree
from chainrule.parallel.gradients import Layout

RUNS = {16 << 10: 200, 4 << 20: 60, 64 << 20: 12}
"""How often arrays of so many bytes are exchanged."""
LAYERS, HEADS, CHANNELS, VOCABULARY, ROWS, LENGTH = 6, 6, 384, 65, 8, 64
Times = dict[str, list[float]]


def turns(group: Any, programs: dict[str, Callable[[], Any]], runs: int) -> dict[str, Any]:
    """Least and median milliseconds of programs that take turns, all workers beginning at once."""
    times: Times = {name: [] for name in programs}
    for run in range(runs + 1):
        for name, f in programs.items():
            group.barrier()
            took = seconds(f)
            if run:
                times[name].append(1e3 * took)
    return {name: [min(t), statistics.median(t)] for name, t in times.items()}


def exchange() -> Any:
    """Our tree and gloo's all-reduce, of the same bytes."""
    with parallel.group() as group:
        wire: Any = group._wire
        found: dict[str, Any] = {}
        for size in RUNS:
            x = np.ones(size // 4, np.float32)
            shared = wire._share(x)
            call = group._call("bench")

            def ours(x: Any = x, call: Any = call) -> None:
                tree.reduce(wire, [x], np.add, call.digest, ValueError)

            def gloo(shared: Any = shared) -> None:
                wire._group.allreduce([shared]).wait()

            found[str(size)] = turns(group, {"ours": ours, "gloo": gloo}, RUNS[size])
        return found


def fresh() -> tuple[GPT, Any, Any]:
    """The model, and a batch."""
    config = GPTConfig.gpt2(
        VOCABULARY, block_size=LENGTH, n_layer=LAYERS, n_head=HEADS, n_embd=CHANNELS
    )
    model = GPT(config, draw=generator_draw(cr.Generator(1)))
    rng = np.random.default_rng(2)
    tokens = rng.integers(0, VOCABULARY, (ROWS, LENGTH + 1))
    return model, tokens[:, :-1].copy(), tokens[:, 1:].copy()


def our_step(group: Any) -> tuple[Callable[[], Any], Any]:
    """A step of this worker's part; compiled but for the exchange."""
    model, tokens, targets = fresh()
    optimizer = optim.AdamW(model.parameters(), lr=3e-4)

    def gradients(tokens: Any, targets: Any) -> Any:
        loss = model.loss(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        return loss

    compiled, update = cr.jit(gradients), cr.jit(optimizer.step)
    mine = group.shard((tokens, targets))

    def step() -> float:
        loss = compiled(*mine)
        mean = group.average_gradients(model, weight=mine[0].size, loss=loss)
        update()
        return mean

    return step, model


def alone() -> Any:
    """A step of the whole batch, and how long one takes; the median of the lower half."""
    with parallel.group() as group:
        step, _ = our_step(group)
        step()
        times = sorted([seconds(step) for _ in range(8)])
        return 1e3 * statistics.median(times[:4])


def nothing() -> Any:
    """What a group of one costs: `average_gradients` in it, beside a step."""
    with parallel.group() as group:
        step, model = our_step(group)
        step()
        whole = min([seconds(step) for _ in range(5)])

        def average() -> float:
            return group.average_gradients(model, weight=512)

        call = min([seconds(average) for _ in range(1000)])
        return [1e3 * whole, 1e3 * call]


def torch_model(model: GPT) -> Any:
    """PyTorch's module with the weights of `model`; called with tokens and targets, its loss."""
    import torch

    from bench.compiled.gpt_peers import torch_loss

    names = {n.replace(".", "-"): n for n in model.state_dict()}

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, ours in names.items():
                w = torch.tensor(model.state_dict()[ours].numpy().copy())
                self.register_parameter(name, torch.nn.Parameter(w))

        def forward(self, x: Any, y: Any) -> Any:
            w = {names[name]: p for name, p in self.named_parameters()}
            return torch_loss(w, x, y, LAYERS, HEADS)

    return Whole()


def torch_step(group: Any, model: GPT) -> Callable[[], float]:
    """A step of this worker's part by PyTorch with DistributedDataParallel."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    from bench.compiled.gpt_peers import BETAS, DECAY, RATE

    _, tokens, targets = fresh()
    mine = group.shard((torch.tensor(tokens), torch.tensor(targets)))
    store = dist.FileStore(os.environ["CHAINRULE_PARALLEL_STORE"][5:] + "-ddp", group.size)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=store, rank=group.rank, world_size=group.size)
    ddp = DistributedDataParallel(torch_model(model))
    adam = torch.optim.AdamW(ddp.parameters(), lr=RATE, betas=BETAS, weight_decay=DECAY, fused=True)

    def step() -> float:
        loss = ddp(*mine)
        adam.zero_grad()
        loss.backward()
        adam.step()
        return loss.item()

    return step


def exchange_of(group: Any, model: GPT) -> dict[str, Any]:
    """The bytes of the gradients' sums, and how long our tree and gloo take to exchange them."""
    layout = Layout(dict(model.named_parameters()))
    sums = [np.zeros(n, d) for d, n in layout.sizes.items()]
    wire: Any = group._wire
    call = group._call("bench")

    def ours() -> None:
        tree.reduce(wire, sums, np.add, call.digest, ValueError)

    def gloo() -> None:
        wire._group.allreduce([wire._share(sums[0])]).wait()

    size = int(sum([s.nbytes for s in sums]))
    return {"bytes": size, "exchange": turns(group, {"ours": ours, "gloo": gloo}, 8)}


def peers() -> Any:
    """Steps of ours, and of PyTorch with DistributedDataParallel, on the same weights."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    with parallel.group() as group:
        step, model = our_step(group)
        theirs = torch_step(group, model)
        first = step(), theirs()
        found = turns(group, {"ours": step, "DDP": theirs}, 12)
        found |= exchange_of(group, model)
        dist.destroy_process_group()
        return {**found, "losses": first}


if __name__ == "__main__":
    said = globals()[sys.argv[1]]()
    if os.environ.get("CHAINRULE_PARALLEL_RANK", "0") == "0":
        print(json.dumps(said), flush=True)

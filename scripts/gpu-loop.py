"""A loop on one GPU, to be recorded, measured and predicted: scripts/gpu-loop.py KIND N [OPTION...]

KIND: gpt, dlrm (the steps of scripts/gpu-loop-KIND.yaml), small (a GPT of seconds);
  tiny (a launch), step (14 kernels), graph (four steps, captured), events (a step, and a wait between two streams),
  threads (steps by ten threads), allreduce (NCCL's, ranks by torchrun's environment).
N: iterations, or with --seconds as many as fit.
  --profile FILE   under torch.profiler, whose trace goes to FILE
  --within         torch.profiler is used for 20 steps before the loop
  --fork           a child is forked before the loop
  --account FILE   FILE gets lines "monotonic_ns launches" of what has ended on the GPU
  --end exit|kill  the process ends without its handlers
  --dry            on the CPU, with small shapes
One line of JSON comes out: the time of an iteration (of training median and least), how many there were.

scripts/gpu-loop.py --names OURS.csv PROFILE.json: whether both have the same kernels as often, by name; what differs comes out.
"""
import argparse
import collections
import csv
import ctypes
import json
import os
import signal
import statistics
import sys
import threading
import time


def demangle(name):
    """As torch.profiler does: by the C++ library."""
    if not name.startswith("_Z"):
        return name
    function = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    function.restype = ctypes.c_char_p
    return (function(name.encode(), None, None, None) or name.encode()).decode()


def compare_names(ours, profile):
    with open(ours, newline="") as f:
        rows = [row for row in csv.DictReader(f) if row["class"] == "kernel"]
    with open(profile) as f:
        theirs = [e for e in json.load(f)["traceEvents"] if e.get("cat") == "kernel"]
    a, b = collections.Counter(), collections.Counter()
    for name, n in collections.Counter(row["name"] for row in rows).items():
        a[demangle(name)] += n
    for name, n in collections.Counter(e["name"] for e in theirs).items():
        b[demangle(name)] += n
    for name in sorted(a.keys() | b.keys()):
        if a[name] != b[name]:
            print(f"    recorded {a[name]}, profiled {b[name]}: {name[:100]}")
    us = [sum(float(row["dur_ns"]) for row in rows) / 1e3, sum(float(e["dur"]) for e in theirs)]
    print(f"kernels={sum(a.values())} names={len(a)} us={us[0]:.0f}, torch.profiler: {sum(b.values())}, {len(b)}, {us[1]:.0f}")
    return bool(a) and a == b and 0.95 * us[1] < us[0] < 1.05 * us[1]


def parse():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind")
    p.add_argument("n", type=int)
    p.add_argument("--seconds", type=float)
    p.add_argument("--profile")
    p.add_argument("--within", action="store_true")
    p.add_argument("--fork", action="store_true")
    p.add_argument("--account")
    p.add_argument("--end", choices=["exit", "kill"])
    p.add_argument("--dry", action="store_true")
    return p.parse_args()


if sys.argv[1:2] == ["--names"]:
    sys.exit(0 if compare_names(*sys.argv[2:4]) else 1)
args = parse()

import torch  # noqa: E402 (after the options, which need none)
from torch.nn import functional as F  # noqa: E402

DEVICE = "cpu" if args.dry else "cuda"
if args.dry:
    torch.set_num_threads(1)


def synchronize():
    if not args.dry:
        torch.cuda.synchronize()


def nvtx(name=None):
    """Begins a range, or ends it; a torch without CUDA has none."""
    try:
        torch.cuda.nvtx.range_push(name) if name else torch.cuda.nvtx.range_pop()
    except RuntimeError:
        pass


class Block(torch.nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(hidden), torch.nn.LayerNorm(hidden)
        self.qkv, self.out = torch.nn.Linear(hidden, 3 * hidden), torch.nn.Linear(hidden, hidden)
        self.up, self.down = torch.nn.Linear(hidden, 4 * hidden), torch.nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, seq, hidden = x.shape
        q, k, v = (t.view(batch, seq, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, seq, hidden))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def make_gpt(layers, hidden, heads, seq, vocab, batch):
    with torch.device(DEVICE):  # made there: the host would take seconds
        model = torch.nn.Sequential(
            torch.nn.Embedding(vocab, hidden), *[Block(hidden, heads) for _ in range(layers)],
            torch.nn.LayerNorm(hidden), torch.nn.Linear(hidden, vocab, bias=False))
        tokens = torch.randint(vocab, (batch, seq + 1))

    def loss():
        with torch.autocast(DEVICE, torch.bfloat16):
            return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    return model, loss, [torch.optim.AdamW(model.parameters(), fused=True)]


def zipf_ids(n, rows, exponent):
    """By the inverse of the bounded power law; the most frequent rows come first."""
    u = torch.rand(n, device=DEVICE, dtype=torch.float64)
    rank = ((u * (rows ** (1 - exponent) - 1) + 1) ** (1 / (1 - exponent))).long()
    return rank.clamp_(1, rows) - 1


class Dlrm(torch.nn.Module):
    def __init__(self, n_tables, rows, dim):
        super().__init__()
        self.tables = torch.nn.ModuleList(
            torch.nn.EmbeddingBag(rows, dim, mode="sum", sparse=True) for _ in range(n_tables))

        def mlp(*dims):
            pairs = zip(dims, dims[1:])
            return torch.nn.Sequential(*[x for a, b in pairs for x in (torch.nn.Linear(a, b), torch.nn.ReLU())])

        self.bottom = mlp(13, 512, 256, dim)
        self.top = mlp(dim + n_tables * (n_tables + 1) // 2, 1024, 1024, 512, 256)
        self.last = torch.nn.Linear(256, 1)
        self.below = torch.tril_indices(n_tables + 1, n_tables + 1, -1)

    def forward(self, dense, ids, offsets):
        x = self.bottom(dense)
        t = torch.stack([x] + [table(i, offsets) for table, i in zip(self.tables, ids)], 1)
        pairs = torch.bmm(t, t.transpose(1, 2))[:, self.below[0], self.below[1]]
        return self.last(self.top(torch.cat([x, pairs], 1))).squeeze(1)


def make_dlrm(n_tables, rows, dim, pooling, batch):
    with torch.device(DEVICE):
        model = Dlrm(n_tables, rows, dim)
        dense, labels = torch.randn(batch, 13), torch.rand(batch).round()
        offsets = torch.arange(0, batch * pooling, pooling)
    ids = [zipf_ids(batch * pooling, rows, 1.05) for _ in range(n_tables)]
    sparse = list(model.tables.parameters())
    others = [p for name, p in model.named_parameters() if not name.startswith("tables.")]

    def loss():
        return F.binary_cross_entropy_with_logits(model(dense, ids, offsets), labels)

    return model, loss, [torch.optim.SGD(sparse, lr=0.01), torch.optim.SGD(others, lr=0.01)]


TRAINING = {
    "gpt": lambda: make_gpt(12, 2048, 16, 1024, 50304, 8),
    "small": lambda: make_gpt(4, 512, 8, 256, 4096, 8),
    "dlrm": lambda: make_dlrm(26, 2_000_000, 128, 10, 8192),
}
if args.dry:
    TRAINING.update(dict.fromkeys(["gpt", "small"], lambda: make_gpt(2, 32, 2, 16, 64, 2)),
                    dlrm=lambda: make_dlrm(2, 100, 8, 3, 8))


def train():
    model, loss_of, optimizers = TRAINING[args.kind]()
    ms = []

    def run(count):
        for _ in range(count):
            nvtx("iteration")
            begin = time.perf_counter()
            loss = loss_of()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            value = loss.item()  # waits for the GPU
            nvtx()
            ms.append((time.perf_counter() - begin) * 1e3)
        return value

    run(3)
    ms.clear()
    loss = run(args.n)
    return {"median_ms": round(statistics.median(ms), 3), "min_ms": round(min(ms), 3), "loss": round(loss, 4),
            "parameters": sum(p.numel() for p in model.parameters()),
            "peak_gib": 0 if args.dry else round(torch.cuda.max_memory_allocated() / 2**30, 2)}


def make_launches():
    side = 64 if args.dry else 2048
    x = torch.ones(64, device=DEVICE)
    dtype = torch.float32 if args.dry else torch.float16
    weights = [torch.randn(side, side, device=DEVICE, dtype=dtype) for _ in range(8)]

    def step():
        y = weights[0]
        for w in weights[1:]:
            y = torch.relu(y @ w)

    def events():
        event = torch.cuda.Event()
        step()
        event.record()
        stream.wait_event(event)
        with torch.cuda.stream(stream):
            x.add_(1)

    def four():
        for _ in range(4):
            step()

    for _ in range(20):
        step()
        x.add_(1)
    synchronize()
    if args.kind == "events" and not args.dry:
        stream = torch.cuda.Stream()
        return events
    if args.kind == "graph" and not args.dry:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            four()
        return graph.replay
    if args.kind == "allreduce":
        torch.distributed.init_process_group("gloo" if args.dry else "nccl")
        large = torch.ones(1 << 20, device=DEVICE)
        return lambda: torch.distributed.all_reduce(large)
    return (lambda: x.add_(1)) if args.kind == "tiny" else step


def launch():
    work = make_launches()
    account = open(args.account, "w") if args.account else None
    if args.within:
        with torch.profiler.profile():
            for _ in range(20):
                work()
            synchronize()
    if args.fork:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
    done = 0
    begin = time.perf_counter()
    if args.kind == "threads":
        each = [threading.Thread(target=lambda: [work() for _ in range(args.n // 10)]) for _ in range(10)]
        for t in each:
            t.start()
        for t in each:
            t.join()
        done = args.n // 10 * 10
    while time.perf_counter() - begin < args.seconds if args.seconds else done < args.n:
        if done % 100 == 0:
            nvtx("iteration")
        work()
        done += 1
        if done % 100 == 0:
            nvtx()
        if account and done % 1000 == 0:
            synchronize()
            account.write(f"{time.monotonic_ns()} {done}\n")
            account.flush()
    synchronize()
    return {"ns": round((time.perf_counter() - begin) / max(done, 1) * 1e9), "launches": done}


def main():
    torch.manual_seed(0)
    go = train if args.kind in TRAINING else launch
    if args.profile:
        from torch.profiler import ProfilerActivity, profile
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            result = go()
        profiler.export_chrome_trace(args.profile)
    else:
        result = go()
    print(json.dumps({"kind": args.kind, **result}), flush=True)
    if args.end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if args.end == "exit":
        os._exit(0)
    if args.kind == "allreduce":
        torch.distributed.destroy_process_group()


main()

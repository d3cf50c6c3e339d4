"""Times kernels on one GPU as tables that `stepcast fit` reads, KIND.csv each: scripts/gpu-bench.py FOLDER [--seconds S] [--dry]

Each kind has a share of S (default: 100); shapes are drawn at random, so that a table that was cut short still spans its range.
A burst is the median of single calls, with the L2 emptied before each and the queue of launches full; sustained is a loop of a
second. --dry: on the CPU, with small shapes: the tables' form, not their times.
"""
import argparse
import csv
import math
import os
import random
import statistics
import time

import torch
from torch.nn import functional as F

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder")
parser.add_argument("--seconds", type=float, default=100)
parser.add_argument("--dry", action="store_true")
args = parser.parse_args()
DRY = args.dry
DRY_SLOWNESS = 30  # of a CPU: fit refuses a table whose times are a hundred times those of the device
DEVICE = "cpu" if DRY else "cuda"
BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
if DRY:
    torch.set_num_threads(1)
NAME = "h200-sxm-141gb" if not DRY and "H200" in torch.cuda.get_device_name() else "h100-sxm-80gb"
BEGIN = time.monotonic()
failed = []
flush = torch.empty(1 if DRY else 64 << 20, device=DEVICE)


def synchronize():
    if not DRY:
        torch.cuda.synchronize()


def burst(call, repeats=7):
    call()
    call()
    synchronize()
    if DRY:
        times = []
        for _ in range(5):
            begin = time.perf_counter()
            call()
            times.append((time.perf_counter() - begin) * 1e6)
        return min(times) / DRY_SLOWNESS
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    torch.cuda._sleep(400_000)  # cycles, while the host gets ahead
    for begin, end in events:
        flush.zero_()
        begin.record()
        call()
        end.record()
    synchronize()
    return statistics.median(begin.elapsed_time(end) * 1e3 for begin, end in events)


def sustained(call):
    synchronize()
    n, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < (0.01 if DRY else 1):
        for _ in range(20):
            call()
        synchronize()
        n += 20
    return (time.perf_counter() - begin) / n * 1e6


def table(kind, columns, share, rows):
    """Writes what rows() yields until the kinds up to this one have had their share of the time; what one cannot do is said,
    and the others go on."""
    try:
        n = write(kind, columns, share, rows)
    except RuntimeError as e:
        failed.append(kind)
        print(f"{kind}: {str(e).splitlines()[0]}", flush=True)
    else:
        print(f"{kind}: {n} rows, {time.monotonic() - BEGIN:.0f} s", flush=True)


def write(kind, columns, share, rows):
    n = 0
    with open(os.path.join(args.folder, kind + ".csv"), "w", newline="") as f:
        out = csv.writer(f)
        out.writerow(columns.split() + ["time_us", "source", "device"])
        for *row, us in rows():
            out.writerow(row + [f"{us:.3f}", "gpu-bench", NAME])
            f.flush()  # of what is stopped, too
            n += 1
            if time.monotonic() - BEGIN > args.seconds * share:
                break
    return n


def randn(*shape, dtype=BF16, grad=False):
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=grad)


def drawn(*axes, most=60):
    """Points of the grid of these axes in random order; in a dry run some."""
    points = [[]]
    for axis in axes:
        points = [p + [value] for p in points for value in axis]
    random.shuffle(points)
    return points[:most] if DRY else points


def gemms():
    """A shape's fp8 and sustained times are beside its bf16 burst, so that their ratio is of the same shape."""
    first = [(4096,) * 3, (8192,) * 3, (2048, 12288, 4096), (16384, 1024, 1024)]
    low, high = (6, 8) if DRY else (6, 14)
    has_fp8 = not DRY
    i = 0
    while not DRY or i < 40:
        m, n, k = [round(2 ** random.uniform(low, high) / 64) * 64 for _ in range(3)]
        if i < len(first) and not DRY:
            m, n, k = first[i]
        i += 1
        if 2 * m * n * k > 2.3e12:
            continue
        a, w = randn(m, k), randn(n, k)
        yield m, n, k, "bf16", "fwd", "burst", burst(lambda: F.linear(a, w))
        if i % 4 == 1:
            g = randn(m, n)
            yield m, n, k, "bf16", "bwd", "burst", burst(lambda: (g @ w, g.t() @ a))
        if i % 3 == 1 and has_fp8:
            one, a8, w8 = torch.ones((), device=DEVICE), a.to(FP8), w.to(FP8).t()

            def fp8():
                torch._scaled_mm(a8, w8, scale_a=one, scale_b=one, out_dtype=BF16, use_fast_accum=True)

            try:
                us = burst(fp8), sustained(fp8) if i % 24 == 1 else None
            except RuntimeError as e:
                has_fp8 = False
                print(f"gemm: no fp8: {str(e).splitlines()[0]}", flush=True)
                continue
            yield m, n, k, "fp8", "fwd", "burst", us[0]
            if us[1]:
                yield m, n, k, "fp8", "fwd", "sustained", us[1]
        if i % 12 == 1:
            yield m, n, k, "bf16", "fwd", "sustained", sustained(lambda: F.linear(a, w))


def attentions():
    lengths = [16, 32] if DRY else [512, 1024, 2048, 4096, 8192]
    for seq, (batch, heads), dim, causal in drawn(
            lengths, [(1, 16), (4, 32), (2, 64)], [64, 128], [True, False]):
        if batch * heads * seq * seq > 3e9:
            continue
        q, k, v = (randn(batch, heads, seq, dim, grad=True) for _ in range(3))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        g = torch.randn_like(y)
        shape = batch, heads, seq, dim, str(causal).lower(), "bf16"
        with torch.no_grad():
            yield *shape, "fwd", burst(lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal))
        yield *shape, "bwd", burst(lambda: torch.autograd.grad(y, (q, k, v), g, retain_graph=True))


def decodes():
    lengths = [32, 64, 128] if DRY else [512, 2048, 8192, 32768]
    for batch, kv_len, (heads, kv_heads), dim in drawn(
            [1, 2, 4] if DRY else [1, 8, 32, 128], lengths, [(32, 32), (32, 8), (64, 8)], [64, 128], most=30):
        if batch * kv_len * kv_heads * dim > 1e9:
            continue
        q = randn(batch, heads, 1, dim)
        k, v = (randn(batch, kv_heads, kv_len, dim) for _ in range(2))
        yield batch, heads, kv_heads, kv_len, dim, "bf16", burst(
            lambda: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))


def rowwises():
    """The shape of the profile's open question comes first: norms of 16,384 x 4,096."""
    grid = drawn([32, 64, 128] if DRY else [1024, 4096, 16384, 65536], [64, 128] if DRY else [1024, 4096, 8192, 16384])
    for rows, cols in ([] if DRY else [[16384, 4096]]) + [p for p in grid if p != [16384, 4096]]:
        if rows * cols > 5e8:
            continue
        x, z = randn(rows, cols, grad=True), randn(rows, cols)
        w, b = (torch.ones(cols, device=DEVICE, dtype=BF16, requires_grad=True) for _ in range(2))
        for op, call, leaves in (
                ("layernorm", lambda: F.layer_norm(x, (cols,), w, b), (x, w, b)),
                ("rmsnorm", lambda: F.rms_norm(x, (cols,), w), (x, w)),
                ("gelu", lambda: F.gelu(x), (x,)),
                ("softmax", lambda: F.softmax(x, -1), (x,)),
                ("add", lambda: x + z, ())):
            with torch.no_grad():
                yield op, rows, cols, "fwd", "bf16", burst(call)
            if leaves:
                y = call()
                yield op, rows, cols, "bwd", "bf16", burst(
                    lambda: torch.autograd.grad(y, leaves, z, retain_graph=True))


def zipf_ids(n, rows, exponent):
    """By the inverse of the bounded power law, spread over the table; exponent 0: uniform."""
    if exponent == 0:
        return torch.randint(rows, (n,), device=DEVICE)
    u = torch.rand(n, device=DEVICE, dtype=torch.float64)
    rank = ((u * (rows ** (1 - exponent) - 1) + 1) ** (1 / (1 - exponent))).long().clamp_(1, rows) - 1
    return (rank * 2654435761 + 97) % rows  # rows is a power of two: each rank has a row of its own


def embeddings():
    for rows, dim, batch, pooling, exponent in drawn(
            [1024] if DRY else [1 << 17, 1 << 20, 1 << 23], [16, 32] if DRY else [32, 64, 128, 256],
            [8, 16] if DRY else [2048, 16384, 65536], [1, 4] if DRY else [1, 10, 50], [0, 1.05, 1.3], most=30):
        if batch * pooling > 4e6:
            continue
        weight = randn(rows, dim, dtype=torch.float32)
        ids, offsets = zipf_ids(batch * pooling, rows, exponent), torch.arange(0, batch * pooling, pooling, device=DEVICE)
        yield 1, rows, dim, batch, pooling, exponent, ids.unique().numel(), "fp32", "fwd", burst(
            lambda: F.embedding_bag(ids, weight, offsets, mode="sum"))


def optimizers():
    """A column bytes would be what one parameter moves, not its size; without it that is the model's."""
    for i in range(24):
        x = torch.nn.Parameter(randn(int(2 ** ((8 if DRY else 16) + i * 13 / 23)), dtype=torch.float32))
        x.grad = torch.randn_like(x)
        yield x.numel(), burst(torch.optim.AdamW([x], fused=True).step)


def hosts():
    x = torch.zeros(64, device=DEVICE)
    for i in range(24):
        n = 100 + 50 * i
        synchronize()
        begin = time.perf_counter()
        for _ in range(n):
            x.add_(1)
        us = (time.perf_counter() - begin) * 1e6
        synchronize()
        yield n, us


random.seed(1)
torch.manual_seed(1)
os.makedirs(args.folder, exist_ok=True)
table("host", "launches", 0.05, hosts)
table("rowwise", "op rows cols pass dtype", 0.15, rowwises)
table("optimizer", "params", 0.20, optimizers)
table("gemm", "m n k dtype pass regime", 0.55, gemms)
table("attention", "batch heads seq head_dim causal dtype pass", 0.72, attentions)
table("attention_decode", "batch heads kv_heads kv_len head_dim dtype", 0.82, decodes)
table("embedding", "tables rows dim batch pooling zipf unique_rows dtype pass", 1, embeddings)
if failed:
    raise SystemExit("failed: " + ", ".join(failed))

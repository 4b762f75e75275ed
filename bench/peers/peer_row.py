"""peer_row.py: result rows of programs that are not stepmark, in the fields of bench/rows/row_fields.h.

What every adapter shares. Needs nothing but Python. A field that is not known is null, as in stepmark's own rows;
statistics of samples are left out, as stepmark fills them in when it reads a row (bench/rows/read_rows.c).
"""

import json
import math
import os
import platform
import resource
import sys
import time

SCHEMA_VERSION = 1
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
ENVIRONMENT_PREFIXES = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "TORCH", "THP_", "LD_PRELOAD")


# --- the protocol's flags -----------------------------------------------------------------------


def add_protocol_flags(parser):
    """The flags that side_by_side.py gives to every peer."""
    parser.add_argument("--weights", required=True, metavar="DIR", help="folder with config.json and model.safetensors")
    parser.add_argument("--data", required=True, metavar="FILE", help="token ids, raw little-endian uint16")
    parser.add_argument("-b", "--batch-size", type=positive, default=4, metavar="B", help="sequences a batch")
    parser.add_argument("--seq-len", type=positive, default=64, metavar="T", help="tokens a sequence")
    parser.add_argument("--precision", default="fp32", choices=PRECISIONS, help="number format")
    parser.add_argument("-t", "--threads", type=positive, metavar="N", help="threads; not given: the peer's own choice")
    parser.add_argument("--device", default="cpu", metavar="NAME", help="as the peer names it, cpu or cuda (default cpu)")
    add_sampling_flags(parser)
    parser.add_argument("--timeout", type=float, default=0, metavar="SECONDS", help="longest time; 0: none")


def add_sampling_flags(parser):
    parser.add_argument("-w", "--warmup", type=natural, default=2, metavar="N", help="untimed steps after the first")
    parser.add_argument("-r", "--repetitions", type=positive, default=7, metavar="N", help="timed steps")


def natural(text):
    value = int(text)
    if value < 0:
        raise ValueError(text)
    return value


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


# --- the machine --------------------------------------------------------------------------------


def keyed_line(path, key):
    """What follows "key:" in a file such as /proc/cpuinfo; None when it is not there."""
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == key:
                    return value.strip()
    except OSError:
        pass
    return None


def kilobytes(path, key):
    value = keyed_line(path, key)
    return None if value is None else int(value.split()[0]) * 1024


def peak_rss_bytes():
    """Largest resident memory since the last reset."""
    return kilobytes("/proc/self/status", "VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def reset_peak_rss():
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # proc(5): sets the peak resident size to the current one
    except OSError:
        pass  # the peak is then since the start


def context(**more):
    """The nested facts, as far as a peer can judge its own figures by them."""
    return {
        "host": platform.node(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": {"name": keyed_line("/proc/cpuinfo", "model name"), "threads_allowed": len(os.sched_getaffinity(0))},
        "load": list(os.getloadavg()),
        "memory_bytes": kilobytes("/proc/meminfo", "MemTotal"),
        "memory_available_bytes": kilobytes("/proc/meminfo", "MemAvailable"),
        "environment": {k: v for k, v in os.environ.items() if k.startswith(ENVIRONMENT_PREFIXES)},
        "argv": sys.argv,
        **more,
    }


# --- rows ---------------------------------------------------------------------------------------


def new_row(backend, B, T, **fields):
    """A row with nothing measured yet. `fields` are names of bench/rows/row_fields.h."""
    return {
        "schema_version": SCHEMA_VERSION,
        "test_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "status": "error",
        "reason": None,
        "stop_reason": None,
        "backend": backend,
        "backend_used": backend,
        "device": "cpu",
        "cpu_info": keyed_line("/proc/cpuinfo", "model name"),
        "pass_type": "step",
        "test": f"step b{B}s{T}",
        "n_batch": B,
        "n_seq": T,
        "n_accum": 1,
        "dropout": 0.0,
        "n_warmup": 0,
        "warmup_ns": 0,
        "samples_ns": [],
        "losses": [],
        "warnings": [],
        **fields,
    }


def fail(row, status, reason):
    row.update(status=status, reason=" ".join(str(reason).split())[:500])


def add_step(row, elapsed_ns, loss, n_warmup):
    """Files a step under what it is by its place: the first, warm-up, or a sample."""
    n_before = len(row["losses"])
    row["losses"].append(loss)
    if n_before == 0:
        row["first_step_ns"] = elapsed_ns
    elif n_before <= n_warmup:
        row["n_warmup"] += 1
        row["warmup_ns"] += elapsed_ns
    else:
        row["samples_ns"].append(elapsed_ns)


def finish(row):
    """No speed is reported for a loss that is not finite."""
    wrong = next((i for i, loss in enumerate(row["losses"]) if not math.isfinite(loss)), None)
    if wrong is not None:
        fail(row, "error", f"the loss of step {wrong + 1} is {row['losses'][wrong]}: no speed for a wrong result")
        row.update(samples_ns=[], losses=row["losses"][:wrong])
    row["loss"] = row["losses"][0] if row["losses"] else None


def write(row, file=sys.stdout):
    print(json.dumps(row, allow_nan=False), file=file, flush=True)


def report_step(step, n_steps, loss, elapsed_ns):
    """A line on stderr a step; the first one tells side_by_side.py that the first step has ended."""
    print(f"step {step}/{n_steps} | loss {loss:.6f} | {elapsed_ns / 1e6:.1f} ms", file=sys.stderr, flush=True)

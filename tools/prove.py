#!/usr/bin/env python3
"""prove.py STEPMARK SLOWED [CLAIM...]: measures the claims of the documents on this machine, all or these, and prints a line
for each; exit code 1 if one does not hold. SLOWED is a build with -DSM_TEST_SLOWDOWN=0.03. AA=200 comparisons of the same,
SLOW=50 with SLOWED, KILLS=10 of a sweep, SIZES="small medium large xl" of models. RUN is what comparisons run; JOBS=1 run
side by side, each on THREADS=2 processors of its own (1 job: all processors). RESULTS keeps what was measured."""
import concurrent.futures
import functools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

STEPMARK, SLOWED, *claims = sys.argv[1:]
JOBS, THREADS = int(os.environ.get("JOBS", 1)), int(os.environ.get("THREADS", 2))
RUN = os.environ.get("RUN", "run -m tiny -b 4 --seq-len 64 --backend cpu --no-peaks")
RESULTS = pathlib.Path(os.environ.get("RESULTS") or tempfile.mkdtemp(prefix="stepmark-prove.", dir="/tmp"))
RESULTS.mkdir(parents=True, exist_ok=True)


def run(line, program=STEPMARK):
    return subprocess.run([program, *line.split()], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def verdicts(program, n, name):
    """Of n comparisons, JOBS at a time."""
    cpus = sorted(os.sched_getaffinity(0))

    def compare(i):
        worker = i % JOBS
        mask = "" if JOBS == 1 else f"-t {THREADS} --cpu-mask " + ",".join(map(str, cpus[worker * THREADS:(worker + 1) * THREADS]))
        done = subprocess.run([STEPMARK, "compare", "--interleaved", f"{STEPMARK} {RUN} {mask}", f"{program} {RUN} {mask}", "-o", "json"],
                              capture_output=True, text=True, check=False)
        (RESULTS / f"{name}-{i}.json").write_text(done.stdout)
        if done.returncode not in (0, 3):
            print(done.stderr[-300:], file=sys.stderr)
        return json.loads(done.stdout or "{}").get("verdict")

    def work(worker):
        return [compare(i) for i in range(worker, n, JOBS)]

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return [verdict for some in pool.map(work, range(JOBS)) for verdict in some]


def same():
    n = int(os.environ.get("AA", 200))
    seen = verdicts(STEPMARK, n, "same")
    wrong = seen.count("slower") + seen.count("faster")
    return (wrong + seen.count("no-difference") == n and 20 * wrong <= n,
            f"A against itself: {wrong} of {n} comparisons saw a difference (at most 5%), {seen.count('no-difference')} saw none")


def slower():
    n = int(os.environ.get("SLOW", 50))
    found = verdicts(SLOWED, n, "slower").count("slower")
    return 10 * found >= 9 * n, f"a slowdown of 3%: {found} of {n} comparisons found it (at least 90%)"


def kill():
    sweep = "run -m tiny -b 1,2,3,4,5 --seq-len 16,32,64 --mode naive,fused --backend cpu --no-peaks -r 20 --order-seed 1 --output-file "
    kills = int(os.environ.get("KILLS", 10))
    paths = [RESULTS / "undisturbed.jsonl", RESULTS / "killed.jsonl"]
    begin = time.monotonic()
    run(f"{sweep}{paths[0]}")
    lasted_s = time.monotonic() - begin
    for _ in range(kills):
        process = subprocess.Popen([STEPMARK, *f"{sweep}{paths[1]} --resume".split()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.random() * lasted_s / kills * 2)
        process.kill()
        process.wait()
    run(f"{sweep}{paths[1]} --resume")
    keys = [sorted(json.loads(line)["sweep_key"] for line in path.read_text().splitlines()) for path in paths]
    equal = keys[0] == keys[1]
    return (equal and len(keys[1]) == 30,
            f"a sweep killed {kills} times has {len(keys[1])} rows, an undisturbed one 30: the sets are {'' if equal else 'not '}equal")


def memory():
    """The estimate against the peak: of the process, or of what is allocated on a device with memory of its own."""
    off = []
    for device in json.loads(run("devices -o json").stdout):
        for size in os.environ.get("SIZES", "small medium large xl").split() if device["available"] and device["device"] != "reference" else []:
            for mode in ("naive", "fused"):
                done = run(f"run -m {size} --mode {mode} --backend {device['device']} -b 1 --seq-len 64 -w 0 -r 1 --no-peaks -o json")
                if done.returncode == 0:
                    [row] = json.loads(done.stdout)
                    estimate, peak = ((row["estimated_rss_bytes"], row["peak_rss_bytes"]) if row["estimated_rss_bytes"] is not None
                                      else (row["estimated_bytes"], row["device_peak_bytes"]))
                    off.append(100 * abs(estimate / peak - 1))
    return off and max(off) <= 5, f"{len(off)} configurations that fit: the estimate is off by {max(off, default=0):.2f}% of the measured peak at most (5%)"


@functools.cache
def step():
    [row] = json.loads(run("run -m small -b 4 --seq-len 64 --backend cpu --no-peaks -o json").stdout)
    return row


def phases():
    wall = step()["attribution_ns"]
    total = sum(ns or 0 for name, ns in step()["phases"].items() if name != "unaccounted_ns")
    return (total <= wall <= total + 0.01 * wall, f"124M, one attribution step: operations take {total} ns of {wall} ns; "
                                                  f"it lasts {step()['attribution_percent']}% longer than a plain one")


def overhead():
    own, median = step()["harness_ns"], step()["median_ns"]
    return own < 0.001 * median, f"124M: sensors, losses and limits take {own} ns a step of {median} ns"


failed = False
for claim in [f for f in (same, slower, kill, memory, phases, overhead) if not claims or f.__name__ in claims]:
    holds, text = claim()
    failed |= not holds
    print(f"{claim.__name__:9} {'holds' if holds else 'FAILS'}: {text}", flush=True)
sys.exit(failed)

#!/usr/bin/env python3
"""program.py PART [STEPMARK]: long tests of the program as users run it; what must hold for any fault stands with each part.
The parts are the functions below; each names the variables that set how much it does."""
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time

os.chdir(pathlib.Path(__file__).resolve().parent.parent.parent)
STEPMARK = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else "build/release/stepmark")
folder = pathlib.Path(tempfile.mkdtemp())
count = {"n": 0, "wrong": 0}


def of(name, default):
    return os.environ.get(name) or default


def judge(what, problem):
    """One more thing that was tried, and what is wrong with it: "" is nothing."""
    count["n"] += 1
    if problem:
        count["wrong"] += 1
        print(f"{what}: {problem}", flush=True)


def run(line, program=STEPMARK, timeout=None, env=None, before=None):
    """Its exit code (124: it did not end in time), what it prints, and what it says."""
    words = [*shlex.split(program), *shlex.split(line)]
    try:
        done = subprocess.run(words, env={**os.environ, **(env or {})}, timeout=timeout, preexec_fn=before, text=True, errors="replace",
                              stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.returncode if done.returncode >= 0 else 128 - done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        return 124, "", f"it did not end within {timeout} s"


def must(line, **how):
    code, out, err = run(line, **how)
    assert code == 0, f"{line}: exit code {code}: {err}"
    return out


def make(*targets):
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    subprocess.run(["make", *targets], env=env, stdout=subprocess.DEVNULL, check=True)


WORK = "run -m tiny -b 1 --seq-len 16 -w 1 --no-peaks"


def drivers():
    """Every OpenCL function that stepmark calls fails, hangs or crashes, at its first call and at later ones: the program
    ends in time, each row has a status and a reason, the cpu's is ok, and the exit code tells whether one failed.
    DRIVERS_CALLS="1 7 40", DRIVERS_ACTIONS="hang crash -5 -6", DRIVERS_FUNCTIONS (all), DRIVERS_TIMEOUT=2"""
    loader = re.search(r"libOpenCL\.so\.1 .*=> (.*)", must("-p", program="ldconfig"))
    line = f"{WORK} -r 3 -o json"
    if not loader or '"device": "opencl:' not in run(line)[1]:  # the driver's own cache is warm then
        return print("drivers: skipped: no OpenCL device")
    make("build/release/tests/shims/libOpenCL.so.1")
    timeout_s = int(of("DRIVERS_TIMEOUT", 2))
    env = {"OMP_WAIT_POLICY": "passive", "STEPMARK_OPENCL": loader[1], "LD_LIBRARY_PATH": "build/release/tests/shims"}
    functions = re.findall(r"^ *X\((cl[A-Za-z]*)\)", pathlib.Path("backends/opencl/program/api.h").read_text(), re.M)

    def told(code, rows, elapsed_s):
        failed = [r for r in rows if r["status"] == "error" or (r["status"] == "timeout" and not r["samples_ns"])]
        if elapsed_s > 2 * timeout_s + 6:  # a hang may be met twice: while devices are looked for, and in the row
            return f"it took {elapsed_s:.1f} s"
        if any(r["status"] not in ("ok", "oom", "timeout", "skipped", "error") or (r["status"] != "ok" and not r["reason"]) for r in rows):
            return f"a row without status or reason: {rows}"
        if [r["status"] for r in rows if r["backend"] == "cpu"] != ["ok"]:
            return "the cpu's row is not ok"
        return f"exit code {code} with {len(failed)} failed rows" if (code != 0) != bool(failed) else ""

    for function, action, call in itertools.product(of("DRIVERS_FUNCTIONS", " ".join(functions)).split(), of("DRIVERS_ACTIONS", "hang crash -5 -6").split(),
                                                    of("DRIVERS_CALLS", "1 7 40").split()):
        fault = f"{function} {action} {call}"
        begin = time.monotonic()
        code, out, err = run(f"{line} --timeout {timeout_s}", timeout=60, env={**env, "STEPMARK_FAULT": fault})
        try:
            judge(fault, told(code, json.loads(out), time.monotonic() - begin))
        except ValueError:
            judge(fault, f"no rows: exit code {code}: {err}")


def limits():
    """Limits on memory, stack, open files and processors, far too many threads, no /proc: the program ends in time, by
    itself, with one of its exit codes, and no message has 0 for what is unknown."""
    line = f"{WORK} -r 2 -o jsonl --timeout 10"

    def check(what, more="", before=None, program=STEPMARK):
        code, out, err = run(f"{line} {more}", program=program, timeout=40, before=before)
        unknown = re.search(r" 0 available|0\.00 GiB available|\"status\": null", out + err)
        judge(f"{what} {more}", f"exit code {code}: {err[-200:]}" if code > 2 else "unknown told as 0" if unknown else "")

    for name, kind, unit, values, more in (("memory", resource.RLIMIT_AS, 1024, (100000, 200000, 400000, 1000000, 4000000), ("", "--backend cpu --mode naive")),
                                           ("stack", resource.RLIMIT_STACK, 1024, (64, 128, 256, 512, 1024), ("--mode naive", "--mode fused", "--mode tuned")),
                                           ("stack", resource.RLIMIT_STACK, 1, (resource.RLIM_INFINITY,), ("--mode naive", "--mode fused", "--mode tuned")),
                                           ("files", resource.RLIMIT_NOFILE, 1, (4, 5, 6, 8, 12, 16, 32), ("",)), ("processes", resource.RLIMIT_NPROC, 1, (1,), ("",))):
        for value, flags in itertools.product(values, more):
            check(f"{name} {value}", flags, lambda which=kind, n=value * unit: resource.setrlimit(which, (n, n)))
    one = lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    for threads in (1, 2, 3, 7, 16, 33, 64, 256, 4096):
        check("all processors", f"--backend cpu -t {threads}")
        check("one processor", f"--backend cpu -t {threads}", one)
    check("one processor", "", one)
    if run("-m true", program="unshare")[0] == 0:
        bare = f"unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$@\"' - {STEPMARK}"
        for backend in ("cpu", "opencl", "reference", "all"):
            check("no /proc", f"--backend {backend}", program=bare)
        code, _, err = run("devices", program=bare, timeout=40)
        judge("no /proc, devices", f"exit code {code}: {err}" if code > 2 else "")


def signals():
    """SIGINT or SIGTERM at a random moment to each subcommand that runs long: it ends within the limit, with exit code 130
    (143: a run in a folder; its own code if it had ended before), and leaves no process and no temporary file.
    SIGNALS_ROUNDS=5 of all subcommands, SIGNALS_LIMIT_MS=2000, SIGNALS_SEED"""
    draw = random.Random(of("SIGNALS_SEED", str(os.getpid())))
    os.chdir(folder)
    rows = must("run -m tiny -b 1 --seq-len 8 -r 3 --no-peaks --backend cpu -o json")
    pathlib.Path("rows.json").write_text(rows)
    must("train --init -m tiny --save model")
    must("exercise residual --init mine")
    source = pathlib.Path("mine/residual.c")
    source.write_text(source.read_text().replace("// Your code.", "for (;;);"))
    pathlib.Path("text").write_text("".join(f"{i}\n" for i in range(2000000)))
    must("tokenize --vocab-size 300 --output tok text")
    pathlib.Path("before").touch()
    for _, line in itertools.product(range(int(of("SIGNALS_ROUNDS", 5))), (
            "devices", "run -m tiny -b 4 --seq-len 64 -r 100000 --no-peaks", "run -m small -b 1 --seq-len 64 -r 100",
            "profile -m tiny -b 4 --seq-len 64 -r 100000 --backend cpu", "advise -m tiny --seq-len 64 --mode fused -r 100000",
            "compare --without all -m tiny -b 4 --seq-len 64 -r 100000 --backend cpu", "devices --peaks --min-time 5",
            "train -m tiny -b 4 --seq-len 64 --steps 1000000 --save out --backend cpu", "verify", "verify --mode tuned",
            "walk -m medium --values", "estimate -m xl", "run -m tiny -b 1,2,4 --seq-len 8,16 -r 100000 --no-peaks",
            "compare --interleaved 'run -m tiny -r 100000' 'run -m tiny -r 100000'", "report rows.json", "train --init -m small --save fresh",
            "loop -m tiny -b 4 --seq-len 64 -r 100000 --no-peaks --loader threads:2",
            "train -m tiny -b 4 --seq-len 64 --steps 1000000 --run run --resume auto --save-every 100 --backend cpu", "page --output step.html",
            "ladder matmul --min-time 5", "exercise residual --check mine/residual.c --timeout 60",
            "tokenize --vocab-size 30000 --output fresh_tok text", "tokenize --tokenizer tok --output data text",
            "generate --weights model --prompt a --tokens 1000000")):
        number = draw.choice((signal.SIGINT, signal.SIGTERM))
        delay_s = draw.choice((draw.uniform(0, 1), draw.uniform(0, 1), draw.uniform(1, 2)))
        with open("out.txt", "w") as out, open("err.txt", "w") as err:
            process = subprocess.Popen([STEPMARK, *shlex.split(line)], stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        time.sleep(delay_s)
        process.send_signal(number)
        begin = time.monotonic()
        code = process.wait()
        ms = 1000 * (time.monotonic() - begin)
        # Before the program catches signals they end it as they end any. A run in a folder says by 143 that it was SIGTERM.
        is_own = code in (0, 1, 3, 130) or (code == 143 and "--run" in line) or (code < 0 and delay_s < 0.1)
        time.sleep(0.1)
        left = [str(path) for path in pathlib.Path().rglob("*.??????") if path.suffix != ".json" and path.stat().st_mtime > os.stat("before").st_mtime]
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 0)
            left.append("a process")
        judge(f"stepmark {line}", f"{ms:.0f} ms after {number.name} at {delay_s:.2f} s" if ms > float(of("SIGNALS_LIMIT_MS", 2000))
              else f"exit code {code}: {pathlib.Path('err.txt').read_text()[-200:]}" if not is_own else f"left {left}" if left else "")


def watched(part, program, lines, env, bad=None):
    """Each line by a program that watches it; what it says is in build/torture/PART."""
    logs = pathlib.Path("build/torture", part)
    logs.mkdir(parents=True, exist_ok=True)
    for n, line in enumerate(lines):
        print("stepmark", line, flush=True)
        code, out, err = run(line, program=f"nice {program}", env=env)
        (logs / f"{n + 1}.txt").write_text(out + err)
        judge(line, f"see {logs}/{n + 1}.txt" if code != 0 or (bad and bad in out + err) else "")


def memcheck():
    """Steps of a tiny model and small ops under valgrind, which finds uses of uninitialised values and accesses out of
    bounds, in the instruction sets that it knows. MAX_ELEMS=2000"""
    lines = [line for isa in ("baseline", "avx2") for line in (
        f"run --keep-env --backend cpu --isa {isa} -t 2 -m tiny -b 2 --seq-len 8 -w 1 -r 1 --mode naive,fused --no-peaks",
        f"verify --keep-env --backend cpu --isa {isa} -t 2 --max-elems {of('MAX_ELEMS', 2000)}")]
    watched("memcheck", f"valgrind -q --error-exitcode=66 --exit-on-first-error=no --num-callers=30 {STEPMARK}", lines,
            {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "2"})


def tsan():
    """ThreadSanitizer, and archer, which knows OpenMP's synchronisation, find no data race in ops and whole steps, in every
    instruction set and format of this processor, in a run and in a training. THREADS=4, ISAS="baseline avx2 avx512\""""
    threads = of("THREADS", "4")
    make("CONFIG=tsan", "build/tsan/stepmark")
    archer = next(itertools.chain(*(pathlib.Path("/usr/lib").glob(where) for where in ("llvm-*/lib/libarcher.so*", "*-linux-gnu/libarcher.so*"))), None)
    assert archer, "tsan: libarcher.so is not there; install libomp-dev"
    work = f"--backend cpu -t {threads} -m tiny -b 2 --seq-len 16"
    # tsan sees neither locks nor threads of libraries that are not built for it, so it leaves them out.
    watched("tsan", "build/tsan/stepmark", [
        *(f"verify --backend cpu -t {threads} --isa {isa} --precision fp32,bf16,fp16 --max-elems 20000" for isa in of("ISAS", "baseline avx2 avx512").split()),
        f"run {work} -r 3 --mode naive,fused --no-peaks", f"train {work} --steps 3", f"train {work} --steps 40 --save-every 3 --val-data README.md --run {folder}/run"],
        {"OMP_TOOL_LIBRARIES": str(archer), "ARCHER_OPTIONS": "verbose=0", "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": "1",
         "TSAN_OPTIONS": "ignore_noninstrumented_modules=1:exitcode=66"}, "WARNING: ThreadSanitizer")


def processors():
    """Tests pass as on other processors: CPUID reports fewer features, since Linux can trap it on Intel processors since
    Ivy Bridge (tests/shims/processor.c). PROCESSORS="zen3 icelake unknown baseline", TESTS="..." of tests/*/test_*.c"""
    if "cpuid_fault" not in pathlib.Path("/proc/cpuinfo").read_text():
        return print("processors: left out: CPUID cannot be made to fault on this processor")
    make("tests")
    tests = of("TESTS", """advise again cli cpu_math cpu_memory cpu_product cpu_topology bf16 bf16_training course exercise generate golden gradient ladder
        loop_program machine opencl opencl_narrow optimizers plan recompute run_outputs same_bits screens sweep tensor_attention trainer verify""")
    for processor, name in itertools.product(of("PROCESSORS", "zen3 icelake unknown baseline").split(), tests.split()):
        env = {"XDG_CACHE_HOME": f"{folder}/{processor}", "PROCESSOR": processor, "LD_PRELOAD": os.path.abspath("build/release/tests/shims/processor.so")}
        code, out, err = run("", program=f"build/release/tests/test_{name}", env=env)
        judge(f"test_{name} on {processor}", out + err if code != 0 else "")


def opencl():
    """Every op, in every portable family of kernels and format, is on other OpenCL implementations (tools/opencl_with.sh) what
    the reference computes; for small cases Oclgrind's simulator finds no access out of bounds and no data race.
    IMPLEMENTATIONS="pocl rusticl oclgrind", PRECISIONS=fp32,bf16,fp16, MAX_ELEMS=2000 in the simulator, TIMEOUT=2700"""
    logs = pathlib.Path("build/torture/opencl")
    logs.mkdir(parents=True, exist_ok=True)
    for implementation, family in itertools.product(of("IMPLEMENTATIONS", "pocl rusticl oclgrind").split(), ("local", "registers")):
        # Whole steps take the simulator minutes.
        flags = f"--filter ' .*=' --max-elems {of('MAX_ELEMS', 2000)}" if implementation == "oclgrind" else ""
        code, out, err = run(f"verify --backend opencl --isa {family} --precision {of('PRECISIONS', 'fp32,bf16,fp16')} -o csv {flags}",
                             program=f"tools/opencl_with.sh {implementation} {STEPMARK}", timeout=int(of("TIMEOUT", 2700)), env={"OCLGRIND_DATA_RACES": "1"})
        (logs / f"{implementation}-{family}.txt").write_text(out + err)
        passed = out.count(",passed,")
        reports = len(re.findall(r"^(?:Invalid|Data race|Work-group divergence|Read-write|Write-write|OCLGRIND)", err, re.M))
        print(f"{implementation}, {family}: {passed} comparisons passed, {reports} reports")
        judge(f"{implementation}, {family}", f"see {logs}/{implementation}-{family}.txt" if code != 0 or reports or not passed else "")


@contextlib.contextmanager
def disk(kib):
    """A small disk, as root."""
    path = folder / "disk"
    path.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)


def disks(sizes):
    """Sizes in KiB, every STEPMARK_DISK_STRIDE-th; none but for root."""
    if run(f"-m mount -t tmpfs none {folder}", program="unshare")[0] != 0:
        print("full disks: left out, as only root mounts them")
        return []
    return sizes[::int(of("STEPMARK_DISK_STRIDE", 1))]


def files():
    """`train` and `init` are killed at each of their file calls, each call fails, and a small disk is full at every size:
    then the old state or the new one loads. STEPMARK_FAULT_STRIDE=1, STEPMARK_DISK_STRIDE=1: every how many-th"""
    make("build/release/tests/test_file_faults", "build/release/tests/shims/file_faults.so")
    subprocess.run(["build/release/tests/test_file_faults"], env={**os.environ, "STEPMARK_FAULT_STRIDE": of("STEPMARK_FAULT_STRIDE", "1")}, check=True)
    step = "train --backend reference -b 1 --seq-len 8 --steps 1"
    old, new, probe = (folder / name for name in ("old", "new", "probe"))

    def state(path):
        """What a folder loads as: one more step's results, without the times, and what that step saves."""
        lines = must(f"{step} --weights {path} --save {probe}").splitlines()
        return hashlib.sha256("".join("|".join(line.split("|")[:4]) for line in lines).encode() + b"".join(p.read_bytes() for p in sorted(probe.glob("*.safetensors")))).digest()

    must(f"train --init --n-layer 1 --n-head 2 --d-model 8 --vocab 256 --context 16 --save {old}")
    for path in (old, new):
        must(f"{step} --weights {old} --save {path}")
    states = {0: state(new), 1: state(old)}
    for kib in disks(range(48, 244, 4)):
        with disk(kib) as full:
            model = full / "m"
            if run(f"-r {old} {model}", program="cp")[0] != 0:
                continue  # not even the old state fits
            code, _, err = run(f"{step} --weights {model} --save {model}")
            left = len(list(model.rglob("*")))
            holds = code in states and left == 3 and state(model) == states[code] and (code == 0 or "No space left on device" in err)
            judge(f"a disk of {kib} KiB", "" if holds else f"exit code {code}, {left} names: {err}")


def train():
    """A training is killed by SIGKILL at random moments and resumed, and goes on a disk that was too small, at every size:
    weights, log and metrics are an undisturbed run's. STEPMARK_KILLS=50, STEPMARK_DISK_STRIDE=1, STEPMARK_SEED"""
    seed = of("STEPMARK_SEED", str(int(time.time())))
    print("seed", seed)
    draw = random.Random(seed)
    (folder / "text").write_text("".join(f"{i}\n" for i in range(1, 100000))[:20000])
    (folder / "val").write_text("".join(f"{i}\n" for i in range(5000, 9999))[:2000])
    line = (f"train -m tiny --backend reference -b 2 --seq-len 16 --global-batch 4 --steps 600 --save-every 20 --dropout 0.1 --order shuffled "
            f"--schedule cosine --data {folder}/text --data-format bytes --val-data {folder}/val --val-every 30 --resume auto --run ")
    whole, killed = folder / "whole", folder / "killed"

    def facts(path):
        log = (path / "log.jsonl").read_text()
        return (path / "model" / "model.safetensors").read_bytes(), re.sub(r', "checked_ops": \d+, "checks_ms": [^,}]*|"[a-z_]*ms": *[^,}]*', "", log)

    def differs(path):
        code, out, err = run(f"report --check {path}")
        return "another result" if facts(path) != facts(whole) else f"report --check: {out}{err}" if code != 0 else ""

    must(f"{line}{whole}")
    kills = places = 0
    while True:
        with open(folder / "err", "w") as err:
            process = subprocess.Popen([STEPMARK, *shlex.split(f"{line}{killed}")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err)
        is_last = kills >= int(of("STEPMARK_KILLS", 50))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(None if is_last else draw.uniform(0, 0.8))  # from before the first step to after the last
        process.kill()
        code = process.wait()
        assert code in (0, -9), f"exit code {code}: {(folder / 'err').read_text()}"
        kills += code == -9
        if (killed / "RUN_COMPLETE.txt").exists():  # done, or killed after its last file: a new one
            places += len(set(re.findall(r'"from_step": \d+', (killed / "run.json").read_text())))
            judge(f"a run after {kills} kills", differs(killed))
            subprocess.run(["rm", "-r", killed], check=True)
            if is_last:
                break
    print(f"{kills} kills of {count['n']} runs, which resumed from {places} places")
    for kib in disks(range(64, 64 * 41, 64)):
        with disk(kib) as full:
            code, _, err = run(f"{line}{full}/run")
            subprocess.run(["mount", "-o", "remount,size=64m", full], check=True)
            if code > 1 or (code == 1 and "No space left" not in err):
                judge(f"a disk of {kib} KiB", f"exit code {code}: {err}")
            else:
                code, _, err = run(f"{line}{full}/run") if code == 1 else (0, "", "")
                judge(f"a disk of {kib} KiB", f"it does not resume: {err}" if code != 0 else differs(full / "run"))


part = sys.argv[1]
try:
    {f.__name__: f for f in (drivers, limits, signals, memcheck, tsan, processors, opencl, files, train)}[part]()
finally:
    os.chdir("/")
    subprocess.run(["rm", "-rf", folder], check=False)
print(f"{part}: {count['n']} tried, {count['wrong']} wrong")
sys.exit(1 if count["wrong"] else 0)

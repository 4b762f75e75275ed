#!/usr/bin/python3
"""report_page.py STEPMARK [FOLDER]: tests the pages of report, leaderboard and scaling in a real Chromium, with rows and
runs made here: one machine, ten machines and builds, a thousand rows. Saves pictures of them in FOLDER, if given.
"""
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chromium_page import Browser, Keys, main  # noqa: E402

STEPMARK = sys.argv[1] if len(sys.argv) > 1 else "build/release/stepmark"
KEPT = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
SHEETS = 6  # of a thousand rows, printed
SCREENS = 4  # of a phone, before the rows
PHONE = {"width": 390, "height": 800}
MOST_BYTES = 5_000_000

# --- rows -------------------------------------------------------------------------------------------------------

XEON = "Intel(R) Xeon(R) Platinum 8581C CPU @ 2.30GHz"
RYZEN = "AMD Ryzen 9 7950X 16-Core Processor"
# host, processor, card, cores, FLOP/s, build
MACHINES = [("atlas", XEON, None, 16, 1.8e12, "abc123"), ("atlas", XEON, "NVIDIA H100 80GB HBM3", 16, 5e13, "abc123"),
            ("boreas", "AMD EPYC 9654 96-Core Processor", None, 96, 5e12, "abc123"),
            ("calypso", RYZEN, "AMD Radeon RX 7900 XTX", 16, 2.2e13, "77aa00"),
            ("dione", "Intel(R) Core(TM) i5-8250U CPU @ 1.60GHz", "Intel(R) UHD Graphics 620", 4, 2.5e11, "77aa00"),
            ("europa", "Cortex-A76", None, 4, 4e10, "abc123"), ("ferro", RYZEN, "NVIDIA GeForce RTX 4090", 16, 4.5e13, "abc123"),
            ("gaia", XEON, None, 16, 1.7e12, "abc123"), ("helios", "Apple M2 Max", "Apple M2 Max", 12, 9e12, "77aa00"),
            ("io", "AMD EPYC 7763 64-Core Processor", "NVIDIA A100-SXM4-80GB", 64, 1.6e13, "abc123")]
MODELS = {"tiny": (1_700_000, 2, 32), "small": (124_439_808, 12, 768), "medium": (354_823_168, 24, 1024), "large": (774_030_080, 36, 1280)}


def make_row(draw, machine, model="small", length=64, batch=4, mode="fused", precision="fp32", n=12, noise=0.01, status="ok"):
    host, cpu, card, cores, speed, build = machine
    parameters, layers, width = MODELS[model]
    device = "opencl:0.0" if card else "cpu"
    peak = speed * (2 if precision == "bf16" else 1)
    flops = 6.0 * parameters * batch * length
    share = {"naive": .35, "fused": .6, "tuned": .66}[mode] * .85 * batch / (batch + 1.5)
    base = flops / (peak * share) * 1e9 + 2e4
    samples = [int(base * (1 + abs(draw.gauss(0, noise)))) for _ in range(n)]
    median = int(statistics.median(samples))
    row = {"schema_version": 1, "build_commit": build, "test_time": f"2026-11-22T{draw.randrange(24):02}:00:00Z", "status": status,
           "model_arch": "gpt2", "model_type": model, "model_n_params": parameters, "backend_used": device.split(":")[0],
           "device": device, "cpu_info": cpu, "gpu_info": card, "isa": None if card else "avx512", "tier": "tensor" if card else None,
           "mode": mode, "recompute": "none", "precision": precision, "emulated": False, "n_threads": cores, "pass_type": "step",
           "test": f"step b{batch}s{length}", "n_batch": batch, "n_seq": length, "n_accum": 1, "vocab": 50257, "n_layer": layers,
           "d_model": width, "d_ff": 4 * width, "dropout": 0.0, "optimizer": "adamw", "seed": 42, "data": "embedded text",
           "run_args": [f"--model-size={model}", f"--batch-size={batch}", f"--seq-len={length}", f"--mode={mode}"],
           "open_ns": int(9e8 if card else 2e6), "build_ns": int(4e8), "tune_ns": int(3e9) if mode == "tuned" else None,
           "first_step_ns": int(median * 1.6), "n_warmup": 3, "warmup_ns": int(median * 3.1),
           "attribution_ns": int(median * 1.01),
           "phases": {"zero_grad_ns": median // 100, "forward_ns": median * 30 // 100, "backward_ns": median * 58 // 100,
                      "optimizer_ns": median // 10, "scaler_ns": None, "unaccounted_ns": median // 50},
           "samples_ns": samples, "median_ns": median,  # the rest follows from the samples
           "median_ts": batch * length / median * 1e9, "flops": flops,
           "bytes": parameters * 28.0 + batch * length * width * layers * 60.0, "peak_flops": peak, "peak_bandwidth": speed / 15,
           "mfu": flops / median * 1e9 / peak, "energy_per_token_j": 0.01 if card else None,
           "peak_rss_bytes": int(16 * parameters + 4e8), "device_peak_bytes": int(16 * parameters) if card else None,
           "loss": 10.87, "loss_check": "ok: first 16 tokens of the reference", "losses": [10.87] * (n + 5), "warnings": [],
           "context": {"host": host, "os": "Debian GNU/Linux 12", "kernel": "Linux 6.1", "memory_bytes": 1 << 36, "build_commit": build,
                       "cpu": {"name": cpu, "cores": cores}, "compiler": "gcc 12.2.0",
                       "device": {"id": device, "name": card or cpu, "driver": "driver 1"}}}
    if noise > .1 or draw.random() < .15:
        row["warnings"].append(f"other processes kept {draw.uniform(.2, 2):.1f} processors busy")
    if status == "oom":
        row.update(reason="activations: 12.40 GiB asked, 7.8 GiB there", samples_ns=[], median_ns=None, median_ts=None, mfu=None)
    return row


def make_loop(draw, loader, waiting, mode="fused"):
    """A training loop's row: its step waits for that share of it."""
    row = make_row(draw, MACHINES[1], batch=8, length=128, mode=mode, n=20)
    median = row["median_ns"]
    phases = {"wait": int(median * waiting), "transfer": median // 50, "forward": median * 3 // 10, "backward": median * 5 // 10,
              "update": median // 10, "unaccounted": median // 200}
    wall = sum(phases.values())
    row["loop"] = {"loader": loader, "n_steps": 8, "wall_ns": wall, **{name + "_ns": ns for name, ns in phases.items()},
                   "headline_wait_ns": phases["wait"], "bound": "input" if waiting > .3 else "compute", "bound_share": waiting,
                   "ceiling_ts": row["median_ts"] / (1 - waiting), "verdict": f"Bound by something: {100 * waiting:.0f}% of a step.",
                   "samples": {name: [int(ns * (1 + draw.uniform(0, .01))) for _ in range(8)] for name, ns in {**phases, "wall": wall}.items()}}
    row["loop"]["memory"] = {"held_bytes": 2e9, "end_ns": [(i + 1) * median // 40 for i in range(40)], "backward_ns": median // 3,
                             "alive_bytes": [3e9 * (1 - abs(i - 14) / 26) for i in range(40)]}
    row["real_tokens"] = 1024
    busy = [draw.uniform(.5, .6) for _ in range(500)]
    row["utilisation"] = {"interval_ms": 100, "n_warmup": 40, "n_headline": 460, "n_after": 0, "cpu": busy, "gpu": [1 - v for v in busy],
                          "rss_bytes": [2e9] * 500, "gpu_memory_bytes": [3e9] * 500, "power_w": [200 + 100 * v for v in busy]}
    return row


def one_machine(draw):
    rows = [make_row(draw, MACHINES[0], batch=batch, mode=mode) for mode in ("naive", "fused", "tuned") for batch in (1, 2, 4, 8)]
    return rows + [make_row(draw, MACHINES[0], batch=16, mode="naive", status="oom"),
                   make_row(draw, MACHINES[0], precision="bf16", n=40), make_row(draw, MACHINES[0], batch=2, precision="bf16", noise=.4)]


def ten_machines(draw):
    return [[make_row(draw, machine, batch=batch, precision=precision, length=512, noise=.004, mode="tuned" if machine[2] else "fused")
             for precision in ("fp32", "bf16") for batch in (4, 8)] for machine in MACHINES]


def thousand_rows(draw):
    rows = [make_row(draw, machine, model, length, batch, mode, precision, n=10 + (length + batch) % 7)
            for model in MODELS for length in (64, 256, 512) for machine in MACHINES[:5] for mode in ("naive", "fused", "tuned")
            for precision in ("fp32", "bf16") for batch in (1, 2, 4)][:982]
    rows += [make_row(draw, MACHINES[0], batch=batch, status="oom") for batch in range(32, 50)]
    draw.shuffle(rows)
    return rows


EVIL = "</script><script>window.evil = 1</script><img src=x onerror='window.evil = 1'>&\"'`"


def hostile_rows(draw):
    """Texts that would be markup, values that no machine measures, fields of other types."""
    rows = []
    for i, median in enumerate((1, 10**15, 10**15 + 1, 10**18, 5 * 10**17)):
        row = make_row(draw, (EVIL + str(i % 2), EVIL, EVIL, 4, 1e12, EVIL), batch=1 << 4 * i, mode=("naive", "fused")[i % 2])
        for name in ("median_ts", "mfu", "attribution_ns", "phases", "run_args"):  # or it would contradict itself, and have no figures
            del row[name]
        row.update(median_ns=median, samples_ns=[median, median, median + 1], warnings=[EVIL], model_type=EVIL,
                   peak_bandwidth=1e-300, flops=1e25, bytes=1e-20)
        rows.append(row)
    rows[3]["warnings"] = {"no": "list"}
    rows[4]["context"] = ["no", "object"]
    loop = make_loop(draw, EVIL, .2)
    loop["loop"].update(verdict=EVIL, samples={})
    loop["loop"]["memory"] = {"held_bytes": "x", "end_ns": [1, None, "y", 1e300], "alive_bytes": [1e300, -1, 3, "z"]}
    loop["utilisation"] = {"interval_ms": 1e-300, "cpu": [1, None, "x", 1e300, 2], "rss_bytes": []}
    return rows + [loop]


# --- pages ------------------------------------------------------------------------------------------------------

folder = pathlib.Path(KEPT or tempfile.mkdtemp())


def write_rows(name, rows):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def stepmark(*arguments):
    done = subprocess.run([STEPMARK, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def write_training(name, lr):
    """A run folder of 1,000 steps, with a sample that is no markup."""
    path = folder / name
    path.mkdir()
    lines = []
    for step in range(1, 1001):
        lines.append({"step": step, "loss": 6 / (1 + lr * step / 500), "grad_norm": 1 + step % 7, "lr": 1e-3 * lr, "ms": 10, "tokens": 1024})
        if step % 100 == 0:
            lines.append({"kind": "validation", "step": step, "loss": 6.2 / (1 + lr * step / 600), "tokens": 64, "ms": 30})
    lines.append({"kind": "sample", "step": 1000, "text": "<script>alert(1)</script>"})
    (path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (path / "run.json").write_text(json.dumps({"configuration": {"steps": 1000, "optimizer": {"lr": 1e-3 * lr}},
                                               "starts": [{"time_utc": "2026-11-22T10:00:00Z", "from_step": 0, "end": {"reason": "complete"}}]}))
    return path


def write_scaling():
    """Runs of 1, 2 and 4 processes: one process's, with the numbers and times that others would have on an idle machine."""
    stepmark("train", "--run", folder / "n1", *"-m tiny -b 1 --global-batch 4 --seq-len 16 --steps 40 --threads 1".split())
    runs = []
    for n, (step_sec, comm_sec) in {1: (0.040, 0), 2: (0.021, 0.0007), 4: (0.012, 0.0011)}.items():
        metrics = json.loads((folder / "n1" / "training_metrics.json").read_text())
        metrics["training_config"] |= {"n_processes": n, "grad_accum": 4 // n}
        for name in ("other_cpus", "own_cpus", "steal_share", "involuntary_switches"):
            metrics["starts"][-1]["end"].pop(name)
        metrics["summary"] |= {"step_time_mean_sec": step_sec, "step_time_mean_ci95_half_sec": step_sec / 100,
                               "comm_exposed_time_mean_sec": comm_sec, "comm_exposed_time_mean_ci95_half_sec": comm_sec / 100,
                               "dataload_time_mean_sec": step_sec / 1000}
        runs.append(folder / f"n{n}.json")
        runs[-1].write_text(json.dumps(metrics))
    return [json.loads(line) for line in stepmark("report", "--scaling", *runs, "--page", folder / "scaling.html", "-o", "jsonl").splitlines()]


def make_pages():
    draw = random.Random(7)
    loops = [make_loop(draw, "inline", .4), make_loop(draw, "threads:2", .01), make_loop(draw, "threads:2", .02, mode="naive")]
    rows = [write_rows("one.jsonl", one_machine(draw)), write_rows("thousand.jsonl", thousand_rows(draw)),
            write_rows("loops.jsonl", loops), write_rows("hostile.jsonl", hostile_rows(draw))]
    bundles = []
    for machine, of_machine in zip(MACHINES, ten_machines(draw)):
        name = f"{machine[0]}-{'card' if machine[2] else 'cpu'}"
        stepmark("report", write_rows(name + ".jsonl", of_machine), "--bundle", folder / (name + ".bundle"))
        bundles.append(folder / (name + ".bundle"))
    for path in rows:
        stepmark("report", path, "--output", path.with_suffix(".html"))
    stepmark("report", "--rank", *bundles, "--page", folder / "board.html")
    trainings = [write_training(f"training-{lr}", lr) for lr in (1, 3)]
    stepmark("report", *trainings, "--output", folder / "trainings.html")
    stepmark("report", *(path.with_suffix(".jsonl") for path in bundles), "--output", folder / "ten.html")


def open_page(browser, name, **screen):
    path = folder / (name + ".html")
    browser.open(path, **screen)
    browser.until("document.documentElement.dataset.drawn !== undefined")
    browser.expect_no_errors()
    return path


def take_picture(browser, name):
    if KEPT:
        browser.picture(KEPT / (name + ".png"))


def shown_rows(browser):
    return browser.js("[...document.querySelectorAll('#comparison tbody tr')].filter(r => !r.hidden).map(r => Number(r.dataset.row))")


def column(browser, heading, selector="#comparison table", n=0):
    """The shown cells of a column of a table, from top to bottom."""
    return browser.js("""const table = document.querySelectorAll(arguments[1])[arguments[2]];
        const at = [...table.tHead.rows[0].cells].findIndex(h => h.textContent.split(' (')[0] === arguments[0]);
        return [...table.tBodies[0].rows].filter(r => !r.hidden).map(r => r.cells[at].textContent.trim())""", heading, selector, n)


def numbers(browser, heading, *table):
    """Of such a column what comes before an interval or a unit, where it has a number."""
    return [float(cell.split()[0].replace(",", "").rstrip("%")) for cell in column(browser, heading, *table) if cell not in ("", "-")]


# --- tests ------------------------------------------------------------------------------------------------------


def every_page_fits_every_screen(browser):
    for name in ("one", "ten", "thousand", "loops", "scaling"):
        path = open_page(browser, name)
        assert path.stat().st_size <= MOST_BYTES, f"{name}: {path.stat().st_size} bytes"
        light = browser.js("getComputedStyle(document.body).backgroundColor")
        take_picture(browser, name)
        browser.screen(**PHONE)
        browser.expect_no_sideways_scroll()
        take_picture(browser, name + "-phone")
        browser.screen(dark=True)
        browser.expect_no_sideways_scroll()
        take_picture(browser, name + "-dark")
        dark = browser.js("getComputedStyle(document.body).backgroundColor")
        assert light != dark
        browser.click(".theme")
        assert browser.js("getComputedStyle(document.body).backgroundColor") == light


def a_phone_comes_to_the_rows_soon(browser):
    for name, rows in (("one", "#rows"), ("ten", "#rows"), ("loops", "#rows"), ("board", "#places")):
        open_page(browser, name, **PHONE)
        screens = browser.js(f"document.querySelector('{rows}').getBoundingClientRect().top + scrollY") / PHONE["height"]
        assert screens <= SCREENS, f"{name}: {screens:.1f} screens before the rows"
        assert browser.count(".part:not([open]) > summary") == browser.count(".part") > 0
        browser.click(".part > summary")
        assert browser.count(".part[open]") == 1
        browser.expect_no_sideways_scroll()


def it_prints(browser):
    for name in ("one", "ten", "thousand", "scaling"):
        open_page(browser, name)
        sheets = browser.print(folder / (name + ".pdf"))
        assert sheets <= SHEETS, f"{name} is printed on {sheets} sheets"
        browser.expect_no_errors()


def the_table_sorts_and_filters(browser):
    open_page(browser, "one")
    assert "is the fastest: " in browser.text("p") or "not told apart" in browser.text("p") or "reaches" in browser.text("p")
    got = numbers(browser, "tokens/s")
    assert len(got) == 14 and column(browser, "tokens/s")[-1] == "-"  # of each work the fastest first
    heading = "[...document.querySelectorAll('#comparison th')].find(h => h.textContent.startsWith('tokens/s'))"
    browser.js(heading + ".querySelector('button').click(); return 0")
    got = numbers(browser, "tokens/s")
    assert got == sorted(got, reverse=True) and len(got) == 14, got
    assert browser.js(heading + ".getAttribute('aria-sort')") == "descending"
    assert column(browser, "tokens/s")[-1] == "-"  # what has no figure comes last, either way
    browser.js(heading + ".querySelector('button').click(); return 0")
    assert column(browser, "tokens/s")[0] != "-" and column(browser, "tokens/s")[-1] == "-"

    browser.type("input[type=search]", "bf16 fused")
    assert sorted(shown_rows(browser)) == [13, 14]
    browser.until("document.querySelectorAll('[data-figure=throughput] .mark').length === 2")  # pictures follow
    browser.type("input[type=search]", "")
    browser.select("select[data-column=mode]", "tuned")
    assert set(column(browser, "mode")) == {"tuned"} and "4 of 15 rows" in browser.text(".tools output")
    browser.js("[...document.querySelectorAll('.tools button')].find(b => b.textContent === 'reset').click(); return 0")
    assert len(shown_rows(browser)) == 15


def a_row_opens(browser):
    open_page(browser, "one")
    browser.click("#comparison tbody tr[data-row='14'] td:nth-child(3)")
    assert browser.js("document.querySelector('dialog').open") and "Row 15" in browser.text("dialog h2")
    assert browser.count("dialog svg circle") == 12 and "median_ns" in browser.text("dialog")
    assert "processors busy" in browser.text("dialog .warn")
    browser.press(Keys.ESCAPE)
    assert not browser.js("document.querySelector('dialog').open")
    browser.js("document.querySelector('#comparison tbody tr').focus(); return 0")
    browser.press(Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    third = browser.js("Number(document.querySelectorAll('#comparison tbody tr')[2].dataset.row)") + 1
    assert f"Row {third}:" in browser.text("dialog h2")


def a_point_tells_its_row(browser):
    open_page(browser, "one")
    browser.hover("[data-figure=throughput] .mark[data-row='13']")
    hint = browser.text("#hint")
    assert "row 14" in hint and "tokens/s" in hint and "of peak" in hint, hint
    assert browser.count("#hint svg circle") == 40  # its raw samples
    browser.hover("[data-figure=phases] rect.mark")
    assert "%" in browser.text("#hint")
    browser.js("document.querySelector('[data-figure=\"side-by-side\"] svg').focus(); return 0")
    browser.press(Keys.ARROW_RIGHT)
    assert not browser.js("document.querySelector('#hint').hidden")
    browser.press(Keys.ENTER)
    assert browser.js("document.querySelector('dialog').open")


def the_legend_hides(browser):
    for name, figure in (("one", "throughput"), ("scaling", "speedup")):
        open_page(browser, name)
        marks, button = f"[data-figure={figure}] svg .mark", f"[data-figure={figure}] .legend button"
        before = browser.count(marks)
        browser.click(button)
        assert browser.count(marks) < before and browser.js("document.querySelector(arguments[0]).getAttribute('aria-pressed')", button) == "false"
        browser.click(button)
        assert browser.count(marks) == before


def a_device_has_one_colour(browser):
    open_page(browser, "ten")
    in_table = browser.js("""return Object.fromEntries([...document.querySelectorAll('#comparison tbody tr')].map(row =>
        [row.dataset.row, row.querySelector('.dot').getAttribute('style').match(/var\\(--s\\d+\\)/)[0]]))""")
    in_charts = browser.js("""return [...document.querySelectorAll('[data-figure="answer"], [data-figure=throughput]')]
        .flatMap(f => [...f.querySelectorAll('path.mark')]).map(m => [m.dataset.row, m.getAttribute('fill')])""")
    assert len(in_charts) > 15 and len(set(in_table.values())) == 10
    for row, colour in in_charts:
        assert in_table[row] == colour, (row, colour, in_table[row])


def a_thousand_rows_answer(browser):
    open_page(browser, "thousand")
    painted = browser.js("performance.getEntriesByType('paint').map(e => e.startTime)[0] || 0")
    assert painted < 60_000, painted  # 200 ms where nothing else runs
    browser.type("input[type=search]", "h100 tuned medium")
    assert set(column(browser, "mode")) == {"tuned"} and set(column(browser, "model")) == {"medium"}
    assert browser.count("#failures .wide tbody tr") > 0 and "18" in browser.text("#failures .wide tbody tr")
    print(f"the report's page of 1,000 rows: first painted after {painted:.0f} ms, "
          f"{(folder / 'thousand.html').stat().st_size / 1e6:.1f} MB")


def nothing_in_a_row_is_markup(browser):
    open_page(browser, "hostile")
    assert len(shown_rows(browser)) == 6
    for row in range(6):
        browser.js("chart.rows.open(arguments[0]); return 0", row)
        assert browser.text("dialog h2").startswith(f"Row {row + 1}")
        browser.js("document.querySelector('dialog').close(); return 0")
    browser.js("document.querySelectorAll('.mark').forEach(m => m.dispatchEvent(new PointerEvent('pointermove', {bubbles: true}))); return 0")
    assert browser.js("window.evil") is None and browser.count("img") == 0
    browser.print(folder / "hostile.pdf")


def what_is_shown_is_a_file(browser):
    """Of the rows that are shown: CSV, and JSONL that stepmark reads again."""
    open_page(browser, "one")
    browser.js("window.got = []; URL.createObjectURL = (blob) => { blob.text().then((text) => got.push(text)); return '#'; }; return 0")
    browser.select("select[data-column=mode]", "tuned")
    browser.js("[...document.querySelectorAll('.tools button')].slice(-2).forEach(b => b.click()); return 0")
    browser.until("got.length === 2")
    csv = browser.js("got[0]").splitlines()
    assert len(csv) == 5 and csv[0].startswith("#,device,") and all("tuned" in line for line in csv[1:]), csv
    again = folder / "again.jsonl"
    again.write_text(browser.js("got[1]"))
    done = subprocess.run([STEPMARK, "report", again, "-o", "json"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and [row["context"]["host"] for row in json.loads(done.stdout)] == ["atlas"] * 4, done.stderr


def loops_have_their_phases(browser):
    open_page(browser, "loops")
    take_picture(browser, "loops")
    assert "Bound by something: 40%" in browser.text("#loops ul")
    assert browser.count("[data-figure='loop-phases'] rect.mark") == 3 * 6
    browser.hover("[data-figure='loop-phases'] rect.mark[data-row='1']")
    assert "wait" in browser.text("#hint") and "against the baseline" in browser.text("#hint") and "-9" in browser.text("#hint")
    for name in ("memory-step", "utilisation", "memory-time", "power-time"):
        assert browser.count(f"[data-figure='{name}'] .panel") == 3 and browser.count(f"[data-figure='{name}'] polyline") >= 3
    assert browser.count("#phases-2 tbody tr") == 8


def the_leaderboard(browser):
    open_page(browser, "board")
    take_picture(browser, "board")
    assert browser.count("#board tbody tr") == 20 and browser.count("[data-figure=rate] .panel") == 2
    browser.select("#places ~ .tools select[data-column=precision]", "bf16")
    browser.until("[...document.querySelectorAll('[data-figure=rate] .mark')].filter(m => m.closest('.panel').hidden === false).length === 10")
    browser.hover("[data-figure=rate] .mark")
    assert "tokens/s" in browser.text("#hint") and "NVIDIA" in browser.text("#hint")
    assert browser.print(folder / "board.pdf") <= SHEETS
    browser.screen(**PHONE)
    browser.expect_no_sideways_scroll()
    take_picture(browser, "board-phone")


def trainings_lie_over_each_other(browser):
    open_page(browser, "trainings")
    take_picture(browser, "trainings")
    assert browser.text("p").startswith("training-3 has the lowest validation loss: 1.0333 at step 1000")
    assert browser.count("[data-figure=loss] polyline") == 4  # two of steps, two of validations
    browser.click("[data-figure=loss] .legend button")
    assert browser.count("[data-figure=loss] polyline") == 3
    assert "<script>alert(1)</script>" in browser.js("document.body.innerText")
    browser.hover("[data-figure=speed] .mark")
    assert "tokens/s" in browser.text("#hint")
    assert browser.print(folder / "trainings.pdf") <= SHEETS
    browser.screen(**PHONE)
    browser.expect_no_sideways_scroll()
    take_picture(browser, "trainings-phone")


def scaling_is_the_terminals(browser):
    """Strong and weak, measured and predicted: tables that sort, and a point of each run that says what it is."""
    open_page(browser, "scaling")
    for table, work in enumerate(("strong", "weak")):
        rows = [row for row in scaling if row["scaling"] == work]
        assert numbers(browser, "processes", "table", table) == [row["n_processes"] for row in rows] and len(rows) > 4
        for shown, row in zip(numbers(browser, "step ms", "table", table), rows):
            assert abs(shown - 1e3 * row["step_s"]) <= 1e-2 * shown, (shown, row)
    heading = "[...document.querySelectorAll('table')[1].querySelectorAll('th')].find(h => h.textContent === 'processes')"
    before = numbers(browser, "processes", "table", 1)
    browser.js(heading + ".querySelector('button').click(); return 0")
    browser.js(heading + ".getAttribute('aria-sort') === 'descending' || " + heading + ".querySelector('button').click(); return 0")
    assert numbers(browser, "processes", "table", 1) == before[::-1] != before
    for figure in ("speedup", "efficiency"):
        assert browser.count(f"[data-figure={figure}] .mark") == len(scaling), figure
    assert browser.count("[data-figure=parts] rect.mark") > 3
    browser.hover("[data-figure=speedup] .mark")
    assert "processes" in browser.text("#hint") and "speed-up" in browser.text("#hint"), browser.text("#hint")
    browser.hover("[data-figure=parts] rect.mark")
    assert "compute" in browser.text("#hint") or "serial" in browser.text("#hint"), browser.text("#hint")
    browser.js("document.querySelector('[data-figure=efficiency] svg').focus(); return 0")
    browser.press(Keys.ARROW_RIGHT)
    assert not browser.js("document.querySelector('#hint').hidden")


def a_hundred_bundles(_):
    """Of as many machines, in one page, quickly; one changed by a byte is refused, and nothing is written."""
    draw = random.Random(8)
    bundles = []
    for i in range(100):
        machine = (f"host{i}", *MACHINES[i % 10][1:])
        rows = write_rows("many.jsonl", [make_row(draw, machine, batch=batch, precision=precision) for precision in ("fp32", "bf16")
                                         for batch in (1, 2, 4)])
        bundles.append(folder / f"many{i}.bundle")
        stepmark("report", rows, "--bundle", bundles[-1])
    begin = time.monotonic()
    stepmark("report", "--rank", *bundles, "--page", folder / "many.html")
    seconds = time.monotonic() - begin
    assert seconds < 60, seconds  # 1 s where nothing else runs
    print(f"the leaderboard of 100 bundles: {seconds:.2f} s")
    changed = bytearray(bundles[50].read_bytes())
    changed[len(changed) // 2] ^= 1
    bundles[50].write_bytes(changed)
    (folder / "many.html").unlink()
    done = subprocess.run([STEPMARK, "report", "--rank", *map(str, bundles), "--page", folder / "many.html"], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1 and "many50.bundle: was changed" in done.stderr, done.stderr
    assert not (folder / "many.html").exists()


make_pages()
scaling = write_scaling()
main("the report's page", [every_page_fits_every_screen, a_phone_comes_to_the_rows_soon, it_prints, the_table_sorts_and_filters, a_row_opens, a_point_tells_its_row,
                           the_legend_hides, a_device_has_one_colour, a_thousand_rows_answer, nothing_in_a_row_is_markup, what_is_shown_is_a_file, loops_have_their_phases, the_leaderboard, trainings_lie_over_each_other, scaling_is_the_terminals, a_hundred_bundles])

#!/usr/bin/python3
"""scaling_page.py STEPMARK [FOLDER]: tests the page of `stepmark report --scaling` in a real Chromium, with trainings of
1, 2 and 4 processes started by mpirun. Saves pictures in FOLDER, if given. STEPMARK is a build with MPI.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from chromium_page import Keys, is_there, main  # noqa: E402

STEPMARK = sys.argv[1] if len(sys.argv) > 1 else "build/mpi/stepmark"
KEPT = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
SHEETS = 4  # printed
PROCESSES = (1, 2, 4)
TIMES_SEC = {1: (0.040, 0), 2: (0.021, 0.0007), 4: (0.012, 0.0011)}  # of a step, and of its communication
WORK = "-m tiny -b 1 --global-batch 4 --seq-len 16 --steps 40 --threads 1".split()

temporary = tempfile.TemporaryDirectory()
folder = KEPT or pathlib.Path(temporary.name)
page = folder / "scaling.html"


def run(*arguments, n=0):
    """What stepmark prints; of n processes that mpirun starts."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    command = (["mpirun", "-n", str(n)] if n else []) + [STEPMARK, *map(str, arguments)]
    done = subprocess.run(command, env={**os.environ, **allowed}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{arguments}: exit {done.returncode}: {done.stderr}"
    return done.stdout


def as_if_alone(run_folder, n):
    """Its metrics, with the times of a machine that nobody else used: of a busy one nothing is drawn, nor foretold."""
    metrics = json.loads((run_folder / "training_metrics.json").read_text())
    for name in ("other_cpus", "own_cpus", "steal_share", "involuntary_switches"):
        metrics["starts"][-1]["end"].pop(name)
    step_sec, comm_sec = TIMES_SEC[n]
    metrics["summary"] |= {"step_time_mean_sec": step_sec, "step_time_mean_ci95_half_sec": step_sec / 100,
                           "comm_exposed_time_mean_sec": comm_sec, "comm_exposed_time_mean_ci95_half_sec": comm_sec / 100,
                           "dataload_time_mean_sec": step_sec / 1000}
    path = run_folder.with_suffix(".json")
    path.write_text(json.dumps(metrics))
    return path


def make_page():
    for n in PROCESSES:
        run("train", "--run", pathlib.Path(temporary.name, f"n{n}"), *WORK, n=n)
    runs = [as_if_alone(pathlib.Path(temporary.name, f"n{n}"), n) for n in PROCESSES]
    return [json.loads(line) for line in run("report", "--scaling", *runs, "--page", page, "-o", "jsonl").splitlines()]


def open_page(browser, **screen):
    browser.open(page, **screen)
    browser.until("document.documentElement.dataset.drawn !== undefined")


def numbers(browser, table, heading):
    """A column of a table, by what comes before an interval or a unit; what is missing is left out."""
    cells = browser.js("""const table = document.querySelectorAll('table')[arguments[0]];
        const at = [...table.tHead.rows[0].cells].findIndex(h => h.textContent === arguments[1]);
        return [...table.tBodies[0].rows].map(r => r.cells[at].textContent.trim())""", table, heading)
    return [float(cell.split()[0].replace(",", "").rstrip("%")) for cell in cells if cell not in ("", "-")]


# --- tests ------------------------------------------------------------------------------------------------------


def it_fits_every_screen(browser):
    open_page(browser)
    light = browser.js("getComputedStyle(document.body).backgroundColor")
    for name, screen in {"scaling": {}, "scaling-phone": {"width": 390, "height": 800}, "scaling-dark": {"dark": True}}.items():
        browser.screen(**screen)
        browser.expect_no_sideways_scroll()
        if KEPT:
            browser.picture(KEPT / (name + ".png"))
    assert browser.js("getComputedStyle(document.body).backgroundColor") != light


def it_prints(browser):
    open_page(browser)
    sheets = browser.print(folder / "scaling.pdf")
    assert sheets <= SHEETS, f"printed on {sheets} sheets"


def its_tables_are_the_terminals(browser):
    """Of both kinds of scaling, measured and predicted."""
    open_page(browser)
    for table, work in enumerate(("strong", "weak")):
        rows = [row for row in records if row["scaling"] == work]
        assert numbers(browser, table, "processes") == [row["n_processes"] for row in rows]
        for shown, row in zip(numbers(browser, table, "step ms"), rows):
            assert abs(shown - 1e3 * row["step_s"]) <= 1e-2 * shown, (shown, row)


def the_table_sorts(browser):
    open_page(browser)
    before = numbers(browser, 1, "processes")
    assert before == sorted(before) and len(before) > 4
    heading = "[...document.querySelectorAll('table')[1].querySelectorAll('th')].find(h => h.textContent === 'processes')"
    browser.js(heading + ".querySelector('button').click(); return 0")
    browser.js(heading + ".getAttribute('aria-sort') === 'descending' || " + heading + ".querySelector('button').click(); return 0")
    assert numbers(browser, 1, "processes") == before[::-1]


def every_run_is_a_point(browser):
    open_page(browser)
    for figure in ("speedup", "efficiency"):
        # three runs, what is predicted of weak scaling, which begins with one of them, and three published
        expected = len(records)
        assert browser.count(f"[data-figure={figure}] .mark") == expected, (figure, browser.count(f"[data-figure={figure}] .mark"))
    assert browser.count("[data-figure=parts] rect.mark") > 3


def a_point_says_what_it_is(browser):
    open_page(browser)
    browser.hover("[data-figure=speedup] .mark")
    assert "processes" in browser.text("#hint") and "speed-up" in browser.text("#hint"), browser.text("#hint")
    browser.hover("[data-figure=parts] rect.mark")
    assert "compute" in browser.text("#hint") or "serial" in browser.text("#hint"), browser.text("#hint")
    browser.js("document.querySelector('[data-figure=efficiency] svg').focus(); return 0")
    browser.press(Keys.ARROW_RIGHT)
    assert not browser.js("document.querySelector('#hint').hidden")


def the_legend_hides(browser):
    open_page(browser)
    marks = "[data-figure=speedup] svg .mark"
    before = browser.count(marks)
    browser.click("[data-figure=speedup] .legend button")
    assert browser.count(marks) < before
    browser.click("[data-figure=speedup] .legend button")
    assert browser.count(marks) == before


if not is_there() or not shutil.which("mpirun"):
    print("the page of scaling: left out: it needs Chromium with its driver, Selenium, and mpirun (make deps-dev)")
    sys.exit(0)
records = make_page()
main("the page of scaling", [it_fits_every_screen, it_prints, its_tables_are_the_terminals, the_table_sorts, every_run_is_a_point,
                             a_point_says_what_it_is, the_legend_hides])

"""ratios.py: what rows of ours and theirs, measured in turns, say about each other.

A comparison is of one peer with stepmark on one piece of work. Both ran once a round, one after the
other, so that a round's two runs saw much the same machine. A ratio is theirs over ours: above 1
ours is faster, or smaller.
"""

import math
import random
from statistics import median, quantiles

LOSS_TOLERANCE = {"fp32": 1e-3, "tf32x3": 1e-3, "bf16x6": 1e-3, "tf32": 1e-2, "bf16": 1e-2, "fp16": 1e-2}  # relative, at every step
N_RESAMPLES = 2000
SEED = 1


def turns(contenders, n_rounds):
    """The contenders' order, round by round: A B, B A, A B, ... so that a drift of the machine
    falls on all alike."""
    return [contenders if i % 2 == 0 else contenders[::-1] for i in range(n_rounds)]


def loss_differences(ours, theirs):
    """Relative, of every step that both ran; NaN counts as infinitely far."""
    differences = [abs(a - b) / abs(b) if b else math.inf for a, b in zip(ours, theirs)]
    return [d if math.isfinite(d) else math.inf for d in differences]


def pooled(runs):
    return [x for run in runs for x in run]


def ratio_interval(ours, theirs, n_resamples=N_RESAMPLES):
    """Bootstrap interval (95%) of median(theirs) / median(ours), from a list of samples a round of each.

    Resampled are the rounds, ours and theirs together, then the samples within each run: runs of
    one program differ by more than the samples of a run do. The same input gives the same answer.
    """
    rng = random.Random(SEED)
    resample = lambda values: rng.choices(values, k=len(values))
    rounds = list(zip(ours, theirs))
    ratios = []
    for _ in range(n_resamples):
        picked = resample(rounds)
        our_median = median(pooled(resample(a) for a, _ in picked))
        ratios.append(median(pooled(resample(b) for _, b in picked)) / our_median)
    cuts = quantiles(ratios, n=40, method="inclusive")
    return cuts[0], cuts[-1]


def first_and_later(rows):
    """Seconds from process start to the end of the first step: of the first run, which meets cold
    files and caches, and the median of the later ones. None where there is none."""
    known = [row["side_by_side"].get("start_to_first_step_ns") for row in rows]
    first = known[0] / 1e9 if known and known[0] else None
    later = [ns / 1e9 for ns in known[1:] if ns]
    return first, median(later) if later else None


def refusal(ours, theirs, tolerance):
    """Why these rows cannot be compared, or None. Both are lists of rows, one a round, in order."""
    for who, rows in (("ours", ours), ("theirs", theirs)):
        if not rows:
            return f"{who}: no row"
        for row in rows:
            if row["status"] != "ok":
                return f"{who}: {row['status']}: {row.get('reason')}"
    for a, b in zip(ours, theirs):
        differences = loss_differences(a["losses"], b["losses"])
        needed = min(1 + row["n_warmup"] + len(row["samples_ns"]) for row in (a, b))
        if len(differences) < needed:
            return f"losses of {len(differences)} steps only, of {needed}: the work is not shown to be the same"
        for step, difference in enumerate(differences, start=1):
            if difference > tolerance:
                return (
                    f"the losses differ: step {step}: ours {a['losses'][step - 1]:.6f}, theirs "
                    f"{b['losses'][step - 1]:.6f}, {difference:.1e} apart, tolerance {tolerance:.0e}: not the same work"
                )
    return None


def peak_bytes(rows):
    """Of a card's own memory, else of resident memory."""
    return max(row.get("device_peak_bytes" if row.get("gpu_info") else "peak_rss_bytes") or 0 for row in rows)


def energy_per_token_j(rows):
    """Median of the rounds that know it; None where none does."""
    known = [row["energy_per_token_j"] for row in rows if row.get("energy_per_token_j")]
    return median(known) if known else None


def compare(ours, theirs, tolerance):
    """A comparison's figures, as a dictionary; with "refused" set there are no figures."""
    refused = refusal(ours, theirs, tolerance)
    if refused:
        return {"refused": refused}
    our_runs, their_runs = ([row["samples_ns"] for row in rows] for rows in (ours, theirs))
    our_ns, their_ns = median(pooled(our_runs)), median(pooled(their_runs))
    lo, hi = ratio_interval(our_runs, their_runs)
    worst = max(max(loss_differences(a["losses"], b["losses"])) for a, b in zip(ours, theirs))
    our_peak, their_peak = peak_bytes(ours), peak_bytes(theirs)
    our_start, their_start = first_and_later(ours), first_and_later(theirs)
    return {
        "refused": None,
        "n_rounds": len(ours),
        "ours_median_ns": round(our_ns),
        "theirs_median_ns": round(their_ns),
        "time_ratio": their_ns / our_ns,
        "time_ratio_ci95": [lo, hi],
        "time_ratio_of_rounds": [median(b) / median(a) for a, b in zip(our_runs, their_runs)],
        "ours_peak_bytes": our_peak,
        "theirs_peak_bytes": their_peak,
        "memory_ratio": their_peak / our_peak if our_peak and their_peak else None,
        "ours_start_s": {"first": our_start[0], "later": our_start[1]},
        "theirs_start_s": {"first": their_start[0], "later": their_start[1]},
        "ours_energy_per_token_j": energy_per_token_j(ours),
        "theirs_energy_per_token_j": energy_per_token_j(theirs),
        "n_losses": min(len(row["losses"]) for row in theirs),
        "loss_difference": worst,
        "n_threads": [ours[0].get("n_threads"), theirs[0].get("n_threads")],
    }

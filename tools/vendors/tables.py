#!/usr/bin/env python3
"""tables.py FOLDER: tables of what tools/vendors/check.sh kept in FOLDER (build/vendors): large
products and attention in bf16, a target a row; spills are the most of all programs of the target, in all formats."""
import os
import re
import sys

TARGETS = "gfx90a gfx942 gfx950 gfx1100 gfx1151 gfx1201 dg2 arl-h pvc bmg lnl-m ptl-h".split()
FORMS = ("-DB_TRANSPOSED", "plain", "-DA_TRANSPOSED")
PARTS = [(hs, part) for hs in (64, 128) for part in (0, 1, 2)]


def read(path):
    """(options, counts) of each program"""
    for line in open(path):
        options, _, said = line.partition(" | ")
        numbers = dict((name, int(n)) for name, n in re.findall(r"([a-z][a-z ]*?) (\d+)", said.replace("loop:", "")))
        yield options, numbers


def form_of(options):
    return next((form for form in FORMS if form in options), "plain")


def cell(n):
    return f"{n['registers']}: {n['matrix']} / {n['local loads'] + n['global loads']}"


def products(target, programs, blocks):
    first = {}
    for options, n in programs:
        if " matmul_units " in options and options.endswith(("-DDATA_BF16", "-DDATA_BF16 -DC_REAL")):
            if ("BLOCK_READS" in options) == blocks:
                first.setdefault(form_of(options), n)
    if not first:
        return
    of_products = [n for options, n in programs if " matmul_units " in options and ("BLOCK_READS" in options) == blocks]
    cells = [cell(first[form]) if form in first else "" for form in FORMS]
    name = target + (", block reads" if blocks else "")
    local = first[FORMS[0]]["local"]
    print(f"| {name} | {' | '.join(cells)} | {local / 1024:.0f} | {len(of_products)} | {max(n['spills'] for n in of_products)} |")


def attention(target, programs):
    first = {}
    for options, n in programs:
        if " attention_units " in options and options.endswith("-DDATA_BF16") and "-DDROPOUT=0" in options:
            key = tuple(int(re.search(rf"-D{name}=(\d+)", options)[1]) for name in ("HS", "PART"))
            first.setdefault(key, n)
    of_attention = [n for options, n in programs if " attention_units " in options]
    cells = [f"{first[key]['registers']}, {first[key]['local'] / 1024:.0f}" if key in first else "" for key in PARTS]
    spilling = [n["spills"] for n in of_attention if n["spills"] > 0]
    spills = f"{len(spilling)}, at most {max(spilling)}" if spilling else "0"
    print(f"| {target} | {' | '.join(cells)} | {len(of_attention)} | {spills} |")


def main():
    known = {}
    for target in TARGETS:
        path = os.path.join(sys.argv[1], target, "table")
        if os.path.exists(path):
            known[target] = list(read(path))
    print("| target | A B^T | A B | A^T B | local KiB | programs | spills |\n|---|---:|---:|---:|---:|---:|---:|")
    for target, programs in known.items():
        products(target, programs, False)
        products(target, programs, True)
    print("\n| target | forward 64 | dq 64 | dk, dv 64 | forward 128 | dq 128 | dk, dv 128 | programs | spill |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for target, programs in known.items():
        attention(target, programs)


if __name__ == "__main__":
    main()

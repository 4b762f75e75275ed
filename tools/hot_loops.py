#!/usr/bin/env python3
"""hot_loops.py [--mca CORE,...] OBJDUMP OBJECT FUNCTION [LIMIT...]: the innermost loops of a function that mostly multiply.

A loop's counts are multiply-adds (mla), loads, moves between vector registers, and accesses of the stack. Each limit must
hold for all loops that are printed: mla>=24, loads<=12, moves<=0, stack<=0. With --mca, llvm-mca's multiply-adds a cycle on
models of these cores follow; LLVM_MCA names it."""
import os
import re
import subprocess
import sys

MULTIPLIES = re.compile(r"^(fmla|bfmmla|bfdot|fmopa|bfmopa|vfmacc|vfmadd|fmadd|fmsub|vfmadd\w*|vdpbf16ps)")
LOADS = re.compile(r"^(ld|fl[wd]\b|vl\w*e\d|vle\d)")
STORES = re.compile(r"^(st|fs[wd]\b|vs\w*e\d)")
MOVES = re.compile(r"^(mov|fmov|vmv\S*|fmv\.s)\s+[vz]?[vf]")
SHARE = 0.4  # of a loop's instructions; an outer product alone is enough
OUTER = re.compile(r"^b?fmopa")
JUMPS = re.compile(r"^(b|b\.\w+|cbn?z|tbn?z|j|b\w{2,4}|j\w{1,2})\s+(?:.*,\s*)?(?:0x)?([0-9a-f]+) <")


def instructions(objdump, path, function):
    """the processor, and (address, text) of the function's instructions"""
    said = subprocess.run([objdump, "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    inside = False
    found = []
    for line in said.split("\n"):
        head = re.match(r"^[0-9a-f]+ <(\S+)>:", line)
        if head and not head.group(1).startswith(".L"):
            inside = head.group(1) == function or head.group(1).startswith(function + ".")
        body = re.match(r"^\s+([0-9a-f]+):\s+(.*)", line)
        if inside and body:
            found.append((int(body.group(1), 16), body.group(2).split("//")[0].replace("\t", " ").strip()))
    if not found:
        sys.exit(f"hot_loops: {path} has no function {function}")
    return "riscv64" if "riscv" in said else "aarch64", found


def innermost_loops(code):
    at = {address: i for i, (address, _) in enumerate(code)}
    spans = []
    for i, (address, text) in enumerate(code):
        jump = JUMPS.match(text)
        if jump and int(jump.group(2), 16) <= address and int(jump.group(2), 16) in at:
            spans.append((at[int(jump.group(2), 16)], i))
    for first, last in spans:
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in spans):
            yield [text for _, text in code[first : last + 1]]


def counts(loop):
    found = {name: sum(bool(pattern.match(t)) for t in loop) for name, pattern in (("mla", MULTIPLIES), ("loads", LOADS), ("moves", MOVES))}
    stack = [t for t in loop if (LOADS.match(t) or STORES.match(t)) and re.search(r"\[sp|\(sp\)|\[x29", t)]
    return {**found, "stack": len(stack), "all": len(loop)}


def per_cycle(loop, core, architecture):
    """Multiply-adds a cycle; NaN where the model does not know the instructions."""
    plain = ["nop" if JUMPS.match(t) else re.sub(r"\s*<.*", "", t) for t in loop]
    rounds = 300
    said = subprocess.run(
        [os.environ.get("LLVM_MCA", "llvm-mca-19"), f"-march={architecture}", f"-mcpu={core}", f"-iterations={rounds}"]
        + (["-mattr=+v"] if architecture == "riscv64" else []),
        input="\n".join(plain) + "\n", capture_output=True, text=True, check=False,
    )
    cycles = re.search(r"Total Cycles:\s+(\d+)", said.stdout)
    return counts(loop)["mla"] * rounds / int(cycles.group(1)) if cycles else float("nan")


def main():
    cores, words = [], sys.argv[1:]
    if words and words[0] == "--mca":
        cores, words = words[1].split(","), words[2:]
    if len(words) < 3:
        sys.exit(__doc__)
    objdump, path, function, *limits = words
    architecture, code = instructions(objdump, path, function)
    loops = [loop for loop in innermost_loops(code)
             if counts(loop)["mla"] > SHARE * len(loop) or any(OUTER.match(t) for t in loop)]
    if not loops:
        sys.exit(f"hot_loops: {function} in {path} has no loop that mostly multiplies")
    failed = False
    for loop in loops:
        found = counts(loop)
        print(f"{function}: " + ", ".join(f"{number} {name}" for name, number in found.items())
              + "".join(f"; {core} {per_cycle(loop, core, architecture):.2f}" for core in cores))
        for limit in limits:
            name, sign, number = re.match(r"(\w+)(<=|>=)([\d.]+)$", limit).groups()
            if not (found[name] <= float(number) if sign == "<=" else found[name] >= float(number)):
                print(f"hot_loops: {function} in {path}: {found[name]} {name}, wanted {limit}", file=sys.stderr)
                failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()

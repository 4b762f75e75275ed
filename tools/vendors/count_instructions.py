#!/usr/bin/env python3
"""count_instructions.py amd FILE.s | intel FOLDER: of each kernel with matrix instructions what its compiler made of it:
registers, spills, local memory, and the instructions of the loop that has most matrix instructions."""
import glob
import re
import sys


def hot_block(lines, is_label, matrix):
    """Of the blocks between labels the one with most matrix instructions."""
    blocks = [[]]
    for line in lines:
        if is_label(line):
            blocks.append([])
        else:
            blocks[-1].append(line)
    return max(blocks, key=lambda b: sum(1 for line in b if re.search(matrix, line)))


def count(block, pattern):
    return sum(1 for line in block if re.search(pattern, line))


def amd(path):
    text = open(path).read()
    for part in re.split(r"\n  - (?=\.)", text.split("amdhsa.kernels:")[1])[1:]:
        get = lambda key: int((re.search(r"\.%s:\s+(\d+)" % key, part) or [0, 0])[1])
        name = re.search(r"\.name:\s+(\S+)", part)[1]
        body = re.search(r"\n%s:(.*?)\n\.Lfunc_end" % name, text, re.S)
        if body is None or not re.search(r"v_(mfma|wmma)", body[1]):
            continue
        block = hot_block(body[1].split("\n"), lambda l: re.match(r"\.LBB", l), r"v_(mfma|wmma)")
        print(f"{name}: registers {get('vgpr_count')} ({get('agpr_count')} for sums), spills {get('vgpr_spill_count')}, "
              f"scratch {get('private_segment_fixed_size')}, local {get('group_segment_fixed_size')}; loop: "
              f"matrix {count(block, r'v_(mfma|wmma)')}, local loads {count(block, r'ds_(read|load)')}, local stores "
              f"{count(block, r'ds_(write|store)')}, global loads {count(block, r'(global|buffer|flat)_load')}, "
              f"instructions {sum(1 for l in block if re.match(r'	[a-z]', l))}")


def intel(folder):
    info = open(folder + "/.ze_info").read()
    for part in re.split(r"\n  - name:", info.split("kernels:")[1].split("kernels_misc_info:")[0])[1:]:
        name = part.split()[0].strip("'\"")
        get = lambda key: int((re.search(r"%s:\s+(\d+)" % key, part) or [0, 0])[1])
        files = glob.glob(f"{folder}/.text.{name}.asm")
        lines = open(files[0]).read().split("\n") if files else []
        if not any("dpas" in line for line in lines):
            continue
        block = hot_block(lines, lambda l: re.match(r"\S+:", l), r"\bdpasw?\.")
        print(f"{name}: registers {get('grf_count')}, spills {get('spill_size')}, scratch {get('private_size')}, local "
              f"{get('slm_size')}; loop: matrix {count(block, r'dpasw?[.]')}, local loads {count(block, r'load.*[.]slm')}, "
              f"local stores {count(block, r'store.*[.]slm')}, global loads {count(block, r'load.*[.]ugm')}, instructions "
              f"{count(block, r'[(]W|^ .*[|]')}")


if __name__ == "__main__":
    {"amd": amd, "intel": intel}[sys.argv[1]](sys.argv[2])

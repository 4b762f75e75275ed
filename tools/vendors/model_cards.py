#!/usr/bin/env python3
"""model_cards.py [STEPMARK]: what GPT-2 124M in bf16 may reach on cards that nobody has measured, from counts alone: FLOPs
and bytes of the step (stepmark estimate), instructions, registers and local memory of the kernels
(tools/vendors/check.sh), and the cards' data sheets. A static model: it knows no cache, no power limit beyond one
factor, and no driver. It is held to the figures that were measured on an H100 (docs/results.md), and fails where it is
off by more than 25%."""
import json
import math
import subprocess
import sys

SUSTAINED = 0.70  # of a unit's peak in long products: clocks under load; the H100's products reach 0.62 to 0.66
MEMORY = 0.80     # of the data sheet's bandwidth in everything that is neither product nor attention
STALL = 600       # cycles of a turn in which a work-group waits: registers to local memory, two barriers, first loads
LAUNCH_S = 4e-6   # between kernels
LAUNCHES = 300
LAYERS, C, HEADS, V, T = 12, 768, 12, 50304, 1024

# name: compute units, clock in GHz, FLOP a cycle and unit in bf16, TB/s; of the kernel of large products: rows and columns
# of a tile, k of a turn, work-groups a unit, bytes of local memory that a turn moves and a cycle may; of attention: matrix
# instructions' share of all instructions' time.
CARDS = {
    "H100 (measured)":  (132, 1.755, 4096, 3.35, 128, 256, 64, 1, 0, 1, 0.50),
    "MI300X":           (304, 2.10, 2048, 5.30, 128, 128, 32, 3, 49152, 128, 0.35),
    "MI210":            (104, 1.70, 1024, 1.60, 128, 128, 32, 3, 49152, 128, 0.45),
    "RX 7900 XTX":      (48, 2.50, 1024, 0.96, 128, 128, 32, 4, 114688, 256, 0.35),
    "RX 9070":          (28, 2.52, 2048, 0.64, 128, 128, 32, 4, 65536, 256, 0.30),
    "Arc A770":         (32, 2.10, 2048, 0.56, 128, 128, 32, 1, 131072, 128, 0.25),
    "Arc B580":         (20, 2.67, 2048, 0.456, 128, 128, 32, 4, 0, 1, 0.30),
    "Max 1550 (PVC)":   (128, 1.60, 4096, 3.20, 128, 128, 32, 4, 0, 1, 0.30),
}
MEASURED = {32: 518_900, 4: 377_600}  # tokens/s on the H100


def products(batch):
    """M, N, K of every product of a step, and how often."""
    rows = batch * T
    for times, k, n in [(LAYERS, C, 3 * C), (LAYERS, C, C), (LAYERS, C, 4 * C), (LAYERS, 4 * C, C), (1, C, V)]:
        yield times, rows, n, k  # y = x W
        yield times, rows, k, n  # dx
        yield times, k, n, rows  # dW


def product_s(card, m, n, k):
    units, ghz, flops, _, tile_m, tile_n, turn, groups, moved, a_cycle, _ = card
    matrix = 2 * tile_m * tile_n * turn / flops
    busy = max(matrix, moved / a_cycle)
    stall = STALL if moved > 0 else 0
    cycles = max(busy, (busy + stall) / groups)  # a turn, where others' run meanwhile
    tiles = math.ceil(m / tile_m) * math.ceil(n / tile_n)
    parts = max(1, min(16, units * groups // tiles, k // 512)) if tiles < units * groups else 1
    rounds = math.ceil(tiles * parts / units)  # of one work-group a unit
    return rounds * math.ceil(k / parts / turn) * cycles / (ghz * 1e9 * SUSTAINED)


def predict(card, batch, traffic):
    units, ghz, flops, tb = card[:4]
    peak = units * ghz * 1e9 * flops
    product = sum(times * product_s(card, m, n, k) for times, m, n, k in products(batch))
    moved = sum(times * 2 * (m * k + k * n + m * n) for times, m, n, k in products(batch))
    causal = batch * HEADS * T * T * (C // HEADS) * LAYERS  # FLOPs of one of attention's products: half are left out
    attention = 9 * causal / (peak * SUSTAINED * card[10])
    rest = max(0, traffic - moved) / (tb * 1e12 * MEMORY)
    total = product + attention + rest + LAUNCHES * LAUNCH_S
    return batch * T / total, product, attention, rest


def traffic_of(stepmark, batch):
    said = subprocess.run([stepmark, "estimate", "-m", "small", "-b", str(batch), "--seq-len", str(T), "--vocab", str(V),
                           "--precision", "bf16", "-o", "json"], check=True, capture_output=True, text=True).stdout
    return json.loads(said)[0]["traffic"]["step_bytes"]


def main():
    stepmark = sys.argv[1] if len(sys.argv) > 1 else "build/release/stepmark"
    worst = 0
    print(f"{'card':18} {'B':>3} {'tokens/s':>9} {'products':>9} {'attention':>9} {'rest ms':>8}")
    for batch in (32, 4):
        traffic = traffic_of(stepmark, batch)
        for name, card in CARDS.items():
            speed, product, attention, rest = predict(card, batch, traffic)
            print(f"{name:18} {batch:3} {speed:9.0f} {product * 1e3:9.1f} {attention * 1e3:9.1f} {rest * 1e3:8.1f}")
        off = predict(CARDS["H100 (measured)"], batch, traffic)[0] / MEASURED[batch] - 1
        worst = max(worst, abs(off))
        print(f"H100 at B={batch}: measured {MEASURED[batch]}, the model is off by {off:+.0%}")
    return 0 if worst <= 0.25 else 1


if __name__ == "__main__":
    sys.exit(main())

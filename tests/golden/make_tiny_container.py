#!/usr/bin/env python3
"""Makes tiny_container.json: what sm_weights_init must write for one tiny model and seed.

Nothing but Python's standard library; numbers are computed here from the definitions (Philox4x32-10
keyed by FNV-1a of the name and SplitMix64's finaliser of the seed, Box-Muller), in double precision.
"""

import json
import math
import pathlib

CONFIG = dict(n_layer=2, n_head=2, n_embd=8, n_inner=20, vocab_size=11, n_positions=4, layer_norm_epsilon=1e-5)
SEED = 42
MASK32 = 2**32 - 1
MASK64 = 2**64 - 1


def philox4x32(key, counter):
    k0, k1 = key & MASK32, key >> 32
    c0, c1, c2, c3 = counter & MASK32, counter >> 32, 0, 0
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK32, (p0 >> 32) ^ c3 ^ k1, p0 & MASK32
        k0, k1 = (k0 + 0x9E3779B9) & MASK32, (k1 + 0xBB67AE85) & MASK32
    return c0, c1, c2, c3


def philox_key(seed, name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK64
    value = value + (seed + 1) * 0x9E3779B97F4A7C15 & MASK64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK64
    return value ^ value >> 31


def normal(key, element, std):
    words = philox4x32(key, element // 4)
    pair = element % 4 // 2 * 2
    radius = std * math.sqrt(-2 * math.log(((words[pair] >> 8) + 1) / 2**24))
    angle = 2 * math.pi * (words[pair + 1] >> 8) / 2**24
    return radius * (math.cos(angle) if element % 2 == 0 else math.sin(angle))


def initial(name, element):
    if name.endswith(".bias"):
        return 0.0
    if "ln_" in name:
        return 1.0
    std = 0.02 / math.sqrt(2 * CONFIG["n_layer"]) if name.endswith("c_proj.weight") else 0.02
    return normal(philox_key(SEED, name), element, std)


def parameters():
    """Names and shapes in the order of the model."""
    C, F = CONFIG["n_embd"], CONFIG["n_inner"]
    yield "wte.weight", [CONFIG["vocab_size"], C]
    yield "wpe.weight", [CONFIG["n_positions"], C]
    for layer in range(CONFIG["n_layer"]):
        for name, shape in [
            ("ln_1.weight", [C]), ("ln_1.bias", [C]),
            ("attn.c_attn.weight", [C, 3 * C]), ("attn.c_attn.bias", [3 * C]),
            ("attn.c_proj.weight", [C, C]), ("attn.c_proj.bias", [C]),
            ("ln_2.weight", [C]), ("ln_2.bias", [C]),
            ("mlp.c_fc.weight", [C, F]), ("mlp.c_fc.bias", [F]),
            ("mlp.c_proj.weight", [F, C]), ("mlp.c_proj.bias", [C]),
        ]:
            yield f"h.{layer}.{name}", shape
    yield "ln_f.weight", [C]
    yield "ln_f.bias", [C]


def main():
    tensors = []
    begin = 0
    for name, shape in parameters():
        n_elems = math.prod(shape)
        values = {str(e): round(initial(name, e), 10) for e in (0, n_elems // 2, n_elems - 1)}
        tensors.append(dict(name="transformer." + name, shape=shape, begin_bytes=begin, values=values))
        begin += 4 * n_elems
    lines = ",\n  ".join(json.dumps(tensor) for tensor in tensors)
    text = f'{{"config": {json.dumps(CONFIG)},\n "seed": {SEED},\n "dtype": "F32",\n "tensors": [\n  {lines}]}}\n'
    (pathlib.Path(__file__).parent / "tiny_container.json").write_text(text)


if __name__ == "__main__":
    main()

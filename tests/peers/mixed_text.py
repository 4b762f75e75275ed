"""Files of mixed text: code and prose as this machine has them, words of all of Unicode's planes, invalid UTF-8, a
megabyte without a space, and corner cases. The same every time on the same machine.
"""
import gzip
import os
import pathlib
import random

SOURCES = (".py", ".h", ".c", ".txt", ".md", ".html", ".rs", ".js", ".json", ".po", ".tex", ".xml")


def system_texts(roots):
    """Contents of text files below the roots, in order of their names."""
    for root in roots:
        for folder, folders, names in sorted(os.walk(root)):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                if name.endswith(".gz"):
                    try:
                        yield gzip.open(path).read()
                    except OSError:
                        continue
                elif name.endswith(SOURCES):
                    yield open(path, "rb").read()


def scalars():
    return [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def planes(rng, n_bytes):
    """Every code point, then words of 1 to 9 neighbours of random places, with what separates words."""
    everything = "".join(map(chr, scalars()))
    yield everything
    yield " ".join(everything[i:i + 5] for i in range(0, len(everything), 5))
    gaps = [" ", " ", " ", "  ", "\n", "\t", "\u3000", "\u00a0", "'s ", ", ", "'", "\r\n", " \n ", "\u2028", "1", "\u0300"]
    starts = [0x20, 0xA0, 0x370, 0x400, 0x590, 0x600, 0x900, 0xE00, 0x1100, 0x1E00, 0x2000, 0x3040, 0x4E00, 0xAC00,
              0xFB00, 0x10000, 0x1D400, 0x1F300, 0x20000, 0x30000, 0xE0000, 0x100000]
    size = 0
    words = []
    while size < n_bytes:
        first = rng.choice(starts) + rng.randrange(200)
        word = "".join(chr(first + rng.randrange(40)) for _ in range(rng.randint(1, 9))) + rng.choice(gaps)
        words.append(word)
        size += len(word.encode())
    yield "".join(words)


def invalid(rng, n_bytes):
    """Valid text with bytes replaced, random bytes, and each kind of invalid sequence between others."""
    text = bytearray(("Grüße, 世界! don't " * (n_bytes // 60 + 1)).encode())
    for _ in range(len(text) // 20):
        text[rng.randrange(len(text))] = rng.randrange(256)
    yield bytes(text)
    yield rng.randbytes(n_bytes // 2)
    kinds = [b"\x80", b"\xff", b"\xc0\xaf", b"\xc2", b"\xe2\x82", b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf0\x9f\x98",
             b"\xf4\x90\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xe0\x80\x80", b"\x00", b"\xef\xbf\xbd"]
    around = [b"a", b" ", b"1", b"!", b"'s", b"\n", b" a", b"\xc3\xa9", b"\xe3\x80\x80", b""]
    yield b"".join(rng.choice(around) + rng.choice(kinds) for _ in range(n_bytes // 8))


def corners(rng):
    yield b""
    yield b" "
    yield b"a"
    yield bytes(rng.choice(b"abcdefghijklmnopqrstuvwxyz") for _ in range(1 << 20))
    yield b"a" * (1 << 20)
    yield b" " * (1 << 20) + b"x"
    yield b"\n" * 70000
    yield b"=" * 100000 + b"-" * 100001
    yield bytes(rng.choice(b"0123456789") for _ in range(1 << 18))
    yield ("\u4e00\u4e8c\u4e09" * 100000).encode()
    yield b"I'm we'll they've you're he'd it's can't 'S 'LL ''s 's's ' s" * 100


def all_texts(rng, n_bytes):
    for text in corners(rng):
        yield "corner", text
    for text in planes(rng, n_bytes // 20):
        yield "planes", text.encode()
    for text in invalid(rng, n_bytes // 50):
        yield "invalid", text
    roots = ["/usr/local/lib", os.path.dirname(os.__file__), "/usr/share/doc", "/usr/include", "/usr/share/perl"]
    for text in system_texts(roots):
        if len(text) < 3 << 20:
            yield "found", text


def write(folder, n_bytes):
    """Writes files NUMBER-KIND until they hold n_bytes; says what it wrote."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    size = n = 0
    for kind, text in all_texts(random.Random(20241122), n_bytes):
        if size >= n_bytes:
            break
        (folder / f"{n:06}-{kind}").write_bytes(text)
        n += 1
        size += len(text)
    return f"{n} files of mixed text, {size} bytes"

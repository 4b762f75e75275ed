#!/usr/bin/python3
"""step_page.py STEPMARK: tests the page of a step in a real Chromium: it loads, steps forward and back, and has
walk's numbers."""
import array
import functools
import json
import math
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from chromium_page import Keys, main

stepmark = sys.argv[1]
folder = tempfile.TemporaryDirectory()

# Three models, and what a page of each is asked for.
models = {
    "gpt2": "--backend cpu,reference --train-steps 0",
    "llama": "--arch llama --n-kv-head 1 --backend reference --seq-len 12 --vocab 250 --train-steps 0",
    "dropout": "--dropout 0.2 --mode fused -b 2 --seq-len 6 --backend none --train-steps 0",
}
others = {
    "trained": "--backend none",
    "qwen3": "--arch qwen3 --mode fused --seq-len 7 --d-model 24 --backend none --train-steps 0",
    "slices": "--backend none --d-model 256 --n-layer 1 --vocab 2000 --seq-len 8",
    "chunks": "--backend none --mode fused -b 32 --seq-len 64 --n-layer 1",
    "larger": "--d-model 128 --n-layer 4 --n-head 4 --seq-len 64 --backend none",
}


def make(name, *flags):
    """The page of that name; with flags a new one."""
    path = pathlib.Path(folder.name, name + ".html")
    if flags or not path.exists():
        flags = flags or {**models, **others}[name].split()
        subprocess.run([stepmark, "page", *flags, "--output", path], check=True, stderr=subprocess.DEVNULL)
    return path


@functools.cache
def printed(command):
    return subprocess.run([stepmark, *shlex.split(command)[1:]], check=True, capture_output=True).stdout


def walk_of(browser, more=""):
    """What the walk that the page names prints, with more flags."""
    return json.loads(printed(browser.js("step.data.command") + more))


def is_same(a, b):
    """Texts and whole numbers as they are; what is computed as the floats that were printed, in nine digits or in twelve."""
    return a == b or (type(a) is float and type(b) is float and struct.pack("f", a) == struct.pack("f", b))


def differences(got, wanted, where=""):
    """Places where two JSON values differ."""
    if type(wanted) is dict and type(got) is dict and got.keys() == wanted.keys():
        return [d for key in wanted for d in differences(got[key], wanted[key], f"{where}.{key}")]
    if type(wanted) is list and type(got) is list and len(got) == len(wanted):
        return [d for i, (a, b) in enumerate(zip(got, wanted)) if a != b for d in differences(a, b, f"{where}[{i}]")]
    return [] if is_same(got, wanted) else [f"{where}: {str(got)[:80]} instead of {str(wanted)[:80]}"]


# Of each list of values the CRC-32 of its floats: so a step of a million is compared to the bit without being sent.
CHECKSUMS = """
const table = Uint32Array.from({length: 256}, (_, n) => { for (let k = 0; k < 8; k++) n = n & 1 ? n >>> 1 ^ 0xedb88320 : n >>> 1; return n; });
const checksum = (values) => ~new Uint8Array(Float32Array.from(values).buffer).reduce((crc, byte) => table[(crc ^ byte) & 255] ^ crc >>> 8, ~0) >>> 0;
return JSON.stringify(step.whole(checksum));
"""


def with_checksums(walk):
    """Of a tensor's first entries and norm before the step walk says more than the page needs: it has the values."""
    for tensor in walk["tensors"]:
        tensor.pop("first", None)
        tensor.pop("norm", None)
    operands = [operand for op in walk["ops"] for operand in op["operands"]]
    for part in (*walk["tensors"], *operands, *(operand["before"] for operand in operands if "before" in operand)):
        if type(part.get("values")) is list:
            part["values"] = zlib.crc32(array.array("f", (math.nan if x is None else x for x in part["values"])).tobytes())
    return walk


def numbers_are_walks(browser):
    for name in models:
        seconds = browser.open(make(name))
        assert seconds < 60, f"{name}: {seconds} s to load"  # 1 s where nothing else runs
        wanted = walk_of(browser)
        if name == "gpt2":  # the file that "all numbers as JSON" saves
            wrong = [d for d in differences(json.loads(browser.js("JSON.stringify(step.whole())")), wanted) if not re.match(r"\.tensors\[", d)]
            assert not wrong, f"{len(wrong)} differ: {wrong[:5]}"
        wrong = differences(with_checksums(json.loads(browser.js(CHECKSUMS))), with_checksums(wanted))
        assert not wrong, f"{name}: {len(wrong)} differ: {wrong[:5]}"


OPEN = """
const count = (what) => document.querySelectorAll('#op-panel ' + what).length, op = step.walk.ops[arguments[0]];
stepPage.go(arguments[0]);
return {kind: op.kind, head: document.querySelector('#op').innerText, lacks: op.operands.length - count('.operand'), formulas: count('math'),
    errors: count('merror'), sources: [...document.querySelectorAll('.source summary')].map((e) => e.textContent.split(':')[0]),
    times: count('#times tbody tr')};
"""


def every_op_opens(browser):
    """Each op shows its operands with their values, its equations as formulas, its sources, its time."""
    browser.open(make("gpt2"))
    for i in range(browser.js("step.walk.ops.length")):
        op = browser.js(OPEN, i)
        assert op["head"].startswith(f"Op {i}: {op['kind']}")
        assert op["lacks"] == 0 and op["formulas"] > 0 and op["errors"] == 0 and op["times"] == 2, op
        assert {"reference", "cpu", "opencl"} <= set(op["sources"]), op
    browser.expect_no_errors()


def player_plays(browser):
    browser.open(make("gpt2"))
    assert "crossentropy_forward" in browser.text("#now")  # of a fresh model: how wrong it is
    browser.js("document.getElementById('tour').selectedIndex = 3; document.getElementById('tour').dispatchEvent(new Event('change')); return 0")
    assert "matmul_forward" in browser.text("#now")
    browser.click("#first")
    browser.click("#on")
    browser.click("#on")
    assert browser.text("#now").startswith("op 2 of 82")
    browser.click("#back")
    browser.js("document.activeElement.blur(); return 0")
    browser.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert browser.text("#now").startswith("op 3 of 82: embedding_forward")
    browser.press(" ")
    assert browser.text("#play") == "pause"
    browser.js("document.getElementById('speed').value = 10; document.getElementById('speed').dispatchEvent(new Event('change')); return 0")
    browser.until("stepPage.state.op > 4")
    browser.press(" ", Keys.END)
    assert browser.text("#now").startswith("op 81 of 82: adamw")
    browser.click('g.op[data-op="7"]')
    assert browser.text("#op").startswith("Op 7: attention_forward")


def a_cell_says_its_value(browser):
    """Under the pointer, by the keyboard, and in the table, as walk has it."""
    browser.open(make("gpt2"))
    browser.click('g.op[data-op="7"]')
    att = walk_of(browser)["ops"][7]["operands"][2]["values"]
    assert browser.js("document.querySelectorAll('#op-panel canvas').length") == 3
    browser.js("const c = document.querySelectorAll('#op-panel canvas')[1]; c.focus(); return 0")
    browser.press(Keys.ARROW_DOWN)
    said = browser.js("document.querySelectorAll('#op-panel .readout')[1].textContent")
    found = re.fullmatch(r"h\.0\.att\[0,0,1,0\] = (\S+)", said)
    assert found and abs(float(found[1]) - att[32]) < 1e-6, said
    browser.js("document.querySelectorAll('#op-panel .operand details')[1].open = true; return 0")
    browser.until("document.querySelectorAll('#op-panel .operand')[1].querySelectorAll('td').length > 0")
    cells = []
    for turn in range(4):
        cells += browser.js("[...document.querySelectorAll('#op-panel .operand')[1].querySelectorAll('td')].map((e) => Number(e.textContent))")
        browser.js("document.querySelectorAll('#op-panel .operand')[1].querySelectorAll('.tools button')[1].click(); return 0")
    assert len(cells) == len(att) and all(abs(a - b) < 1e-6 for a, b in zip(cells, att))


# For one output of each kind a number in its middle: as the op wrote it, and as its equation gives it; and whether what
# is said to go into it leads back to it.
FOLLOW = """
const wrong = [], seen = new Set();
step.walk.ops.forEach((op, i) => op.operands.filter(step.isOutput).forEach((o) => {
    if (seen.has(op.kind + o.operand)) return;
    seen.add(op.kind + o.operand);
    const flat = Math.floor(step.count(o.dims) * .6), wrote = step.valuesAt(o.tensor, 2 * i + 1)[flat];
    const made = trace.makersOf(i, o.operand, flat);
    if (!made || !(Math.abs(made.value - wrote) <= arguments[0] * Math.max(Math.abs(wrote), 1e-5))) wrong.push(`${op.kind}.${o.operand}: ${made?.value} instead of ${wrote}`);
    const taken = made?.reads.filter((r) => !r.isAfter && !/hyper|token|target|starts|rng_step/.test(r.name)).at(-1);
    const goal = taken && trace.goalsOf(i, taken.name, taken.flat).find((g) => g.name === o.operand);
    if (taken && !(goal && (goal.flats === null || goal.flats.includes(flat)))) wrong.push(`${op.kind}.${o.operand} is no goal of ${taken.name}[${taken.flat}]`);
}));
return [wrong, seen.size];
"""


def a_number_is_followed(browser):
    """By clicks, backward and forward; and what the page computes is what Python makes of walk's values."""
    browser.open(make("gpt2"))
    walk = walk_of(browser)
    values = lambda op, name: next(o["values"] for o in walk["ops"][op]["operands"] if o["operand"] == name)

    # The first product's y[3,5]: a row of x by a column of W; into bias, and from there to attention.
    browser.js("stepPage.choose(5); return 0")
    browser.js("""const c = document.querySelector('#op-panel canvas'), box = c.getBoundingClientRect();
        c.dispatchEvent(new MouseEvent('click', {clientX: box.left + box.width * 5.5 / 96, clientY: box.top + box.height * 3.5 / 32})); return 0""")
    shown = lambda: float(browser.js("document.querySelector('#follow .recomputed b').dataset.value"))
    assert browser.text("#follow h3").startswith("h.0.qkv.xw[0,3,5] = ")
    assert abs(shown() - sum(values(5, "x")[3 * 32 + c] * values(5, "W")[c * 96 + 5] for c in range(32))) < 1e-6
    browser.js("[...document.querySelectorAll('#follow .taking .chip')].find((e) => e.textContent.startsWith('h.0.qkv[0,3,5]')).click(); return 0")
    assert browser.text("#op").startswith("Op 6: bias_forward")
    assert abs(shown() - values(6, "x")[3 * 96 + 5] - values(6, "b")[5]) < 1e-6
    browser.js("document.querySelector('#follow .trail .chip').click(); return 0")
    assert browser.text("#op").startswith("Op 5: ")
    browser.js("[...document.querySelectorAll('#follow .terms .chip')].find((e) => e.textContent.startsWith('x = ')).click(); return 0")
    assert browser.text("#op").startswith("Op 4: layernorm_forward")
    c = int(re.match(r"h\.0\.ln1\[0,3,(\d+)\]", browser.text("#follow h3"))[1])
    x, w, b = (values(4, name) for name in "xwb")
    row = x[3 * 32:4 * 32]
    mean = sum(row) / 32
    rstd = (sum((v - mean) ** 2 for v in row) / 32 + 1e-5) ** -.5
    assert abs(shown() - ((row[c] - mean) * rstd * w[c] + b[c])) < 1e-5

    # A weight after the step, and the loss before anything reads it.
    last = len(walk["ops"]) - 2
    browser.js("follow.choose('params.matrices.0', 77, 2 * arguments[0] + 1); return 0", last)
    hyper = walk["hyper"]
    before = next(o for o in walk["ops"][last]["operands"] if o["operand"] == "p")["before"]["values"][77]
    g = values(last, "clip")[0] * values(last, "g")[77]
    m, v = (1 - hyper["beta1"]) * g, (1 - hyper["beta2"]) * g * g
    step = (m / (1 - hyper["beta1"])) / ((v / (1 - hyper["beta2"])) ** .5 + hyper["eps"])
    assert abs(shown() - (before * (1 - hyper["lr"] * hyper["weight_decay"]) - hyper["lr"] * step)) < 1e-7
    browser.js("follow.choose('losses', 9, 2 * step.walk.ops.length - 1); return 0")
    logits = values(34, "logits")[9 * 256:10 * 256]
    lse = math.log(sum(math.exp(z) for z in logits))
    assert abs(shown() - (lse - logits[walk["targets"][9]])) < 1e-5
    for name in models:
        browser.open(make(name))
        wrong, n = browser.js(FOLLOW, 2e-5)
        assert not wrong and n > 25, f"{name}: {wrong}"


def large_models_show_slices(browser):
    """The first rows and columns of each tensor, with their places in the whole; what they make is right."""
    browser.open(make("slices"))
    assert make("slices").stat().st_size < 11e6 and "slices" in browser.text("#slices")
    browser.js("stepPage.choose(5); return 0")
    assert "the first 256×192 of 256×768" in browser.text("#op-panel")
    assert browser.count("#logits tbody tr") == 8  # the text is told by all logits
    # y[7,33] is made of a column of W that the page has, y[7,200] of one that it has not.
    wrote, made, beyond, n = browser.js("""
        const made = [33, 200].map((f) => trace.makersOf(5, 'y', 7 * 768 + f));
        return [step.valueAt('h.0.qkv.xw', 7 * 768 + 33, 11), made[0].value, isNaN(made[1].value), made[1].reads.length]""")
    assert abs(made - wrote) < 1e-5 and beyond and n == 512, (wrote, made, beyond, n)
    assert browser.js("trace.goalsOf(5, 'W', 3 * 768 + 200)[0].flats") == [n * 768 + 200 for n in range(8)]
    browser.js("follow.choose('h.0.qkv.xw', 7 * 768 + 200, 11); return 0")
    assert "Not all of these values are on this page" in browser.text("#follow")
    # Fused, the loss is made in chunks, which use one part of memory in turn.
    browser.open(make("chunks"))
    wrong = browser.js("""return step.walk.ops.flatMap((op, i) => op.operands.filter(step.isOutput).map((o) => {
        const flat = step.fullPlace(o.tensor, Math.floor(step.count(o.dims) * .6)), wrote = step.valueAt(o.tensor, flat, 2 * i + 1);
        const {value} = trace.makersOf(i, o.operand, flat);
        return isNaN(value) || Math.abs(value - wrote) <= 2e-5 * Math.max(Math.abs(wrote), 1e-4) ? '' : `op ${i} ${op.kind}.${o.operand}: ${value} instead of ${wrote}`;
    })).filter(Boolean)""")
    assert not wrong, wrong


def the_text_says_its_loss(browser):
    browser.open(make("gpt2"))
    walk = walk_of(browser)
    losses = next(op for op in walk["ops"] if op["kind"] == "crossentropy_forward")["operands"][2]["values"]
    shown = browser.js("[...document.querySelectorAll('#logits tbody tr')].map((r) => Number(r.cells[3].textContent))")
    assert len(shown) == 32 and all(abs(a - b) < 1e-5 for a, b in zip(shown, losses))
    assert browser.count("#loss-text .token") == 33


def live(browser, script, *arguments):
    """Runs a script that awaits what the page computes."""
    failed = browser.driver.execute_async_script(
        "const done = arguments[arguments.length - 1], given = [...arguments]; (async () => {" + script + "})().then(() => done(''), (e) => done(String(e)))", *arguments)
    assert not failed, failed


def the_page_computes_again(browser):
    """Every number of a step that the page computed is walk's: of the same text, of another, and of changed numbers."""
    changes = {"gpt2": ("", "h.0.attproj[*,0:32]=0;wte.weight[3,5]=0.25"), "trained": ("", "mask[*]=0", "line[3]=0"),
               "llama": ("h.1.act[0:40]*2", "mask[1]=0;line[0]=0"), "qwen3": ("h.1.act[0:7]=0.5", "line[*]=0;mask[0]=0")}
    page_of = None
    for name, edits in ((name, edits) for name, all_edits in changes.items() for edits in all_edits):
        if name != page_of:
            browser.open(make(name))
            page_of = name
        live(browser, "live.state.edits = given[0] ? given[0].split(';') : []; await live.update();", edits)
        assert browser.text("#live-says").startswith("computed in"), browser.text("#live-says")
        got = with_checksums(json.loads(browser.js(CHECKSUMS)))
        wanted = with_checksums(walk_of(browser, " --set " + shlex.quote(edits) if edits else ""))
        for op in got["ops"]:
            for of in (part for operand in op["operands"] for part in (operand, operand.get("before", {}))):
                of.update({"norm": float(f"{of['norm']:.12g}")} if "norm" in of else {})
        wrong = differences(got, wanted)
        assert not wrong, f"{name} {edits}: {len(wrong)} differ: {wrong[:5]}"
        if edits.startswith(("mask", "line")):  # the equations say what was taken
            wrong, _ = browser.js(FOLLOW, 2e-5)
            assert not wrong, f"{name} {edits}: {wrong}"
        noticed = browser.text("#live-noticed")
        assert ("First to notice" in noticed) == bool(edits), f"{name} {edits}: {noticed}"
    browser.driver.get("about:blank")
    browser.driver.get(make("gpt2").as_uri() + "#text=another%20text&set=h.1.fc%5B0%5D%3D1&op=gelu_forward")
    browser.until("document.getElementById('live-says').textContent.startsWith('computed')")
    assert browser.js("step.walk.data") == "the text: another text" and "gelu_forward" in browser.text("#now")
    assert browser.js("step.walk.targets.filter((id) => id >= 0).length") == len("another text") - 1
    assert browser.text("#live-edits").startswith("h.1.fc[0]=1")
    browser.click("#live-edits button")
    browser.until("document.querySelectorAll('#live-edits li').length === 0")
    browser.js("document.getElementById('live-edit').value = 'h.9[0]=1'; document.getElementById('live-change').click(); return 0")
    browser.until("document.getElementById('live-says').textContent.includes('h.9: no tensor')")
    browser.js("live.pick({tensor: 'wte.weight', flat: 3}, 0.5); return 0")  # and is dragged: the last of three values stays
    browser.js("const s = document.getElementById('live-slider'); [0.1, 0.2, -0.3].forEach((x) => { s.value = x; s.dispatchEvent(new Event('input')); }); return 0")
    browser.until("document.getElementById('live-says').textContent.startsWith('computed')")
    assert browser.text("#live-edits").startswith("wte.weight[3]=-0.3") and browser.count("#live-edits li") == 1
    assert abs(browser.js("step.valueAt('wte.weight', 3, 0)") + 0.3) < 1e-6


def the_page_reads_as_the_tokenizer_does(browser):
    """Texts in all scripts, with an added token, cut and merged in the page as in the program."""
    words = pathlib.Path(folder.name, "words")
    text = "It's the step's 42nd: na\u00efve caf\u00e9s \u4f60\u597d,  \u0928\u092e\u0938\u094d\u0924\u0947\n\t\ufeff\U0001f600 <|endoftext|>we'll see\u00a0it   !"
    subprocess.run([stepmark, "tokenize", "--vocab-size", "400", "--output", words, "README.md"], check=True, capture_output=True)
    flags = ["--tokenizer", words, "--vocab", "410", "--seq-len", "40", "--train-steps", "0"]
    browser.open(make("words", *flags, "--backend", "none", "--text", "the step " * 30))
    wanted = json.loads(subprocess.run([stepmark, "walk", "--full", "-o", "json", *flags, "--text", text], check=True, capture_output=True).stdout)
    browser.js("document.getElementById('live-text').value = arguments[0]; document.getElementById('live-compute').click(); return 0", text)
    browser.until("document.getElementById('live-says').textContent.includes('computed in')")
    got = json.loads(browser.js("JSON.stringify(step.whole())"))
    assert got["tokens"] == wanted["tokens"] and got["targets"] == wanted["targets"], (got["tokens"], wanted["tokens"])
    losses = [next(o["values"] for op in walk["ops"] for o in op["operands"] if o["operand"] == "losses") for walk in (got, wanted)]
    assert not differences(*losses)


def the_page_trains(browser):
    """As the program does, to the bit; and a gradient by hand is the backward's."""
    for name in ("gpt2", "trained"):
        browser.open(make(name))
        browser.js("document.getElementById('live-train-10').click(); return 0")
        browser.until("document.getElementById('live-equal')")
        browser.js("document.getElementById('live-train-10').click(); return 0")
        browser.until("document.getElementById('live-training').innerText.includes('step 20')")
        assert browser.text("#live-equal") == "Equal to the program’s losses, 12 of 12."
        browser.js("document.getElementById('live-nudge').click(); return 0")
        browser.until("document.getElementById('live-slopes')")
        errors = browser.js("[...document.querySelectorAll('#live-slopes tbody tr')].map((r) => Number(r.cells[2].textContent.replace(/[%,]/g, '')))")
        assert len(errors) == 8 and min(errors) < 5, errors


def twenty_steps_are_the_programs(browser):
    """All weights and the optimizer's state after 20 steps on one batch, to the bit."""
    batch = pathlib.Path(folder.name, "batch.txt")
    batch.write_text("An odd text.")
    for model in ("--n-layer 2", "--arch llama --n-kv-head 1 --d-model 20", "--arch qwen3 --d-model 12 --optimizer lion", "--mode fused --d-model 40 --precision fp8"):
        flags = ["--data", batch, "--data-format", "bytes", "--seq-len", "11", *model.split()]
        browser.open(make("batch", *flags, "--train-steps", "0", "--backend", "none"))
        for _ in range(2):
            before = browser.js("live.training.losses.length")
            browser.js("document.getElementById('live-train-10').click(); return 0")
            browser.until(f"live.training.losses.length === {before + 10} && document.getElementById('live-training').innerText.includes('step {before + 10}')")
        wanted = json.loads(subprocess.run([stepmark, "walk", *flags, "--train-steps", "20", "--full", "-o", "json"], check=True, capture_output=True).stdout)
        got = dict(browser.js("return live.training.engine.names.map((name, i) => [name, step.tensor(name).role.match(/parameters|optimizer/) ? [...live.training.engine.read(i)] : null])"))
        of = [t for t in wanted["tensors"] if t["role"] in ("parameters", "optimizer") and t["name"] not in ("hyper",)]
        wrong = [t["name"] for t in of if [struct.pack("f", x) for x in t["values"]] != [struct.pack("f", x) for x in got[t["name"]]]]
        assert len(of) > 5 and not wrong, f"{model}: {wrong}"


def a_step_in_slices_is_computed(browser):
    """4 layers of 128 channels and 64 tokens: what the page has of it is the program's, and its losses are."""
    assert make("larger").stat().st_size < 11e6
    browser.open(make("larger"))
    norms = "JSON.stringify(step.walk.ops.map((op) => op.operands.map((o) => [o.norm.toPrecision(6), o.before?.norm.toPrecision(6)])))"
    before = browser.js(norms)
    live(browser, "const bar = document.getElementById('live-bar'), seen = []; new MutationObserver(() => seen.push(bar.value)).observe(bar, {attributes: true});"
         "await live.update(); window.seen = seen;")
    assert browser.js("seen.length > 1 && seen.every((x, i) => i === 0 || x >= seen[i - 1]) && document.getElementById('live-bar').hidden")
    assert browser.text("#live-noticed") == "Every number is the program’s." and browser.js(norms) == before
    for _ in range(2):
        browser.js("document.getElementById('live-train-1').click(); return 0")
        browser.until("live.training.losses.length && document.getElementById('live-equal')")
    browser.until("document.getElementById('live-equal').textContent.endsWith('2 of 2.')")


def the_live_part_is_for_everybody(browser):
    """Text is never markup, also from the address; each control has a name and the keyboard; a phone shows it."""
    browser.screen(390, 800, True)
    browser.driver.get("about:blank")
    browser.driver.get(make("trained").as_uri() + "#text=%3Cimg%20src%3Dx%20onerror%3D%22document.title%3D%27bad%27%22%3E&set=%3Cb%3Ebad%3C%2Fb%3E%5B0%5D%3D1;mask%5B*%5D%3D0")
    browser.until("document.getElementById('live-says').textContent.includes('no tensor of this step')")
    assert browser.count("img") == 0 and browser.count("#live b") == 2 and browser.js("document.title") != "bad"
    live(browser, "await live.addEdits(['mask[*]=0', 'line[0]=0']);")
    assert browser.count("#live-edits li") == 2 and "First to notice" in browser.text("#live-noticed")
    browser.js("document.getElementById('live-text').value = 'a'; document.getElementById('live-text').focus(); return 0")
    browser.press(Keys.TAB, Keys.ENTER)
    browser.until("document.getElementById('live-says').textContent.includes('two bytes')")
    nameless = browser.js("""[...document.querySelectorAll('#live button, #live input, #live select, #live textarea, .lesson button')]
        .filter((e) => !(e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label')) || e.tabIndex < 0).map((e) => e.outerHTML)""")
    assert not nameless, nameless
    browser.expect_no_sideways_scroll()


def lessons_ask(browser):
    """Each lesson names its place on the page, and the page its file; a guess is answered by what is computed."""
    for name in ("trained", "llama", "qwen3"):
        browser.open(make(name))
        asked = []
        for n in range(1, 13):
            if browser.js("lessons.at(arguments[0])", n) < 0:
                continue
            asked.append(n)
            browser.js("location.hash = 'lesson=' + arguments[0]; return 0", n)
            browser.until(f"[...document.querySelectorAll('.lesson')].some((e) => e.getAttribute('aria-label') === 'lesson {n}')")
            browser.js("document.querySelector(`.lesson[aria-label='lesson ${arguments[0]}'] button`).click(); return 0", n)
            browser.until(f"document.querySelector('.lesson[aria-label=\"lesson {n}\"] .answer').textContent")
            answer = browser.text(f".lesson[aria-label='lesson {n}'] .answer")
            assert re.match("Yes|No: ", answer) and "NaN" not in answer and "undefined" not in answer, f"{name} {n}: {answer}"
        assert asked == list(range(1, 13)) or name == "qwen3", asked
    for path in pathlib.Path("docs/course").glob("[0-9]*.md"):
        assert f"step.html#lesson={int(path.name[:2])}" in path.read_text(), path


def a_students_kernel_runs(browser):
    """In place of the reference's: right everywhere, or the step shows its first wrong number."""
    page_file = pathlib.Path(folder.name, "kernel.html")
    for kind, line, wrong in (("gelu_forward", "for (int64_t i = 0; i < n; i++) y[i] = 0.5f * x[i] * (1 + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));", None),
                              ("gelu_forward", "for (int64_t i = 0; i < n; i++) y[i] = i == 70 ? 3 : 0.5f * x[i] * (1 + tanhf(0.7978845608f * (x[i] + 0.044715f * x[i] * x[i] * x[i])));", "op 14: h.0.gelu[0,0,70] is 3,"),
                              ("residual", "for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];", None),
                              ("bias_backward", "for (int64_t r = 0; r < N; r++) for (int64_t c = 0; c < C; c++) db[c] += dy[r * C + c];", None),
                              ("bias_backward", "for (int64_t r = 0; r < N; r++) for (int64_t c = 0; c < C; c++) db[c] = dy[r * C + c];", "is "),
                              ("matmul_backward_weight", "", "is ")):
        subprocess.run([stepmark, "exercise", kind, "--init", folder.name], check=True, capture_output=True)
        source = pathlib.Path(folder.name, kind + ".c")
        source.write_text(source.read_text().replace("// Your code.", line))
        done = subprocess.run([stepmark, "exercise", kind, "--check", source, "--no-peaks", "--page", page_file], capture_output=True, text=True)
        assert (done.returncode == 0) == (wrong is None), done
        source.unlink()
        browser.open(page_file)
        browser.until("document.getElementById('live-says').textContent.includes('computed in')")
        said = browser.text("#kernel-says")
        assert wrong in said if wrong else said.startswith("Your kernel is right in each of the"), f"{kind}: {said}"
        if wrong:
            browser.click("#kernel-first")
            assert browser.text("#op").split()[2] == kind
        else:
            browser.js("document.getElementById('live-train-10').click(); return 0")
            browser.until("document.getElementById('live-training').innerText.includes('step 10')")
        browser.click("#kernel-on")
        browser.until("document.getElementById('kernel-says').textContent.startsWith('The reference')")
        browser.until("document.getElementById('live-noticed').textContent.startsWith('Every number is')")


def parts_are_there(browser):
    for name, heads, hinted in (("gpt2", 4, 0), ("llama", 4, 0), ("dropout", 8, 2)):
        browser.open(make(name))
        assert browser.count("#attention canvas") == heads, name
        assert browser.js("[...document.querySelectorAll('#attention figcaption')].filter((e) => e.textContent.includes('computed here')).length") == hinted, name
        assert browser.count("svg.memory") == 2 and browser.count("svg.memory .place") > 40
        assert browser.count("#fusion-table tbody tr") > 8
        assert browser.count("#activations tbody tr") > 20 and browser.count("#weights tbody tr") > 15
    # A vocabulary is padded to a multiple of 64: no statistic counts what pads it.
    browser.open(make("llama"))
    labels = browser.js("[...document.querySelectorAll('svg.histogram')].map((e) => e.getAttribute('aria-label'))")
    for name, count in (("lm_head.weight", 250 * 32), ("d.model.embed_tokens.weight", 250 * 32), ("logits", 250 * 12), ("d.logits", 250 * 12)):
        assert any(label.startswith(f"{name}: {count} values") for label in labels), f"{name}: {[label for label in labels if name in label]}"
    browser.open(make("gpt2"))
    rows = browser.js("[...document.querySelectorAll('#fusion-table tbody tr')].map((r) => r.innerText)")
    assert any("bias_forward" in row and "gelu_forward" in row and "h.0.fc" in row for row in rows), rows


def fits_phone_dark_and_paper(browser):
    for dark in (False, True):
        for name in models:
            browser.open(make(name), width=390, height=800, dark=dark)
            browser.expect_no_sideways_scroll()
            over = browser.js("[...document.querySelectorAll('.model g.op')].filter((g) => g.querySelector('text').getBoundingClientRect().right > g.querySelector('rect').getBoundingClientRect().right).map((g) => g.textContent)")
            assert not over, f"{name}: texts wider than their boxes: {over}"
            unnamed = browser.js("step.walk.tensors.map((t) => t.name).filter((name) => !names.of(name))")
            assert not unnamed, f"{name}: tensors without a name for people: {unnamed}"
        browser.click("#on")
    browser.open(make("llama"), dark=True)
    assert browser.js("getComputedStyle(document.body).backgroundColor") != "rgb(251, 251, 252)"
    assert 2 <= browser.print(pathlib.Path(folder.name, "page.pdf")) <= 30


def every_kind_is_explained(browser):
    """Also those that only some plans have."""
    for flags in ("--arch llama --mode fused --dropout 0.1", "--optimizer muon --n-layer 1 --d-model 16", "--optimizer adafactor --precision fp16",
                  "--optimizer adamw8bit --attention naive", "--optimizer lion --recompute block", "--optimizer sgd", "--arch qwen3 --optimizer adam", "--precision fp8"):
        path = make("kinds", *"--backend none --seq-len 12 --train-steps 0".split(), *flags.split())
        data = json.loads(re.search(r'id="step-data">(.*?)</script>', path.read_text(), re.S)[1])
        browser.open(path)
        wrong, _ = browser.js(FOLLOW, 2e-2 if "fp8" in flags else 2e-3 if "fp16" in flags else 2e-5)
        assert not wrong, f"{flags}: {wrong}"
        for kind, entry in data["kinds"].items():
            backends = {source["backend"] for source in entry["sources"]}
            assert backends == {"reference", "cpu", "opencl"} or kind in ("cast_fp8", "scale_update"), f"{flags}: {kind} has sources of {backends}"
            assert entry["text"].strip(), f"{kind} has no equations"


def what_is_not_finite_has_no_scale(browser):
    """An amax of Infinity or NaN: the scale is NaN, and the history keeps 0, as reference/kernels/fp8.c has it."""
    browser.open(make("kinds", *"--backend none --seq-len 12 --train-steps 0 --n-layer 1 --precision fp8".split()))
    wrong = browser.js("""const i = step.walk.ops.findIndex((op) => op.kind === 'scale_update'), before = step.valuesAt;
        const amax = step.operandOf(step.walk.ops[i], 'amax').tensor, made = (name) => trace.makersOf(i, name, 0).value;
        const wrong = made('scale') > 0 ? [] : [made('scale')];
        for (const bad of [Infinity, NaN]) {
            step.valuesAt = (tensor, at) => before(tensor, at).map((x) => (tensor === amax && at === 2 * i ? bad : x));
            if (!Number.isNaN(made('scale')) || made('history') !== 0) wrong.push([String(bad), String(made('scale')), made('history')]);
        }
        const cast = step.walk.ops.findIndex((op) => op.kind === 'cast_fp8'), x = step.operandOf(step.walk.ops[cast], 'x').tensor;
        step.valuesAt = (tensor, at) => before(tensor, at).map((value, k) => (tensor === x && k === 0 ? NaN : value));
        const largest = trace.makersOf(cast, 'amax', 0).value; // NaN has no part in it
        if (!(largest > 0)) wrong.push(['amax', String(largest)]);
        step.valuesAt = before;
        return wrong;""")
    assert not wrong, wrong


def is_small(browser):
    for name in models:
        size = make(name).stat().st_size
        assert size <= 3e6, f"{name}: {size} bytes"


def the_module_is_lacking(browser):
    browser.open(make("gpt2"))
    assert "clang for wasm32" in browser.text("#live-lacks")


of_module = [the_page_computes_again, the_page_reads_as_the_tokenizer_does, the_page_trains, twenty_steps_are_the_programs, a_step_in_slices_is_computed,
             the_live_part_is_for_everybody, lessons_ask, a_students_kernel_runs]
lacks = '"lacks":' in make("gpt2").read_text()
main("the page of a step", [numbers_are_walks, every_op_opens, player_plays, a_cell_says_its_value, a_number_is_followed, large_models_show_slices, the_text_says_its_loss,
                            *([the_module_is_lacking] if lacks else of_module), parts_are_there, fits_phone_dark_and_paper, every_kind_is_explained,
                            what_is_not_finite_has_no_scale, is_small])

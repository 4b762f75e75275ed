// step_trace.js: reads the equations of step_rules.js: computes an element of an op's output from the values that the
// op read, says which these were, and, the other way, which elements an input's element goes into. `trace` here.
const trace = (() => {
    const {walk} = step;

    // --- an equation, as step_math.js reads it ---
    const parse = (text) => {
        const [{name, index}, {word}, right = {kind: 'product', parts: []}] = math.parse(text); // what is left out has none
        return {text, name, index, adds: word === '+=', right};
    };
    const childrenOf = (node) => ({sum: () => node.parts.map((part) => part.node), product: () => node.parts, ratio: () => [node.above, node.below], power: () => [node.base, node.up],
        group: () => [node.inner], call: () => node.inputs, where: () => [node.left, node.right], over: () => [node.body], entry: () => node.index}[node.kind]?.() || []);
    // Every node, with the conditions on whose product it stands.
    const visit = (node, see, conditions = []) => {
        see(node, conditions);
        const here = node.kind === 'product' ? [...conditions, ...node.parts.filter((part) => part.kind === 'where')] : conditions;
        for (const child of childrenOf(node)) visit(child, see, here);
    };

    // --- the equations of an op ---
    const hyper = ['lr', 'beta1', 'beta2', 'eps', 'wd', 'bc1', 'bc2', 'max_norm', 'loss_share', 'momentum', 'nesterov', 'rho', 'eps2', 'd', 'growth', 'backoff', 'interval'];
    const reads = (operand) => operand.access !== 'writes';
    // Operands whose shape's letters are exchanged where w_transposed is set.
    const turned = (kind) => (/^matmul/.test(kind) ? ['W', 'dW'] : ['x']);
    // The letters of the operands' shapes, and the attributes, under the names of the equations.
    const factsOf = (op) => {
        const {n_head: NH, n_kv_head: NKV, vocab: V, rope_theta: theta, dropout_p: rate, ...others} = op.attributes;
        const facts = {...others, NH, NKV, theta, rate, pi: Math.PI};
        for (const {operand, shape, full_dims: full, dims: shown} of op.operands) {
            const dims = full || shown;
            if (op.attributes.w_transposed && turned(op.kind).includes(operand)) continue;
            const letters = shape.slice(1, -1).split(',');
            const n = step.count(dims);
            const sides = letters.length === 1 ? [n] : letters.length === 2 ? [n / dims[dims.length - 1], dims[dims.length - 1]] : dims;
            letters.forEach((letter, k) => { if (/^[A-Z]{1,3}$|^n$/.test(letter)) facts[letter] ??= sides[k]; });
        }
        if (V) facts.V = V;
        if (NH) facts.HS ??= facts.QKV ? facts.QKV / (NH + 2 * NKV) : facts.C / NH;
        return facts;
    };
    const chosen = (text, op) => {
        const has = (name) => op.operands.some(({operand}) => operand === name) || Boolean(name === 'rate' ? op.attributes.dropout_p : op.attributes[name]);
        return text.replace(/\{([^?{}]+)\?([^{}]*)\}/g, (_, conditions, inner) =>
            (conditions.split('&').every((name) => (name[0] === '!' ? !has(name.slice(1)) : has(name))) ? inner.replace(/^ (?! )/, '') : ''));
    };
    const made = new Map();
    const equationsOf = (i) => {
        const op = walk.ops[i];
        if (made.get(i)?.cut !== Boolean(op.attributes.cut)) {
            const lines = (rules[op.kind] || '').split('\n').map((line) => chosen(line, op).replace(/ +/g, ' ').trim()).filter(Boolean).map(parse);
            for (const line of lines) {
                const operand = step.operandOf(op, line.name);
                if (line.adds && operand && !reads(operand)) Object.assign(line, {adds: false, text: line.text.replace('+=', '=')});
            }
            made.set(i, {i, op, lines, facts: factsOf(op), extents: new Map(), cut: Boolean(op.attributes.cut)});
        }
        return made.get(i);
    };

    // --- places ---
    // The sides by which n indices see an operand.
    const sidesOf = (it, dims, n) => {
        const last = dims[dims.length - 1];
        if (n <= 1) return [step.count(dims)];
        if (n === dims.length) return dims;
        if (n === 2) return [step.count(dims) / last, last];
        return [...dims.slice(0, -1), last / it.facts.HS, it.facts.HS];
    };
    const flatOf = (sides, index) => index.reduce((flat, x, k) => flat * sides[k] + x, 0);
    const linesOf = (it, name) => it.lines.filter((line) => line.name === name);
    const isLocal = (it, name) => !step.operandOf(it.op, name) && linesOf(it, name).length > 0;

    // How many values a letter of a line takes.
    const isLetter = (node) => node.kind === 'entry' && node.index.length === 0 && /^[a-z]$/.test(node.name);
    const fixed = (it, letter) => ({h: it.facts.NH, g: it.facts.NKV, k: it.facts.NH + it.facts.NKV, e: it.facts.HS / 2, f: it.facts.F}[letter]);
    const extentOf = (it, line, letter) => {
        const key = line.text + '|' + letter;
        if (it.extents.has(key)) return it.extents.get(key);
        let extent = fixed(it, letter);
        const look = (node) => {
            if (extent > 0 || node.kind !== 'entry') return;
            const k = node.index.findIndex((part) => isLetter(part) && part.name === letter);
            const operand = step.operandOf(it.op, node.name.replace(/'$/, ''));
            if (k < 0) return;
            if (operand) extent = sidesOf(it, step.sidesOf(operand), node.index.length)[k];
            else if (node.name === 'keep') extent = it.facts.n;
            else if (isLocal(it, node.name) && node !== line) {
                const other = linesOf(it, node.name)[0];
                if (other !== line && isLetter(other.index[k])) extent = extentOf(it, other, other.index[k].name);
            }
        };
        it.extents.set(key, undefined); // not asked again on the way
        look({...line, kind: 'entry'});
        visit(line.right, look);
        it.extents.set(key, extent || 256);
        return extent || 256;
    };
    const lettersIn = (node, bound) => {
        const found = [];
        visit(node, (part) => { if (isLetter(part) && !(part.name in bound)) found.push(part.name); });
        return [...new Set(found)];
    };
    // Letters of a line: those of its left side, and those that it sums over.
    const lettersOf = (line) => {
        if (line.letters) return line.letters;
        line.letters = new Set(line.index.flatMap((node) => lettersIn(node, {})));
        visit(line.right, (node) => { if (node.kind === 'over') line.letters.add(node.letter); });
        return line.letters;
    };
    // Gives the letters of a line numbers, until `found` says enough: all by which each of the tests holds, [node, whether
    // its value will do, the values that will (null: too many to say)].
    const MOST_PLACES = 20000;
    const solve = (it, line, tests, found) => {
        const ctx = contextOf(it);
        let n = 0;
        const go = (k, bound) => {
            if (k === tests.length) return found(bound, ctx);
            const [node, holds, list] = tests[k];
            const letter = lettersIn(node, bound).find((name) => lettersOf(line).has(name));
            if (letter === undefined) return holds(evaluate(node, {...bound, line}, ctx)) && go(k + 1, bound);
            const extent = extentOf(it, line, letter);
            if (list && isLetter(node)) return list.some((x) => x < extent && go(k + 1, {...bound, [letter]: x}));
            for (let x = 0; x < extent && n++ < MOST_PLACES; x++) if (go(k, {...bound, [letter]: x})) return true;
            return false;
        };
        go(0, {});
    };
    // The letters of a line that make its left side these indices; null: none do.
    const bind = (it, line, index) => {
        let letters = null;
        solve(it, line, line.index.map((node, k) => [node, (value) => value === index[k], [index[k]]]), (bound) => Boolean(letters = bound));
        return letters;
    };

    // --- computing ---
    const philox = (key, low, high) => {
        let [c0, c1, c2, c3] = [BigInt(low), 0n, BigInt(high), 0n];
        let k0 = key & 0xffffffffn, k1 = key >> 32n;
        for (let round = 0; round < 10; round++) {
            const p0 = 0xD2511F53n * c0, p1 = 0xCD9E8D57n * c2;
            [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, p1 & 0xffffffffn, (p0 >> 32n) ^ c3 ^ k1, p0 & 0xffffffffn];
            k0 = (k0 + 0x9E3779B9n) & 0xffffffffn;
            k1 = (k1 + 0xBB67AE85n) & 0xffffffffn;
        }
        return [c0, c1, c2, c3].map(Number);
    };
    const keeps = (ctx, index) => {
        const {B, NH, T} = ctx.it.facts;
        const element = index.length === 1 ? index[0] : flatOf([B, NH, T, T], index);
        const key = BigInt(ctx.it.op.attributes.rng_key);
        const word = philox(key, Math.floor(element / 4), valuesOf(ctx, 'rng_step', false)[0])[element % 4];
        return word >= Math.floor(ctx.it.facts.rate * 2 ** 32) ? 1 : 0;
    };
    // AdamW's moments in bytes: 256 values between -1 and 1, denser near 0.
    const rankValue = (signed, rank) => {
        let bins = signed ? 1 : 2, bin = rank - 1, decade = 0;
        for (; bin >= bins && decade < 7; decade++) { bin -= bins; bins *= 2; }
        return rank === 0 ? 0 : decade === 7 ? 1 : 10 ** (decade - 7) * (1 + 9 * (bin + .5) / bins);
    };
    const mapM = (code) => (code < 127 ? -rankValue(true, 127 - code) : rankValue(true, code - 127));
    const mapV = (code) => rankValue(false, code);
    const codes = Array.from({length: 256}, (_, code) => code);
    const nearest = (map, x) => codes.reduce((best, code) => (Math.abs(map(code) - (x || 0)) < Math.abs(map(best) - (x || 0)) ? code : best));
    // To the nearest of 8 bits, ties to even.
    const fp8 = (digits, least, largest, x) => {
        const unit = 2 ** (Math.max(Math.floor(Math.log2(Math.abs(x))), least) - digits), n = Math.round(x / unit);
        return Math.max(-largest, Math.min((n - (n % 2 !== 0 && n - x / unit === .5)) * unit, largest));
    };
    const functionsOf = (it) => ({exp: Math.exp, log: Math.log, log2: Math.log2, tanh: Math.tanh, sqrt: Math.sqrt, max: Math.max, min: Math.min, abs: Math.abs, sign: Math.sign, finite: (x) => Number(Number.isFinite(x)), sin: Math.sin, cos: Math.cos, floor: Math.floor,
        group: (h) => Math.floor(h * it.facts.NKV / it.facts.NH),
        map_m: mapM, map_v: mapV, code_m: (x) => nearest(mapM, x), code_v: (x) => nearest(mapV, x),
        fp8: (x) => fp8(...(step.operandOf(it.op, 'rows').dtype === 'e4m3' ? [3, -6, 448] : [2, -14, 57344]), x)});
    const signs = {'=': (a, b) => a === b, '<': (a, b) => a < b, '>': (a, b) => a > b, '<=': (a, b) => a <= b, '>=': (a, b) => a >= b};

    const contextOf = (it) => ({it, values: new Map(), memo: new Map(), n: 0, depth: 0, seen: null, functions: functionsOf(it)});
    // An operand before the op, or after it.
    const momentOf = (it, operand, isAfter) => 2 * it.i + (isAfter || !reads(operand) ? 1 : 0);
    const valuesOf = (ctx, name, isAfter) => {
        const key = name + isAfter;
        if (!ctx.values.has(key)) {
            const operand = step.operandOf(ctx.it.op, name);
            ctx.values.set(key, step.valuesAt(operand.tensor, momentOf(ctx.it, operand, isAfter)).slice());
        }
        return ctx.values.get(key);
    };
    const MOST_READS = 400000; // of a large op more is no answer
    const read = (ctx, name, flat, isAfter) => {
        if (ctx.n++ > MOST_READS) throw new RangeError('too many values');
        const value = valuesOf(ctx, name, isAfter)[step.slicePlace(step.operandOf(ctx.it.op, name).tensor, flat)] ?? NaN;
        ctx.seen?.(name, flat, isAfter, value, ctx.depth);
        return value;
    };
    const local = (ctx, name, index) => {
        const key = name + index;
        if (!ctx.memo.has(key)) {
            ctx.depth++;
            for (const line of linesOf(ctx.it, name)) {
                const bound = bind(ctx.it, line, index);
                if (bound) { ctx.memo.set(key, evaluate(line.right, {...bound, line}, ctx)); break; }
            }
            ctx.depth--;
        }
        ctx.seen?.(name, index, null, ctx.memo.get(key), ctx.depth);
        return ctx.memo.get(key);
    };
    const entry = (node, bound, ctx) => {
        const {it} = ctx;
        const {index} = node;
        if (index.length === 0 && node.name in bound) return bound[node.name];
        const isAfter = node.name.endsWith('\'');
        const name = isAfter ? node.name.slice(0, -1) : node.name;
        const at = index.map((part) => evaluate(part, bound, ctx));
        const operand = step.operandOf(it.op, name);
        if (operand && !(index.length === 0 && step.count(step.sidesOf(operand)) > 1)) return read(ctx, name, flatOf(sidesOf(it, step.sidesOf(operand), index.length), at), isAfter);
        if (isLocal(it, name)) return local(ctx, name, at);
        if (name === 'keep') return keeps(ctx, at);
        if (it.facts[name] !== undefined) return it.facts[name];
        if (hyper.includes(name)) return read(ctx, 'hyper', hyper.indexOf(name), false);
        throw new Error(`${it.op.kind}: what is ${name}?`);
    };
    const over = (node, bound, ctx, each) => {
        const n = extentOf(ctx.it, bound.line, node.letter);
        let total = 0;
        if (each) ctx.begin();
        for (let x = 0; x < n; x++) {
            const value = evaluate(node.body, {...bound, [node.letter]: x}, ctx);
            each?.(x, value);
            total = node.what === 'max' ? Math.max(total, value) : total + value;
        }
        return total;
    };
    const evaluate = (node, bound, ctx) => {
        switch (node.kind) {
        case 'number': return node.value;
        case 'group': return evaluate(node.inner, bound, ctx);
        case 'entry': return entry(node, bound, ctx);
        case 'call': return ctx.functions[node.name](...node.inputs.map((input) => evaluate(input, bound, ctx)));
        case 'where': return signs[node.sign](evaluate(node.left, bound, ctx), evaluate(node.right, bound, ctx)) ? 1 : 0;
        case 'power': return evaluate(node.base, bound, ctx) ** evaluate(node.up, bound, ctx);
        case 'over': return over(node, bound, ctx, ctx.depth === 0 && ctx.outermost === node ? ctx.each : null);
        case 'ratio': {
            const above = evaluate(node.above, bound, ctx);
            return above === 0 ? 0 : above / evaluate(node.below, bound, ctx);
        }
        case 'sum': return node.parts.reduce((total, part) => total + part.sign * evaluate(part.node, bound, ctx), 0);
        default: { // a product ends where a condition does not hold
            let total = 1;
            for (const part of node.parts) {
                total *= evaluate(part, bound, ctx);
                if (total === 0 && part.kind === 'where') return 0;
            }
            return total;
        }
        }
    };

    // --- backward: what made it ---
    // The first sum of an equation, whose terms are worth a look.
    const firstSum = (node) => (node.kind === 'over' ? node : childrenOf(node).map(firstSum).find(Boolean));
    const innermost = (node) => (node && node.body.kind === 'over' ? innermost(node.body) : node);

    const valueOfLine = (line, bound, ctx, before) => {
        try {
            return before + evaluate(line.right, {...bound, line}, ctx);
        } catch (problem) {
            if (problem instanceof RangeError) return NaN;
            throw problem;
        }
    };
    // Element `flat` of output `name` of op i: {equation, letters, value, reads: [{name, flat, isAfter, value}], terms, names}.
    const makersOf = (i, name, flat) => {
        const it = equationsOf(i);
        const operand = step.operandOf(it.op, name);
        for (const line of linesOf(it, name)) {
            const index = step.indicesOf(sidesOf(it, step.sidesOf(operand), line.index.length), flat).slice(0, line.index.length || 0);
            const bound = bind(it, line, index);
            if (!bound) continue;
            const ctx = contextOf(it);
            const all = new Map();
            const names = new Map();
            const terms = [];
            let direct = [];
            ctx.seen = (what, at, isAfter, value, depth) => {
                if (isAfter === null) { if (names.size < 40) names.set(`${what}[${at}]`, value); }
                else all.set(`${what}|${at}|${isAfter}`, {name: what, flat: at, isAfter, value});
                if (depth === 0) direct.push({name: what, at, isAfter, value});
            };
            ctx.outermost = innermost(firstSum(line.right));
            ctx.begin = () => { direct = []; };
            ctx.each = (x, value) => {
                if (value !== 0) terms.push({letter: ctx.outermost.letter, at: x, value, parts: direct});
                direct = [];
            };
            if (line.adds) read(ctx, name, flat, false);
            const value = valueOfLine(line, bound, ctx, line.adds ? step.valueAt(operand.tensor, flat, 2 * i) : 0);
            const {line: _, ...letters} = bound;
            return {line, equation: line.text, letters, value, reads: [...all.values()], terms, names};
        }
        return null;
    };

    // --- forward: what it goes into ---
    // Sets of indices, each null (all) or a list, that differ in one index become one.
    const merge = (boxes) => {
        const n = boxes.length ? boxes[0].length : 0;
        let now = boxes;
        for (let k = 0; k < n; k++) {
            const groups = new Map();
            for (const box of now) {
                const key = JSON.stringify(box.filter((_, d) => d !== k));
                if (!groups.has(key)) groups.set(key, []);
                groups.get(key).push(box);
            }
            now = [...groups.values()].map((group) => {
                const merged = [...group[0]];
                merged[k] = group.some((box) => box[k] === null) ? null : [...new Set(group.flatMap((box) => box[k]))].sort((a, b) => a - b);
                return merged;
            });
        }
        return now;
    };
    // Where a line's left side lies if this entry of its right side has these indices (null: any).
    const leftOf = (it, line, node, conditions, wanted) => {
        const boxes = [];
        const known = (part, bound) => lettersIn(part, bound).every((letter) => !lettersOf(line).has(letter));
        const tests = [...node.index.map((part, k) => [part, (value) => wanted[k].includes(value), wanted[k]]).filter(([, , list]) => list),
            ...conditions.map((part) => [part, (value) => value !== 0]), ...line.index.filter((part) => !isLetter(part)).map((part) => [part, () => true])];
        solve(it, line, tests, (bound, ctx) => {
            boxes.push(line.index.map((part) => (known(part, bound) ? [evaluate(part, {...bound, line}, ctx)]
                : fixed(it, part.name) ? Array.from({length: fixed(it, part.name)}, (_, x) => x) : null)));
            return false;
        });
        return merge(boxes);
    };
    // Element `flat` of operand `name`, before op i: [{name, flats, n, sides, boxes}] of its outputs; flats is null where all.
    const goalsOf = (i, name, flat) => {
        const it = equationsOf(i);
        const operand = step.operandOf(it.op, name);
        const found = new Map(); // of each output its boxes
        const done = new Set();
        const put = (line, boxes) => {
            const key = line.name + line.index.length;
            if (!found.has(key)) found.set(key, {name: line.name, n: line.index.length, boxes: []});
            found.get(key).boxes.push(...boxes);
        };
        const go = (target, wantedOf) => {
            for (const line of it.lines) {
                visit(line.right, (node, conditions) => {
                    if (node.kind !== 'entry' || node.name !== target) return;
                    for (const wanted of wantedOf(node)) {
                        const boxes = leftOf(it, line, node, conditions, wanted);
                        const key = line.text + JSON.stringify(boxes);
                        if (!boxes.length || done.has(key)) continue;
                        done.add(key);
                        if (isLocal(it, line.name)) go(line.name, () => boxes);
                        else put(line, boxes);
                    }
                });
            }
        };
        if (name === 'hyper') go(hyper[flat], () => [[]]);
        else go(name, (node) => [step.indicesOf(sidesOf(it, step.sidesOf(operand), node.index.length), flat).slice(0, node.index.length).map((x) => [x])]);
        if (operand.access === 'adds to') put({name, index: [0]}, [[[flat]]]);
        return [...found.values()].map(({name: output, n, boxes}) => {
            const sides = sidesOf(it, step.sidesOf(step.operandOf(it.op, output)), n);
            return {name: output, flats: flatsOf(sides, n === 0 ? [[null]] : merge(boxes))};
        });
    };
    // The elements of boxes; null: too many to list.
    const flatsOf = (sides, boxes) => {
        const all = new Set();
        for (const box of boxes) {
            const lists = box.map((list, k) => list || Array.from({length: sides[k]}, (_, x) => x));
            if (lists.reduce((n, list) => n * list.length, 1) > 65536) return null;
            const fill = (k, flat) => { if (k === lists.length) all.add(flat); else for (const x of lists[k]) fill(k + 1, flat * sides[k] + x); };
            fill(0, 0);
        }
        return [...all].sort((a, b) => a - b);
    };

    // --- along the step ---
    const indexOfTensor = new Map(walk.tensors.map((tensor, i) => [tensor.name, i]));
    // Where an element lies: its memory, and its place there.
    const memoryOf = (name, flat) => {
        const i = indexOfTensor.get(name);
        return {root: step.plan.tensors[i].root, at: (walk.tensors[i].offset || 0) + flat};
    };
    const within = (operand, {root, at}) => {
        const i = indexOfTensor.get(operand.tensor);
        const flat = at - (walk.tensors[i].offset || 0);
        return step.plan.tensors[i].root === root && flat >= 0 && flat < step.count(step.sidesOf(operand)) ? flat : -1;
    };
    // The writer of the element that `name` holds at a moment, {op, operand, flat}; null: it was there before the step.
    const writerOf = (name, flat, moment) => {
        const place = memoryOf(name, flat);
        for (let i = Math.ceil(moment / 2) - 1; i >= 0; i--) {
            for (const operand of walk.ops[i].operands) {
                const at = step.isOutput(operand) ? within(operand, place) : -1;
                if (at >= 0) return {i, operand, flat: at};
            }
        }
        return null;
    };
    // Its readers, until something else lies there.
    const readersOf = (name, flat, moment) => {
        const place = memoryOf(name, flat);
        const found = [];
        for (let i = Math.ceil(moment / 2); i < walk.ops.length; i++) {
            let ends = false;
            for (const operand of walk.ops[i].operands) {
                const at = within(operand, place);
                if (at < 0) continue;
                if (reads(operand)) found.push({i, operand, flat: at});
                ends ||= step.isOutput(operand);
            }
            if (ends) return {readers: found, end: i};
        }
        return {readers: found, end: -1};
    };

    return {makersOf, goalsOf, writerOf, readersOf, momentOf: (i, operand, isAfter) => momentOf({i}, operand, isAfter), equationsOf};
})();

// step_values.js: the step's data. Values are a film of memory: changes of tensors, each with its moment; 2 i is before
// op i, 2 i + 1 after it. `step` here.
const step = (() => {
    const data = page.data('step-data');
    const {walk, plan, film} = data;
    const indexOf = new Map(walk.tensors.map((tensor, i) => [tensor.name, i]));

    // Of a large tensor the page has a slice: its first rows and columns. `dims` are then the slice's.
    for (const tensor of walk.tensors) if (tensor.slice) Object.assign(tensor, {full_dims: tensor.dims, dims: tensor.slice});
    for (const op of walk.ops) {
        for (const operand of op.operands) {
            const {full_dims: full, dims} = walk.tensors[indexOf.get(operand.tensor)];
            if (full) Object.assign(operand, {full_dims: full, dims});
        }
    }
    const sidesOf = (tensor) => tensor.full_dims || tensor.dims;
    const isCut = (tensor) => count(tensor.dims) < count(sidesOf(tensor));
    // From a place in the slice to that in the whole tensor, and back; -1: not on the page.
    const move = (flat, from, to) => {
        let place = 0, step = 1;
        for (let d = from.length - 1; d >= 0; d--) {
            const x = flat % from[d];
            if (x >= to[d]) return -1;
            place += x * step;
            step *= to[d];
            flat = Math.floor(flat / from[d]);
        }
        return place;
    };
    const fullPlace = (name, flat) => (isCut(tensor(name)) ? move(flat, tensor(name).dims, sidesOf(tensor(name))) : flat);
    const slicePlace = (name, flat) => (isCut(tensor(name)) ? move(flat, sidesOf(tensor(name)), tensor(name).dims) : flat);
    // "the first 32×64 of 768×3072"; '': all of it.
    const partText = (tensor) => (isCut(tensor) ? `the first ${tensor.dims.join('×')} of ${sidesOf(tensor).join('×')}` : '');

    // Of floats, the lowest byte first.
    const decode = (text) => new Float32Array(bytesOf(text).buffer);
    const bytesOf = (text) => {
        const letters = atob(text);
        const bytes = new Uint8Array(letters.length);
        for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
        return bytes;
    };
    const count = (dims) => dims.reduce((product, n) => product * n, 1);
    const indicesOf = (dims, flat) => dims.map((n, d) => Math.floor(flat / count(dims.slice(d + 1))) % n);

    // Of a film, the contents of a tensor with memory of its own; the last answer of each is kept, since readers go forward.
    const filmOf = (changes, stored) => {
        const changesOf = new Map();
        for (const change of changes) {
            const root = change[1];
            if (!changesOf.has(root)) changesOf.set(root, []);
            changesOf.get(root).push(change);
        }
        const apply = (memory, [, , offset, n, place, constant]) => {
            if (place < 0) memory.fill(constant, offset, offset + n);
            else memory.set(stored.subarray(place, place + n), offset);
        };
        const kept = new Map();
        return (root, moment) => {
            const own = changesOf.get(root) || [];
            let now = kept.get(root);
            if (!now || now.moment > moment) {
                now = {memory: new Float32Array(count(walk.tensors[root].dims)), next: 0, moment: -1};
                kept.set(root, now);
            }
            while (now.next < own.length && own[now.next][0] <= moment) apply(now.memory, own[now.next++]);
            now.moment = moment;
            return now.memory;
        };
    };
    const first = filmOf(film.changes, decode(film.values)); // the program's
    let shown = first; // the page's own, after its first
    film.values = null;

    // A tensor's values at a moment, row by row. Valid until the next question.
    const valuesIn = (memoryAt, name, moment) => {
        const i = indexOf.get(name);
        const {dims, offset = 0, slice} = walk.tensors[i];
        if (slice) return memoryAt(i, moment).subarray(0, count(dims));
        return memoryAt(plan.tensors[i].root, moment).subarray(offset, offset + count(dims));
    };
    const valuesAt = (name, moment) => valuesIn(shown, name, moment);
    const firstAt = (name, moment) => valuesIn(first, name, moment); // of the step that the program computed
    // An element by its place in the whole tensor; NaN: it is not on the page.
    const valueAt = (name, flat, moment) => valuesAt(name, moment)[slicePlace(name, flat)] ?? NaN;
    const tensor = (name) => walk.tensors[indexOf.get(name)];

    // An operand of op i: its value before the op, or after it if written.
    const momentOf = (i, operand) => 2 * i + (operand.access === 'reads' ? 0 : 1);
    const valuesOf = (i, operand) => valuesAt(operand.tensor, momentOf(i, operand));
    const operandOf = (op, name) => op.operands.find((operand) => operand.operand === name);
    const isOutput = (operand) => operand.access !== 'reads';

    // Shows another step of the same plan; summaries follow its values, as walk computes them.
    const summarize = (summary, values, norm) => {
        summary.norm = norm ?? Math.sqrt(values.reduce((sum, x) => sum + x * x, 0));
        summary.first = Array.from(values.subarray(0, summary.first.length));
    };
    const replace = (changes, stored, tokens, targets, data, norms) => {
        shown = filmOf(changes, stored);
        Object.assign(walk, {tokens, targets, data});
        walk.ops.forEach((op, i) => op.operands.forEach((operand) => {
            if (operand.before) summarize(operand.before, valuesAt(operand.tensor, 2 * i), norms.get(`${i} ${operand.operand} false`));
            summarize(operand, valuesOf(i, operand), norms.get(`${i} ${operand.operand} true`));
        }));
    };

    // --- the walk as JSON has it, every value in its place ---
    // Nine digits are those of one float alone; `list` makes something else of an operand's values.
    const numbers = (values) => Array.from(values, (value) => (isFinite(value) ? Number(value.toPrecision(9)) : null));
    const isInitial = (t) => ['parameters', 'optimizer', 'batch'].includes(t.role);
    const whole = (list = numbers) => ({
        ...walk,
        tensors: walk.tensors.map((t) => (isInitial(t) ? {...t, values: list(valuesAt(t.name, 0))} : t)),
        ops: walk.ops.map((op, i) => ({...op, operands: op.operands.map((operand) => ({
            ...operand, values: list(valuesOf(i, operand)),
            ...(operand.before && {before: {...operand.before, values: list(valuesAt(operand.tensor, 2 * i))}}),
        }))})),
    });

    // --- words ---
    // The text of a token: bytes, or the vocabulary's piece; what cannot be seen by its code.
    const visible = (text) => text.replaceAll('\n', '\\n').replaceAll('\t', '\\t').replaceAll(' ', '\u2423')
        .replace(/[\u0000-\u001f\u007f]/g, (c) => '0x' + c.charCodeAt(0).toString(16).padStart(2, '0'));
    const tokenText = (id) => {
        if (data.vocabulary) return visible(data.vocabulary[id] ?? '#' + id);
        if (!data.has_bytes) return '#' + id;
        return id < 128 ? visible(String.fromCharCode(id)) : '0x' + id.toString(16);
    };
    // The parts of a step: [{phase, first, n}], ops that follow one another.
    const phasesOf = (ops) => ops.reduce((runs, {phase}, first) => {
        if (runs.at(-1)?.phase === phase) runs.at(-1).n++; else runs.push({phase, first, n: 1});
        return runs;
    }, []);
    const isBackward = (op) => op.phase === 'backward';
    const place = (op) => (op.layer < 0 ? op.phase : `${op.phase}, block ${op.layer}`);

    return {data, walk, plan, count, indicesOf, bytesOf, sidesOf, isCut, fullPlace, slicePlace, partText, valueAt, valuesAt, firstAt, replace, decode, valuesOf, momentOf, operandOf, isOutput, tensor, whole, tokenText, phasesOf, isBackward, place};
})();

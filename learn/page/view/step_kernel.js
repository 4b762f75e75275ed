// step_kernel.js: a student's kernel in place of the reference's (`exercise --page`): a module of its own, which sees copies
// of an op's operands alone; and its first wrong number. `ownKernel` here.
const ownKernel = (() => {
    const {make, number} = page, {data, walk} = step;
    const given = data.kernel;
    const state = {module: null, wrong: [], isOn: Boolean(given)};
    const arrays = {i32: Int32Array, u32: Uint32Array, u8: Uint8Array};

    // A module's exports; importOf(name, its module) is what it gets under a name. And the text at a place of its memory.
    const start = async (bytes, importOf) => {
        const compiled = await WebAssembly.compile(bytes), imports = {};
        for (const {module, name} of WebAssembly.Module.imports(compiled)) (imports[module] ||= {})[name] = importOf(name, module);
        return (await WebAssembly.instantiate(compiled, imports)).exports;
    };
    const textAt = (c, at) => { const all = new Uint8Array(c.memory.buffer); return new TextDecoder().decode(all.subarray(at, all.indexOf(0, at))); };
    const open = async () => {
        const c = await start(step.bytesOf(given.module), (name) => () => { throw new Error(`your kernel calls ${name}, which is not in a page`); });
        c._initialize?.();
        if (textAt(c, c.own_signature()) !== given.signature) throw new Error(`${given.file}: its arguments are those of another version`);
        return c;
    };
    const written = (i, tensor) => walk.ops[i].operands.some((o) => o.access === 'writes' && o.tensor === walk.tensors[tensor].name);

    // The outputs of op i, by tensor, as the kernel makes them of what `read` gives.
    const run = (i, read) => {
        const c = state.module;
        const rooms = new Map();
        const room = (tensor, isWritten) => {
            const {dtype} = walk.tensors[tensor];
            const values = (arrays[dtype] || Float32Array).from(read(tensor));
            if (isWritten) values.fill(-1024); // what it held does not count
            const at = c.own_room(values.byteLength + 8);
            new Uint8Array(c.memory.buffer, at, values.byteLength).set(new Uint8Array(values.buffer));
            return {at, n: values.length};
        };
        const args = c.own_room(8 * given.ops[i].length + 8);
        let place = args;
        const pointer = (value) => { new DataView(c.memory.buffer).setUint32(place, value, true); place += 4; };
        const wide = (set, value) => { place = Math.ceil(place / 8) * 8; new DataView(c.memory.buffer)[set](place, value, true); place += 8; };
        for (const [, type, value] of given.ops[i]) {
            if ((type === 'in' || type === 'out') && value >= 0 && !rooms.has(type + value)) rooms.set(type + value, {...room(value, type === 'out' && written(i, value)), tensor: value, type});
        }
        for (const [, type, value] of given.ops[i]) {
            if (type === 'integer') wide('setBigInt64', BigInt(value));
            else if (type === 'real') wide('setFloat64', value);
            else pointer(type === 'keep' ? c.own_keep() : rooms.get(type + value)?.at ?? 0);
        }
        c.own_run(args);
        const made = [...rooms.values()].filter(({type}) => type === 'out').map(({tensor, at, n}) => [tensor, new Float32Array(c.memory.buffer, at, n).slice()]);
        rooms.forEach(({at}) => c.own_free(at));
        c.own_free(args);
        return made;
    };

    // Runs op i by the kernel; what the reference makes is compared first.
    const replace = (engine, i) => {
        const made = run(i, engine.read);
        engine.run(i, i + 1);
        for (const [tensor, values] of made) {
            const right = engine.read(tensor);
            const size = right.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
            const wrong = [...right.keys()].filter((k) => !(Math.abs(values[k] - right[k]) <= 1e-4 * size + 1e-7)), [flat] = wrong;
            if (wrong.length) state.wrong.push({i, tensor: walk.tensors[tensor].name, flat, value: values[flat], right: right[flat], n: wrong.length, of: right.length});
            engine.write(tensor, 0, values);
        }
    };
    // Ops of the engine from `from` on, each by its kernel.
    const runAll = (engine, from, end) => {
        if (!state.isOn) { engine.run(from, end); return; }
        for (let i = from; i < end; i++) (given.ops[i] !== undefined ? replace(engine, i) : engine.run(i, i + 1));
    };
    const begin = async () => {
        state.wrong = [];
        if (state.isOn) state.module ||= await open();
    };

    // --- what it says ---
    const says = make('div', {id: 'kernel-says', role: 'status'});
    const show = () => {
        const n = Object.keys(given.ops).length;
        const ops = new Set(state.wrong.map(({i}) => i));
        const [first] = state.wrong;
        says.replaceChildren(...(!state.isOn ? [make('p', {}, 'The reference’s function runs.')]
            : !first ? [make('p', {}, `Your kernel is right in each of the ${n} ops of this step. Its check: `, make('code', {}, `stepmark exercise ${given.kind} --check ${given.file}`))]
                : [make('p', {}, `Your kernel is right in ${n - ops.size} of ${n} ops. The first wrong number: `, make('button', {type: 'button', class: 'chip', id: 'kernel-first', onclick: () => { stepPage.choose(first.i); follow.choose(first.tensor, first.flat, 2 * first.i + 1); }}, `op ${first.i}: ${first.tensor}${heat.indexText(step.tensor(first.tensor).dims, first.flat)}`),
                    ` is ${number(first.value, 7)}, and should be ${number(first.right, 7)}; of this tensor ${first.n} of ${first.of} are wrong.`)]));
    };
    const draw = () => {
        if (!given) return null;
        const box = make('input', {type: 'checkbox', id: 'kernel-on', checked: true, onchange: () => { state.isOn = box.checked; live.restart(); }});
        return make('section', {id: 'kernel', class: 'lesson', 'aria-label': 'your kernel'}, make('p', {}, make('label', {}, box, ' ', make('b', {}, `${given.kind} by ${given.file}`), ' in place of the reference’s')), says);
    };
    return {given, start, textAt, begin, runAll, draw, show};
})();

// step_live.js: computes the step again in the page, by the engine's own C compiled for browsers (learn/live): of another
// text, with numbers changed, over several steps of training, and with a weight nudged. `live` here.
const live = (() => {
    const {make, svg, number} = page, {data, walk, plan} = step;
    const given = data.live;
    const given_tokens = walk.tokens, given_targets = walk.targets, given_data = walk.data;
    const N = walk.n_batch * walk.n_seq;
    const state = {edits: [], tokens: walk.tokens, targets: walk.targets, data: walk.data, engine: null, mark: null, turn: 0};
    const settings = ['lr', 'beta1', 'beta2', 'eps', 'weight_decay', 'momentum', 'nesterov', 'grad_clip']; // in live.h's order

    // --- the module: it has memory and a clock, no files and no network ---
    const tokenizer = data.tokenizer && step.bytesOf(data.tokenizer);
    const open = async (changes = {}) => {
        const nothing = () => 52; // "not there", as systems without files answer
        const clock = (id, precision, to) => { new DataView(c.memory.buffer).setBigUint64(to, BigInt(Math.round(performance.now() * 1e6)), true); return 0; };
        const system = new Proxy({clock_time_get: clock}, {get: (own, name) => own[name] || nothing});
        // The regular expressions of the tokenizer (learn/live/module.c), on bytes or on their text.
        const made = [];
        const memory = (at, n) => new Uint8Array(c.memory.buffer, at, n);
        const ofBytes = (all) => Array.from(all, (x) => String.fromCharCode(x)).join('');
        const ofText = (all) => new TextDecoder('utf-8', {ignoreBOM: true}).decode(all);
        const find = ({expression, isText}, all, from) => {
            expression.lastIndex = isText ? 0 : from;
            const found = expression.exec(isText ? ofText(all.subarray(from)) : ofBytes(all));
            if (!found) return null;
            const length = isText ? new TextEncoder().encode(found[0]).length : found[0].length;
            return isText ? [from, from + length] : [found.index, found.index + length];
        };
        const patterns = {
            page_pattern: (at, isText) => {
                const source = text(at).replaceAll('++', '+').replaceAll('\\s', '\\p{White_Space}').replaceAll('\\S', '\\P{White_Space}');
                return made.push({expression: new RegExp(source, isText ? 'uy' : 'g'), isText}) - 1;
            },
            page_match: (k, at, n, from, to) => {
                const all = memory(at, n), some = all.subarray(0, from + 1000);
                let found = find(made[k], made[k].isText ? some : all, from);
                if (found && made[k].isText && found[1] >= some.length - 8) found = find(made[k], all, from);
                if (found) new Uint32Array(c.memory.buffer, to, 2).set(found);
                return found ? 1 : 0;
            },
        };
        const c = await ownKernel.start(step.bytesOf(given.module), (name, module) =>
            (module !== 'env' ? system[name] : patterns[name] || (() => { throw new Error(`${name} is not in a page`); })));
        const floats = (at, n) => new Float32Array(c.memory.buffer, at, n);
        const doubles = (at, n) => new Float64Array(c.memory.buffer, at, n);
        const text = (at) => ownKernel.textAt(c, at);
        const must = (failed) => { if (failed) throw new Error(text(c.live_message())); };
        const put = (all) => { const at = c.live_room(all.length / 4 + 1); memory(at, all.length).set(all); return at; };
        c._initialize();
        doubles(c.live_numbers(), given.numbers.length).set(given.numbers.map((x, i) => changes[i] ?? x));
        must(c.live_open());
        const names = Array.from({length: c.live_n_tensors()}, (_, i) => text(c.live_tensor_name(i)));
        return {
            names, n_ops: c.live_n_ops(), elems: (i) => c.live_elems(i),
            settings: () => doubles(c.live_settings(), settings.length),
            begin: (tokens, targets, t) => { new Int32Array(c.memory.buffer, c.live_batch(), 2 * N).set([...tokens, ...targets]); must(c.live_begin(t)); },
            run: (from, end) => must(c.live_run(from, end)),
            read: (i) => { const at = c.live_read(i); must(at === 0); return new Float32Array(doubles(at, c.live_elems(i))); },
            write: (i, from, values) => { const at = c.live_room(values.length); floats(at, values.length).set(values); must(c.live_write(i, from, values.length, at)); },
            hold: (change) => must(c.live_hold(put(new TextEncoder().encode(change + '\0')))),
            tokenizer: (all) => must(c.live_tokenizer(put(all), all.length)),
            encode: (words) => { const all = new TextEncoder().encode(words); must(c.live_encode(put(all), all.length)); return [...new Int32Array(c.memory.buffer, c.live_ids(), c.live_n_ids())]; },
            release: () => c.live_release(),
            norm: (i) => c.live_norm(i),
            isCutOp: (op) => c.live_is_cut(op) === 1,
        };
    };
    const isParameter = (t) => t.role === 'parameters' && t.view_of && !/^(bf16|f16|rows)\./.test(t.name);
    // The state before the program's step; of slices the page has the weights apart, and the optimizer's state is new.
    const weights = given.weights ? step.decode(given.weights) : null;
    const reset = (engine) => {
        let at = 0;
        walk.tensors.forEach((t, i) => {
            const isState = t.role === 'optimizer' && !t.view_of;
            if (weights && isState) engine.write(i, 0, new Float32Array(engine.elems(i)));
            else if (weights && t.role === 'parameters' && t.view_of) engine.write(i, 0, weights.subarray(at, at += engine.elems(i)));
            else if (!weights && (isState || isParameter(t))) engine.write(i, 0, step.firstAt(t.name, 0));
        });
    };
    const lossOf = (engine) => engine.read(engine.names.indexOf('loss'))[0];

    // --- the step again: a film of its own, with the changes; null where another began before it was done ---
    const FRAME_MS = 50;
    const compute = async () => {
        const from = performance.now(), turn = ++state.turn;
        let drawn = from;
        const engine = state.engine ||= await open();
        const changes = [], parts = [];
        let size = 0;
        const see = (moment, i) => {
            const {name, dims, slice, offset = 0} = walk.tensors[i];
            const all = engine.read(i);
            const values = slice ? Float32Array.from({length: step.count(dims)}, (_, k) => all[step.fullPlace(name, k)]) : all;
            changes.push([moment, slice ? i : plan.tensors[i].root, slice ? 0 : offset, values.length, size]);
            parts.push(values);
            size += values.length;
        };
        engine.release();
        state.edits.forEach(engine.hold);
        walk.ops.forEach(({attributes}, i) => (engine.isCutOp(i) ? attributes.cut = true : delete attributes.cut));
        reset(engine);
        await ownKernel.begin();
        engine.begin(state.tokens, state.targets, walk.hyper.step);
        walk.tensors.forEach((t, i) => { if ((!t.view_of || t.slice) && !['activations', 'gradients'].includes(t.role)) see(0, i); });
        // Of slices the norms are those of the whole tensors.
        const norms = new Map();
        const measure = (op, i, isAfter) => op.operands.filter(step.isCut).forEach((o) => {
            if (!isAfter || step.isOutput(o)) norms.set(`${i} ${o.operand} ${isAfter || !step.isOutput(o)}`, engine.norm(walk.tensors.indexOf(step.tensor(o.tensor))));
        });
        for (const [i, op] of walk.ops.entries()) {
            measure(op, i, false);
            ownKernel.runAll(engine, i, i + 1);
            for (const o of op.operands.filter(step.isOutput)) {
                see(2 * i + 1, walk.tensors.indexOf(step.tensor(o.tensor)));
            }
            measure(op, i, true);
            if (performance.now() < drawn + FRAME_MS) continue;
            bar.hidden = false;
            bar.value = (i + 1) / walk.ops.length;
            await new Promise((go) => setTimeout(go)); // so that it is seen
            if (turn !== state.turn) return null;
            drawn = performance.now();
        }
        bar.hidden = true;
        const stored = new Float32Array(size);
        parts.reduce((at, values) => { stored.set(values, at); return at + values.length; }, 0);
        step.replace(changes, stored, [...state.tokens], [...state.targets], state.data, norms);
        return performance.now() - from;
    };

    // By how much each op's results differ from the program's: the length of the difference over the length.
    const differences = () => walk.ops.map((op, i) => Math.max(...op.operands.filter(step.isOutput).map((o) => {
        const [now, was] = [step.valuesAt(o.tensor, 2 * i + 1), step.firstAt(o.tensor, 2 * i + 1)];
        let apart = 0, size = 0;
        for (let k = 0; k < now.length; k++) { apart += (now[k] - was[k]) ** 2; size += was[k] ** 2; }
        return apart === 0 ? 0 : Math.sqrt(apart / Math.max(size, 1e-30));
    })));

    // --- the section ---
    const out = (id) => make('output', {id, 'aria-live': 'polite'});
    const lossOut = out('step-loss'), normOut = out('step-norm'), says = out('live-says');
    const bar = make('progress', {id: 'live-bar', max: 1, value: 0, hidden: true, 'aria-label': 'the step is computed'});
    const editList = make('ul', {id: 'live-edits', class: 'plain'});
    const noticed = make('div', {id: 'live-noticed'});
    const textBox = make('textarea', {id: 'live-text', rows: 2, cols: 60, 'aria-label': 'your text', maxlength: 100000});
    const editBox = make('input', {id: 'live-edit', size: 40, placeholder: 'h.0.attproj[*,0:32]=0', 'aria-label': 'a number to change'});
    const slider = make('input', {id: 'live-slider', type: 'range', disabled: true, oninput: () => drag(), 'aria-label': 'the value of the number that was picked'});
    const button = (text, act, id = null) => make('button', {type: 'button', id, onclick: act}, text);

    // Ids by the model's tokenizer; without one they are bytes.
    const idsOf = async (text) => {
        if (!tokenizer) return [...new TextEncoder().encode(text)];
        const engine = state.engine ||= await open();
        if (!state.hasTokenizer) engine.tokenizer(tokenizer);
        state.hasTokenizer = true;
        return engine.encode(text);
    };
    // As many ids of the text as the step has; after its end targets of -1, which count for nothing.
    const setText = async (text) => {
        const ids = await idsOf(text);
        const unit = tokenizer ? 'tokens' : 'bytes';
        if (ids.length < 2) throw new Error(`a text needs two ${unit} at least: one to read, one to guess`);
        state.tokens = Array.from({length: N}, (_, n) => ids[n] ?? 0);
        state.targets = Array.from({length: N}, (_, n) => ids[n + 1] ?? -1);
        state.data = 'the text: ' + text;
        return ids.length > N + 1 ? `the first ${N + 1} of ${ids.length} ${unit} are read; page --seq-len has room for more` : '';
    };
    const show = () => {
        const norm = step.tensor('grad_norm') ? step.valuesAt('grad_norm', 2 * walk.ops.length)[0] : NaN;
        lossOut.textContent = heat.exact(textPart.loss());
        normOut.textContent = isFinite(norm) ? heat.exact(norm) : '-';
        const apart = differences();
        const first = apart.findIndex((d) => d > 0);
        const largest = apart.map((d, i) => [d, i]).filter(([d]) => d > 0).sort((a, b) => b[0] - a[0]).slice(0, 6);
        noticed.replaceChildren(first < 0 ? make('p', {class: 'soft'}, 'Every number is the program’s.')
            : make('p', {}, 'First to notice: ', opChip(first), `; then ${apart.filter((d) => d > 0).length - 1} more of ${walk.ops.length} ops. Most changed: `, ...largest.map(([d, i]) => opChip(i, ` by ${number(100 * d, 3)}%`))));
        if (ownKernel.given) ownKernel.show();
        editList.replaceChildren(...state.edits.map((edit, k) => make('li', {}, make('code', {}, edit), ' ', button('undo', () => { state.edits.splice(k, 1); again(); update(); }))));
        stepPage.refresh();
    };
    const opChip = (i, more = '') => make('button', {type: 'button', class: 'chip', onclick: () => stepPage.choose(i)}, `op ${i} ${walk.ops[i].kind}${more}`);
    const trying = async (act) => {
        try {
            says.textContent = await act() || '';
        } catch (problem) {
            bar.hidden = true;
            says.textContent = problem.message;
        }
    };
    const link = () => {
        const parts = [state.tokens === given_tokens ? null : 'text=' + encodeURIComponent(textBox.value), state.edits.length ? 'set=' + encodeURIComponent(state.edits.join(';')) : null, `op=${stepPage.state.op}`];
        history.replaceState(null, '', '#' + parts.filter(Boolean).join('&'));
    };
    const update = (note = '') => trying(async () => {
        says.textContent = 'computing …';
        await new Promise((go) => setTimeout(go)); // so that it is seen
        const ms = await (state.computing = compute());
        if (ms === null) return says.textContent;
        show();
        link();
        return [note, `computed in ${number(ms, 3)} ms`].filter(Boolean).join('; ');
    });
    const addEdits = (texts) => trying(async () => {
        const engine = state.engine ||= await open();
        texts.forEach(engine.hold); // refuses what is none
        state.edits.push(...texts);
        again();
        await update();
        return says.textContent;
    });
    const back = () => { state.edits = []; again(); state.tokens = given_tokens; state.targets = given_targets; state.data = given_data; update(); };
    // A number before changes alone, and after them; only the latter are drawn.
    const ask = async (changes, measure) => {
        state.edits = [];
        await (changes.length ? trying(async () => { await (state.computing = compute()); }) : update());
        const was = measure();
        if (changes.length) await addEdits(changes);
        return [was, measure()];
    };
    // The number that is followed is the one to change.
    const pick = ({tensor, flat}, value) => {
        editBox.value = `${tensor}[${flat}]=${heat.exact(value)}`;
        state.mark = {tensor, flat};
        const reach = 2 * Math.abs(value) || 1;
        Object.assign(slider, {min: -reach, max: reach, step: reach / 100, value, disabled: false});
        if (has('d.' + tensor)) weightBox.value = `${tensor}[${flat}]`;
    };

    // The number that was picked takes each value that is passed.
    const drag = () => {
        const place = `${state.mark.tensor}[${state.mark.flat}]=`;
        state.edits = [...state.edits.filter((edit) => !edit.startsWith(place)), place + Number(slider.value)];
        editBox.value = state.edits.at(-1);
        again();
        update();
    };

    // --- one click: what if it were not there ---
    const width = walk.config.head_dim, C = walk.config.d_model;
    const has = (name) => Boolean(step.tensor(name));
    const streams = (block) => ['attproj', 'mlpproj', 'down'].map((name) => `h.${block}.${name}`).filter(has);
    const removals = () => Array.from({length: walk.config.n_layer}, (_, block) => [
        ...Array.from({length: walk.config.n_head}, (__, h) => [`head ${h} of block ${block}`, [`h.${block}.atty[*,${h * width}:${(h + 1) * width}]=0`]]),
        ...streams(block).map((name) => [`${/attproj/.test(name) ? 'attention' : 'the MLP'} of block ${block}`, [`${name}[*,0:${C}]=0`]]),
        [`all of block ${block}`, streams(block).map((name) => `${name}[*,0:${C}]=0`)],
        [`the residual line around attention of block ${block}`, [`line[${2 * block}]=0`]], [`the residual line around the MLP of block ${block}`, [`line[${2 * block + 1}]=0`]],
        [`the causal mask of block ${block}`, [`mask[${block}]=0`]]]).concat([[['the causal mask', ['mask[*]=0']]]]).flat()
        .filter(([, texts]) => texts.length && texts.every((text) => /^(mask|line)\[/.test(text) || has(text.split('[')[0])));
    const remover = () => {
        const all = removals();
        const choice = make('select', {id: 'live-remove', 'aria-label': 'remove', onchange: () => { if (choice.value !== '') addEdits(all[choice.value][1]); choice.value = ''; }},
            make('option', {value: ''}, 'remove …'), ...all.map(([text], k) => make('option', {value: k}, text)));
        return choice;
    };
    const ofMark = (change) => () => {
        const {tensor, flat} = state.mark || {};
        if (!tensor) { says.textContent = 'choose a number first: click a cell of a map'; return; }
        const cols = step.tensor(tensor).dims.at(-1);
        addEdits([change(tensor, flat, flat - flat % cols, cols)]);
    };
    const doubleRow = ofMark((tensor, flat, row, cols) => `${tensor}[${row}:${row + cols}]*2`);
    const makeZero = ofMark((tensor, flat) => `${tensor}[${flat}]=0`);

    // --- a picture of points: [{x, y}], each axis linear or logarithmic ---
    const curve = (id, lines, {xLog = false, yLog = false, label}) => {
        const W = 480, H = 180, P = 34;
        const all = lines.flatMap((line) => line.points).filter(([x, y]) => isFinite(x) && isFinite(y) && (!xLog || x > 0) && (!yLog || y > 0));
        if (all.length < 2) return make('p', {class: 'soft'}, 'too few points for a curve');
        const scale = (k, log, from, to) => {
            const v = all.map((p) => (log ? Math.log10(p[k]) : p[k]));
            const [low, high] = [Math.min(...v), Math.max(...v)];
            return {of: (x) => from + (to - from) * ((log ? Math.log10(x) : x) - low) / (high - low || 1), ends: log ? [10 ** low, 10 ** high] : [low, high]};
        };
        const x = scale(0, xLog, P, W - 8), y = scale(1, yLog, H - P / 2, 8);
        return svg('svg', {id, class: 'curve', viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': label},
            ...lines.map((line) => svg('polyline', {fill: 'none', class: line.class, points: line.points.filter((p) => all.includes(p)).map(([a, b]) => `${x.of(a).toFixed(1)},${y.of(b).toFixed(1)}`).join(' ')})),
            svg('text', {x: 2, y: 14}, number(y.ends[1], 3)), svg('text', {x: 2, y: H - P / 2}, number(y.ends[0], 3)),
            svg('text', {x: P, y: H - 2}, number(x.ends[0], 3)), svg('text', {x: W - 8, y: H - 2, 'text-anchor': 'end'}, number(x.ends[1], 3)));
    };

    // --- training here ---
    const training = {engine: null, losses: [], t: 0, isUsual: true, usual: 0};
    const trainBox = make('div', {id: 'live-training'});
    const field = (id, value) => make('input', {id, size: 8, value, 'aria-label': id.replace('live-', '')});
    const lr = field('live-lr', ''), clip = field('live-clip', '0');
    const choice = (id, label, options, now) => make('select', {id, 'aria-label': label, onchange: () => { lr.value = ''; again(); }}, ...options.map((text) => make('option', {selected: text === now}, text)));
    const optimizer = choice('live-optimizer', 'optimizer', given.optimizers || [], walk.optimizer);
    const precision = choice('live-precision', 'precision', walk.precision === 'fp32' ? ['fp32', 'bf16'] : [walk.precision], walk.precision);
    const isProgram = () => optimizer.value === walk.optimizer && precision.value === walk.precision && state.tokens === given_tokens && state.edits.length === 0;
    const train = (n) => trying(async () => {
        if (!training.engine) {
            const changes = {[given.optimizer_at]: optimizer.selectedIndex};
            if (precision.value === 'bf16') changes[given.dtype_at] = given.bf16;
            training.engine = await open(changes);
            training.t = walk.hyper.step - 1;
            training.usual = training.engine.settings()[0];
            reset(training.engine);
            state.edits.forEach(training.engine.hold);
        }
        lr.value ||= String(training.usual);
        const chosen = [Number(lr.value), Number(clip.value)];
        if (!(chosen[0] > 0 && chosen[1] >= 0)) throw new Error('the learning rate is above 0, the clip 0 (none) or above');
        training.isUsual &&= isProgram() && chosen[0] === training.usual && chosen[1] === 0;
        const {engine} = training;
        for (let k = 0; k < n; k++) {
            engine.settings()[0] = chosen[0];
            engine.settings()[7] = chosen[1];
            engine.begin(state.tokens, state.targets, ++training.t);
            ownKernel.runAll(engine, 0, engine.n_ops);
            training.losses.push(lossOf(engine));
            if (k % 10 === 9) await new Promise((go) => setTimeout(go));
        }
        const {losses} = training;
        const same = given.losses.filter((loss, i) => i < losses.length && Math.fround(loss) === losses[i]).length;
        trainBox.replaceChildren(curve('live-losses', [{class: 'line', points: losses.map((loss, i) => [i + 1, loss])}], {label: 'loss of each step'}),
            make('p', {}, `step ${losses.length}: loss ${heat.exact(losses.at(-1))}. `, training.isUsual ? make('span', {id: 'live-equal'}, `Equal to the program’s losses, ${same} of ${Math.min(losses.length, given.losses.length)}.`) : ''));
        return '';
    });
    const again = () => { Object.assign(training, {engine: null, losses: [], t: 0, isUsual: true}); trainBox.replaceChildren(); };

    // --- the gradient of one weight by hand: (L(w + h) - L(w - h)) / 2h ---
    const checkBox = make('div', {id: 'live-check'});
    const weightBox = make('input', {id: 'live-weight', size: 32, value: (walk.tensors.find(isParameter)?.name || '') + '[0]', 'aria-label': 'a weight'});
    const nudge = () => trying(async () => {
        const [, name, place] = /^(\S+)\[(\d+)\]$/.exec(weightBox.value.trim()) || [];
        const tensor = walk.tensors.findIndex((other) => other.name === name);
        const t = walk.tensors[tensor];
        const at = Number(place);
        if (!t || at >= step.count(step.sidesOf(t))) throw new Error(`${weightBox.value}: give a weight of this step, as wte.weight[0]`);
        await state.computing;
        if (!isParameter(t) || !has('d.' + t.name)) throw new Error(`${t.name}: is no weight with a gradient`);
        const engine = state.engine ||= await open();
        const forward = walk.ops.findIndex((op) => op.range === 'backward');
        const held = step.valueAt(t.name, at, 0);
        if (isNaN(held)) throw new Error(`${weightBox.value}: is not among the slices of this page`);
        const lossAt = (value) => {
            engine.write(tensor, at, [value]);
            engine.begin(state.tokens, state.targets, walk.hyper.step);
            engine.run(0, forward < 0 ? engine.n_ops : forward);
            return lossOf(engine);
        };
        const lastWrite = walk.ops.reduce((last, op, i) => (op.operands.some((o) => o.tensor === 'd.' + t.name || (step.isOutput(o) && o.tensor === 'd.' + t.name)) && op.phase === 'backward' ? i : last), walk.ops.length - 1);
        const gradient = step.valueAt('d.' + t.name, at, 2 * lastWrite + 1);
        reset(engine);
        const rows = Array.from({length: 8}, (_, k) => 10 ** -k).map((h) => {
            const slope = (lossAt(Math.fround(held + h)) - lossAt(Math.fround(held - h))) / (Math.fround(held + h) - Math.fround(held - h));
            return {h, slope, error: Math.abs(slope - gradient) / Math.max(Math.abs(gradient), 1e-12)};
        });
        checkBox.replaceChildren(make('p', {}, `${weightBox.value} = ${heat.exact(held)}; its gradient in this step: `, make('b', {id: 'live-gradient'}, heat.exact(gradient))),
            curve('live-errors', [{class: 'line', points: rows.map(({h, error}) => [h, error])}], {xLog: true, yLog: true, label: 'error against h'}),
            page.grid('live-slopes', '#h|#(L(w + h) - L(w - h)) / 2h|#error', rows.map(({h, slope, error}) => [String(h), heat.exact(slope), number(100 * error, 3) + '%'])),
            make('p', {class: 'soft'}, 'A large h leaves the straight line; a small one drowns in the rounding of the loss.'));
        return '';
    });

    const draw = () => {
        if (given.lacks) return [make('p', {id: 'live-lacks', class: 'soft'}, `This page cannot compute its step again: ${given.lacks}.`)];
        const read = () => trying(async () => { const note = await setText(textBox.value); await update(note); return says.textContent; });
        return [ownKernel.draw() || '', make('p', {}, 'The program’s own C runs in this page: change something, and forward, backward and update are computed again.'),
            data.has_bytes || tokenizer ? make('div', {class: 'tools'}, textBox, button('compute', read, 'live-compute')) : make('p', {class: 'soft'}, 'This model has no tokenizer (page --tokenizer), so its text stays.'),
            make('div', {class: 'tools'}, editBox, button('change', () => addEdits(editBox.value.split(';')), 'live-change'), slider, button('make it 0', makeZero, 'live-zero'), button('double its row', doubleRow, 'live-double'), remover(), button('as it was', back, 'live-back')),
            make('p', {}, 'loss ', make('b', {}, lossOut), ', grad norm ', make('b', {}, normOut), '. ', says, ' ', bar), editList, noticed,
            make('h3', {}, 'Train on this text, with the changes'), make('div', {class: 'tools'}, optimizer, ' learning rate ', lr, ' clip ', clip, ' ', precision, ' ', ...[1, 10, 100].map((n) => button(`${n} step${n > 1 ? 's' : ''}`, () => train(n), `live-train-${n}`)), button('from the start', again, 'live-again')), trainBox,
            make('h3', {}, 'A gradient by hand'), make('div', {class: 'tools'}, weightBox, button('nudge it', nudge, 'live-nudge')), checkBox];
    };
    // #text=...&set=...&op=...
    const begin = () => {
        lossOut.textContent = heat.exact(textPart.loss());
        if (given.lacks) return;
        if (step.tensor('grad_norm')) normOut.textContent = heat.exact(step.valuesAt('grad_norm', 2 * walk.ops.length)[0]);
        const asked = new URLSearchParams(location.hash.slice(1));
        if (lessons.at(asked.get('lesson')) >= 0) stepPage.go(lessons.at(asked.get('lesson')));
        if (asked.has('op')) stepPage.go(Number(asked.get('op')) || Math.max(0, walk.ops.findIndex((op) => op.kind === asked.get('op'))));
        if (!asked.has('text') && !asked.has('set') && !ownKernel.given) return;
        trying(async () => {
            let note = '';
            if (asked.has('text')) { textBox.value = asked.get('text'); note = await setText(textBox.value); }
            state.edits = [];
            await (asked.has('set') ? addEdits(asked.get('set').split(';')) : update(note));
            return says.textContent;
        });
    };
    const restart = () => { again(); return update(); };
    return {draw, begin, restart, training, pick, state, update, addEdits, ask, link};
})();

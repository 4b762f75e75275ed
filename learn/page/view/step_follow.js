// step_follow.js: follows a number: what made it, by which equation, from which values; what it goes into. Each of these
// is a step further, by a click. `follow` here.
const follow = (() => {
    const {make, number} = page, {walk} = step;
    const {exact, indexText} = heat;
    const FEW = 8, TERMS = 6;

    // The number that is followed: an element of a tensor at a moment; and the elements that led here.
    const state = {now: null, trail: []};
    // Places are those in whole tensors, also where the page has a slice.
    const valueOf = ({tensor, flat, moment}) => step.valueAt(tensor, flat, moment);
    const dimsOf = (tensor) => step.sidesOf(step.tensor(tensor));
    const told = (x) => (Number.isNaN(x) ? 'not on this page' : exact(x));
    const nameOf = ({tensor, flat}) => tensor + indexText(dimsOf(tensor), flat);

    const show = (point, trail) => {
        const writer = trace.writerOf(point.tensor, point.flat, point.moment);
        Object.assign(state, {now: writer ? {...point, tensor: writer.operand.tensor, flat: writer.flat, writer} : {...point, writer}, trail});
        live.pick(state.now, valueOf(state.now));
        stepPage.choose(writer ? writer.i : stepPage.state.op);
        document.getElementById('follow').scrollIntoView({block: 'nearest'});
    };
    const choose = (tensor, flat, moment) => show({tensor, flat, moment}, state.now ? [...state.trail.slice(-7), state.now] : []);
    const back = (k) => show(state.trail[k], state.trail.slice(0, k));
    const close = () => { Object.assign(state, {now: null, trail: []}); stepPage.choose(stepPage.state.op); };

    const link = (text, act, label) => make('button', {type: 'button', class: 'chip', 'aria-label': label, title: label, onclick: act}, text);
    const chip = (tensor, flat, moment, short = null) => {
        const [name, value] = [nameOf({tensor, flat}), told(valueOf({tensor, flat, moment}))];
        return link(`${short || name} = ${value}`, () => choose(tensor, flat, moment), `follow ${name} = ${value}`);
    };

    // --- a set of elements of a tensor ---
    const boundsOf = (dims, flats) => dims.map((_, d) => flats.reduce(([least, most], flat) => {
        const x = step.indicesOf(dims, flat)[d];
        return [Math.min(least, x), Math.max(most, x)];
    }, [Infinity, -Infinity]));
    // "[0,3,0…31]", and the sides of the box if the elements fill it.
    const region = (dims, flats) => {
        const bounds = boundsOf(dims, flats);
        const sides = bounds.map(([least, most]) => most - least + 1);
        const text = `[${bounds.map(([least, most]) => (least === most ? least : `${least}…${most}`)).join(',')}]`;
        const fills = step.count(sides) === flats.length;
        return {text: fills ? text : `${flats.length} of ${text}`, sides: fills ? sides.filter((n) => n > 1) : [flats.length]};
    };
    // Parts of a set that fill boxes: runs of the last index, of the rows that have the same.
    const MOST_PARTS = 4;
    const partsOf = (dims, flats) => {
        const width = dims[dims.length - 1];
        const runs = new Map();
        for (let k = 0, first = 0; k < flats.length; k++) {
            if (k + 1 < flats.length && flats[k + 1] === flats[k] + 1 && flats[k + 1] % width > 0) continue;
            const key = `${flats[first] % width} ${k - first}`;
            runs.set(key, [...(runs.get(key) || []), ...flats.slice(first, k + 1)]);
            first = k + 1;
        }
        return runs.size <= MOST_PARTS ? [...runs.values()] : [flats];
    };
    const partOf = (tensor, flats, moment) => {
        const dims = dimsOf(tensor);
        const {text, sides} = region(dims, flats);
        return heat.make({name: tensor, dims: sides.length ? sides : [1], values: Float32Array.from(flats, (flat) => step.valueAt(tensor, flat, moment)),
            place: (k) => indexText(dims, flats[k]), pick: (k) => choose(tensor, flats[k], moment)},
        {most: 320, caption: make('div', {class: 'caption'}, make('code', {}, `${tensor} ${text}`), `, ${number(flats.length, 9)} values`)});
    };
    const setOf = (tensor, flats, moment) => {
        if (flats === null) return make('div', {}, `all of ${tensor}, ${number(step.count(dimsOf(tensor)), 9)} values`);
        if (flats.length <= FEW) return make('div', {class: 'chips'}, ...flats.map((flat) => chip(tensor, flat, moment)));
        return make('div', {}, ...partsOf(dimsOf(tensor), flats).map((part) => partOf(tensor, part, moment)));
    };

    // --- what made it ---
    const opLink = (i, act) => link(`op ${i}: ${walk.ops[i].kind}`, act || (() => stepPage.choose(i)));
    const momentOfRead = (i, name, isAfter) => trace.momentOf(i, step.operandOf(walk.ops[i], name), isAfter);
    const grouped = (reads) => {
        const groups = new Map();
        for (const {name, flat, isAfter} of reads) {
            const key = name + (isAfter ? '\'' : '');
            if (!groups.has(key)) groups.set(key, {name, isAfter, flats: []});
            groups.get(key).flats.push(flat);
        }
        return [...groups.values()];
    };
    const drawReads = (i, reads) => grouped(reads).map(({name, isAfter, flats}) => {
        const operand = step.operandOf(walk.ops[i], name);
        const after = isAfter && operand.access !== 'writes' ? ' after the op' : operand.access === 'adds to' || operand.access === 'updates' ? ' before the op' : '';
        return make('div', {class: 'taking'}, make('b', {}, name + after), ' ', setOf(operand.tensor, flats.sort((a, b) => a - b), momentOfRead(i, name, isAfter)));
    });
    // The summands of its sum that count most.
    const drawTerms = (i, {terms}) => {
        const known = terms.filter((term) => !Number.isNaN(term.value));
        if (known.length < 2) return null;
        const largest = [...known].sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, TERMS);
        const factor = ({name, at, isAfter, value}) => (isAfter === null ? make('span', {class: 'known'}, `${name}[${at}] = ${told(value)}`)
            : chip(step.operandOf(walk.ops[i], name).tensor, at, momentOfRead(i, name, isAfter), name));
        return make('details', {open: terms.length <= 64}, make('summary', {}, `the largest of its ${number(terms.length, 9)} terms${known.length < terms.length ? ', as far as they are on this page' : ''}`),
            make('ul', {class: 'plain terms'}, ...largest.map((term) => make('li', {}, `${term.letter} = ${term.at}: `, make('b', {}, told(term.value)), ' from ', ...term.parts.slice(0, 4).map(factor)))));
    };
    const drawNames = ({line, names}) => {
        const own = [...names].filter(([name]) => name.split('[')[0] !== line.name).slice(0, FEW);
        return own.length ? make('p', {class: 'soft'}, 'On the way: ', own.map(([name, value]) => `${name} = ${told(value)}`).join('; ')) : null;
    };
    const before = ({tensor}) => ({parameter: 'a weight', optimizer: 'the optimizer’s state', batch: 'of the batch'}[step.tensor(tensor).role.replace(/s$/, '')] || 'no op wrote it');
    const drawMakers = () => {
        const {now} = state;
        if (!now.writer) return [make('p', {}, `It was there before the step: ${before(now)}.`)];
        const {i, operand, flat} = now.writer;
        const made = trace.makersOf(i, operand.operand, flat);
        if (!made) return [make('p', {}, 'Made by ', opLink(i), '.')];
        const letters = Object.entries(made.letters).map(([letter, x]) => `${letter} = ${x}`).join(', ');
        const own = new Set([made.line.name]);
        const defined = trace.equationsOf(i).lines.filter((line) => !own.has(line.name) && !step.operandOf(walk.ops[i], line.name) && [...made.names.keys()].some((name) => name.split('[')[0] === line.name));
        return [make('p', {}, 'Made by ', opLink(i), letters ? `, with ${letters}:` : ':'),
            make('div', {class: 'equations'}, math.display(made.equation), ...defined.map((line) => math.display(line.text))),
            Number.isNaN(made.value) ? make('p', {}, `Not all of these values are on this page, which shows slices of large tensors; the op wrote ${told(valueOf(now))}.`)
                : make('p', {class: 'recomputed'}, 'Computed again from these values: ', make('b', {'data-value': made.value}, exact(made.value)), `; the op wrote ${exact(valueOf(now))}.`),
            drawTerms(i, made), drawNames(made), ...drawReads(i, made.reads)];
    };

    // --- what it goes into ---
    const drawGoals = () => {
        const {now} = state;
        const {readers, end} = trace.readersOf(now.tensor, now.flat, now.moment);
        const list = readers.map(({i, operand, flat}) => make('div', {class: 'taking'}, opLink(i), ` as its ${operand.operand} `,
            ...trace.goalsOf(i, operand.operand, flat).map(({name, flats}) => {
                const output = step.operandOf(walk.ops[i], name);
                return make('div', {}, make('b', {}, name), ' ', flats?.length === 0 ? 'none' : setOf(output.tensor, flats, 2 * i + 1));
            })));
        const last = end < 0 ? null : make('p', {class: 'soft'}, `Then op ${end} (${walk.ops[end].kind}) writes over it.`);
        return [make('h4', {}, 'It goes into'), ...(list.length ? list : [make('p', {}, 'Nothing in this step reads it.')]), last].filter(Boolean);
    };

    // The card of op i; without a number of its own, how to begin.
    const draw = (i) => {
        const {now, trail} = state;
        const isHere = now && (!now.writer || now.writer.i === i);
        if (!isHere) return make('p', {id: 'follow', class: 'soft on-screen'}, 'Follow a number: click a cell of a map below (or Enter on it) to see what made it and what it goes into.');
        return make('section', {id: 'follow', class: 'on-screen', 'aria-label': 'a number followed'},
            trail.length ? make('p', {class: 'trail'}, ...trail.flatMap((point, k) => [link(nameOf(point), () => back(k)), ' → '])) : null,
            make('h3', {}, `${nameOf(now)} = ${told(valueOf(now))} `, link('close', close, 'stop following')),
            names.of(now.tensor) ? make('p', {class: 'soft'}, 'In ', names.of(now.tensor), '.') : null,
            ...drawMakers().filter(Boolean), ...drawGoals());
    };
    return {draw, choose};
})();

// step_op.js: one op opened: what it computes and why its derivative is what it is, its operands with their values, its
// time on every device, its sources. `opPanel` here.
const opPanel = (() => {
    const {make, number, bytes} = page, {data, walk} = step;

    const microseconds = (ns) => number(ns / 1000, 3) + ' µs';
    const percent = (share) => (isFinite(share) ? Math.round(100 * share) + '%' : '-');

    // --- equations ---
    const describe = (op) => {
        const {text} = data.kinds[op.kind];
        return make('div', {class: 'math'}, ...math.describe(text), make('p', {class: 'soft'}, `In one line: ${op.equation}. Source: ${op.source}.`));
    };

    // --- operands ---
    const viewAt = (operand, moment) => ({name: operand.tensor, dims: operand.dims, values: step.valuesAt(operand.tensor, moment), pick: (flat) => follow.choose(operand.tensor, step.fullPlace(operand.tensor, flat), moment)});
    const viewOf = (i, operand) => viewAt(operand, step.momentOf(i, operand));
    const beforeOf = (i, operand) => viewAt(operand, 2 * i);
    const inTable = (title, view) => {
        const details = make('details', {}, make('summary', {}, title));
        details.addEventListener('toggle', () => { if (details.open && !details.querySelector('table')) details.append(heat.table(view())); });
        return details;
    };
    const beforeMap = (i, operand) => {
        if (!operand.before) return null;
        const {norm} = operand.before;
        const caption = make('div', {class: 'caption soft'}, `${operand.tensor} before this op: ${norm === 0 ? 'all 0' : 'norm ' + number(norm)}`);
        return norm === 0 ? caption : heat.make(beforeOf(i, operand), {caption, most: 480});
    };
    const operandMap = (i, operand) => {
        const {operand: name, access, shape, tensor, dims, dtype, norm} = operand;
        const caption = make('div', {class: 'caption'}, make('b', {}, `${access} ${name} `), make('code', {}, shape), ' = ', make('code', {}, tensor),
            `, ${[names.of(tensor), step.partText(operand) || dims.join('×'), dtype].filter(Boolean).join(', ')}; norm ${number(norm)}`);
        return make('div', {class: 'operand'}, beforeMap(i, operand), heat.make(viewOf(i, operand), {caption, most: 480}),
            operand.before ? inTable('its values before, as a table', () => beforeOf(i, operand)) : null,
            inTable(step.isCut(operand) ? 'these values as a table' : 'all its values as a table', () => viewOf(i, operand)));
    };
    const operands = (i) => {
        const {operands: all} = walk.ops[i];
        const part = (title, list) => (list.length ? make('div', {}, make('h3', {}, title), ...list.map((o) => operandMap(i, o))) : null);
        return make('div', {class: 'operands'}, part('What it writes', all.filter(step.isOutput)), part('What it reads', all.filter((o) => !step.isOutput(o))));
    };

    // --- times ---
    const bar = (time, roofline, most) => make('div', {class: 'bar', 'aria-hidden': 'true'},
        make('div', {class: 'took', style: `width:${100 * time / most}%`}),
        isFinite(roofline) && roofline > 0 ? make('div', {class: 'roof', style: `left:${Math.min(100, 100 * roofline / most)}%`}) : null);
    const timeRow = (op, i, device, most) => {
        const {self_ns: time, roofline_ns: roofline, bound} = device.ops[i];
        return [device.device, [microseconds(time), time], bar(time, roofline, most), roofline ? [microseconds(roofline), roofline] : '', roofline ? percent(roofline / time) : '', bound,
            op.flops ? number(op.flops / time, 3) : '', number(op.bytes / time, 3)];
    };
    const times = (i) => {
        const op = walk.ops[i];
        const timed = data.times.filter((device) => device.ops);
        if (!timed.length) return make('p', {class: 'soft'}, 'No device was timed.');
        const most = Math.max(...timed.map((device) => device.ops[i].self_ns));
        return make('div', {}, page.grid('times', 'device|#time||#roofline|#of it|bound|#GFLOP/s|#GB/s', timed.map((device) => timeRow(op, i, device, most))),
            make('p', {class: 'soft'}, 'roofline: the shortest time possible at the ceilings measured here, of operands as large as all tensors of the step; the mark in the bar. Above 100%: those of the op lay in a nearer cache.'));
    };

    // --- the rest ---
    const attributes = (op) => Object.entries(op.attributes).map(([name, value]) => [name, String(value)]);
    const facts = (op) => page.facts([['phase', op.phase], ['runs in', `${op.range} range`], ['block', op.layer < 0 ? null : op.layer],
        ['work', `${number(op.flops)} FLOPs`], ['traffic', bytes(op.bytes)], ['FLOPs a byte', number(op.flops / op.bytes, 3)], ...attributes(op)]);
    const sources = (op) => data.kinds[op.kind].sources.map(({backend, file}) =>
        make('details', {class: 'source'}, make('summary', {}, `${backend}: `, make('code', {}, file)), make('pre', {}, make('code', {}, data.files[file]))));

    const draw = (i) => {
        const op = walk.ops[i];
        const title = make('h2', {id: 'op'}, `Op ${i}: ${op.kind}`, make('span', {class: 'soft'}, '  ' + step.place(op)));
        const makes = op.operands.filter(step.isOutput).map(({tensor}) => names.of(tensor)).filter(Boolean);
        return [title, make('p', {class: 'makes'}, 'It makes ', makes.join('; ') || op.kind, '.'), follow.draw(i), lessons.draw(i), facts(op), describe(op), operands(i), make('h3', {}, 'Where its time stands'), times(i), make('h3', {}, 'How it is computed'), ...sources(op)];
    };
    return {draw, microseconds, percent};
})();

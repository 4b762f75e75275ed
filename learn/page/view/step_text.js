// step_text.js: what the model makes of the text: the loss of each token, and the most probable tokens at each place.
// `textPart` here.
const textPart = (() => {
    const {make, number} = page, {walk} = step;
    const TOP = 5;
    const V = walk.config.vocab;

    // Rows of logits, before the backward overwrites them: of one op, or of chunks of rows in turn.
    const readLogits = () => {
        const rows = [];
        walk.ops.forEach((op, i) => {
            const operand = /^crossentropy_(forward|with_gradient)$/.test(op.kind) ? step.operandOf(op, 'logits') : null;
            if (!operand || step.isCut(operand)) return;
            const values = step.valuesOf(i, operand);
            const width = operand.dims[operand.dims.length - 1];
            for (let at = 0; at < values.length; at += width) rows.push(values.slice(at, at + V));
        });
        return rows;
    };
    const readLosses = () => walk.ops.flatMap((op, i) => (/^crossentropy_(forward|with_gradient)$/.test(op.kind) ? [...step.valuesOf(i, step.operandOf(op, 'losses'))] : []));

    const softmax = (logits) => {
        const most = Math.max(...logits);
        const e = Array.from(logits, (x) => Math.exp(x - most));
        const sum = e.reduce((a, b) => a + b, 0);
        return e.map((x) => x / sum);
    };
    const topOf = (p) => [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, TOP);
    let logits, losses;
    const read = () => { logits = readLogits(); losses = readLosses(); };
    const loss = () => {
        const at = walk.ops.findIndex((op) => op.kind === 'loss_mean');
        return at < 0 ? NaN : step.valuesOf(at, step.operandOf(walk.ops[at], 'loss'))[0];
    };

    // --- the loss over the text ---
    const span = (n, most) => {
        const share = most > 0 ? losses[n] / most : 0;
        const target = walk.targets[n];
        const element = make('span', {class: 'token', tabindex: 0, style: `--share:${(100 * share).toFixed(0)}%`}, step.tokenText(target));
        page.hint(element, () => [make('b', {}, `${step.tokenText(walk.tokens[n])} → ${step.tokenText(target)}`), make('br'), `loss ${number(losses[n])}`,
            logits[n] ? `, probability ${opPanel.percent(softmax(logits[n])[target])}` : '']);
        return element;
    };
    const drawLosses = () => {
        read();
        const most = Math.max(...losses);
        const {n_seq: T} = walk;
        const lines = Array.from({length: walk.n_batch}, (_, b) => make('p', {class: 'text'},
            make('span', {class: 'token first'}, step.tokenText(walk.tokens[b * T])), ...Array.from({length: T}, (__, t) => span(b * T + t, most))));
        return make('div', {id: 'loss-text'}, ...lines, make('p', {class: 'soft'},
            `Each token in the colour of its loss, from 0 to ${number(most)}; their mean is the loss, ${number(loss(), 6)}. Guessing among ${V} tokens would cost log ${V} = ${number(Math.log(V))}. The first token of a sequence is not predicted.`));
    };

    // --- the most probable tokens ---
    const guess = (p, id, isTarget) => make('span', {class: isTarget ? 'guess hit' : 'guess', style: `--share:${(100 * p).toFixed(1)}%`}, `${step.tokenText(id)} ${(100 * p).toFixed(1)}%`);
    const rankOf = (row, target) => 1 + row.reduce((n, x) => n + (x > row[target]), 0);
    const drawRow = (row, n) => {
        const p = softmax(row);
        const target = walk.targets[n];
        return [n, step.tokenText(walk.tokens[n]), step.tokenText(target), heat.exact(losses[n]), (100 * p[target]).toFixed(2) + '%', rankOf(row, target),
            make('span', {}, topOf(p).map((id) => guess(p[id], id, id === target)))];
    };
    const drawLogits = () => (logits.length === 0 ? make('p', {class: 'soft'}, 'The logits are too many for a page; a shorter --seq-len has room for them.')
        : page.grid('logits', `#place|token|next|#loss|#its probability|#rank|the ${TOP} most probable`, logits.map(drawRow)));

    return {drawLosses, drawLogits, loss, softmax};
})();

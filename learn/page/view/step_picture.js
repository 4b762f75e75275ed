// step_picture.js: the model as a picture: forward down its left side, backward up its right, block by block, along the
// residual stream. `picture` here.
const picture = (() => {
    const {make, svg} = page, {walk} = step;
    // On a phone the boxes stand close, so that their texts can be read; a band's name stands above it.
    const isNarrow = innerWidth < 640;
    const [BOX, GAP, LEFT, EDGE, BAND_GAP] = isNarrow ? [150, 30, 42, 26, 24] : [196, 120, 92, 34, 12];
    const ROW = 20, HEAD = isNarrow ? 44 : 26;
    const RIGHT = LEFT + BOX + GAP;
    const WIDTH = RIGHT + BOX + LEFT;

    // The subject of a kind, for its colour.
    const families = [
        ['product', /^matmul/, '--s1'], ['attention', /attention|rope/, '--s4'], ['normalisation', /norm(?!.*clip)(_|$)/, '--s3'],
        ['loss', /crossentropy|loss/, '--s2'], ['embedding', /embedding/, '--s6'],
        ['optimizer', /^(grad_|adam|sgd|lion|ada|muon|normalize|combine|scaler|zero)/, '--s5'],
    ];
    const pointwise = ['pointwise', null, '--s8'];
    const familyOf = (kind) => (/^(grad_sqnorm|normalize)/.test(kind) ? families[5] : families.find(([, pattern]) => pattern.test(kind)) || pointwise);

    // Bands from top to bottom: before the blocks, each block, after them, and the update.
    const firstLayerAt = walk.ops.findIndex((op) => op.layer >= 0);
    const bandOf = (op, i) => {
        if (op.phase === 'optimizer' || op.phase === 'scaler') return 'update';
        if (op.layer >= 0) return 'block ' + op.layer;
        if (op.phase === 'zero_grad') return 'begin';
        if (/embedding/.test(op.kind) || (i < firstLayerAt) || (step.isBackward(op) && i > lastBackwardLayerAt)) return 'embedding';
        return 'head and loss';
    };
    const lastBackwardLayerAt = walk.ops.reduce((last, op, i) => (op.layer >= 0 && step.isBackward(op) ? i : last), walk.ops.length);

    const bandNames = ['begin', 'embedding', ...Array.from({length: walk.config.n_layer}, (_, i) => 'block ' + i), 'head and loss', 'update'];
    // Each band's ops, and where each stands: {x, y}; backward from below.
    const arrange = () => {
        const bands = bandNames.map((name) => ({name, left: [], right: []}));
        walk.ops.forEach((op, i) => {
            const band = bands.find(({name}) => name === bandOf(op, i));
            (step.isBackward(op) ? band.right : band.left).push(i);
        });
        const at = new Map();
        let y = HEAD;
        for (const band of bands) {
            const n = Math.max(band.left.length, band.right.length);
            band.y = y;
            band.height = n * ROW + 8;
            band.left.forEach((i, k) => at.set(i, {x: LEFT, y: y + 4 + k * ROW}));
            band.right.forEach((i, k) => at.set(i, {x: RIGHT, y: y + 4 + (n - 1 - k) * ROW}));
            y += n > 0 ? band.height + BAND_GAP : 0;
        }
        return {bands: bands.filter(({left, right}) => left.length + right.length), at, height: y};
    };
    const places = arrange();

    // The residual stream: what the embedding gives and every block adds to; its gradient on the way back.
    const streamTensors = () => {
        const names = new Set();
        for (const op of walk.ops) {
            if (/^(embedding_forward|residual)/.test(op.kind)) {
                const out = step.operandOf(op, 'x') && op.kind === 'embedding_forward' ? 'x' : ['r', 'y', 'dx'].find((name) => op.operands.some((o) => o.operand === name && step.isOutput(o)));
                names.add(step.operandOf(op, out).tensor);
            }
        }
        return names;
    };
    const stream = streamTensors();

    const shortName = (op) => {
        const out = op.operands.find(step.isOutput);
        return `${op.kind.replace(/_(forward|backward)/, '').replace('_input', ' dx').replace('_weight', ' dW')}`
            + (out ? '  ' + out.tensor.replace(/^(d\.)?(h|model\.layers)\.\d+\./, '$1') : '');
    };
    // As much of a text as fits into a box.
    const pen = document.createElement('canvas').getContext('2d');
    pen.font = `${isNarrow ? 12 : 11}px ${getComputedStyle(document.body).fontFamily}`;
    const clip = (text) => {
        let n = text.length;
        while (n > 1 && pen.measureText(text.slice(0, n) + (n < text.length ? '…' : '')).width > BOX - 12) n--;
        return n < text.length ? text.slice(0, n) + '…' : text;
    };

    const boxes = [];
    const drawBox = (i, choose) => {
        const op = walk.ops[i];
        const {x, y} = places.at.get(i);
        const [family, , colour] = familyOf(op.kind);
        const label = `op ${i}: ${op.kind}, ${step.place(op)}`;
        const box = svg('g', {class: 'op', role: 'button', tabindex: -1, 'aria-label': label, 'data-op': i, transform: `translate(${x},${y})`, style: `--family:var(${colour})`},
            svg('rect', {width: BOX, height: ROW - 4, rx: 3}),
            svg('text', {x: 6, y: ROW - 8}, clip(`${i}  ${shortName(op)}`)));
        box.addEventListener('click', () => choose(i));
        box.addEventListener('keydown', (event) => { if (event.key === 'Enter') choose(i); });
        page.hint(box, () => [make('b', {}, label), make('br'), names.of(op.operands.find(step.isOutput).tensor), make('br'), op.equation, make('br'), `${page.number(op.flops)} FLOPs, ${page.bytes(op.bytes)}; ${family}`]);
        boxes[i] = box;
        return box;
    };

    // From the stream to who reads it, to the stream from who writes it.
    const drawTap = (i) => {
        const op = walk.ops[i];
        const {x, y} = places.at.get(i);
        const isRight = x === RIGHT;
        const line = isRight ? RIGHT + BOX + EDGE : LEFT - EDGE;
        const edge = isRight ? x + BOX : x;
        const middle = y + (ROW - 4) / 2;
        const touches = (wanted) => op.operands.some((o) => step.isOutput(o) === wanted && stream.has(o.tensor));
        const path = (from, to, dy) => svg('path', {class: 'tap', d: `M${from},${middle + dy}H${to}`, 'marker-end': 'url(#arrow)'});
        return [touches(false) ? path(line, edge, -4) : null, touches(true) ? path(edge, line, 4) : null];
    };
    const drawStream = () => {
        const inner = (x) => [...places.at].filter(([i, p]) => p.x === x && drawTap(i).some(Boolean)).map(([, p]) => p.y);
        return [[LEFT, LEFT - EDGE, 'residual stream'], [RIGHT, RIGHT + BOX + EDGE, 'its gradient']].filter(([x]) => inner(x).length).map(([x, at, text]) => {
            const ys = inner(x);
            const top = Math.min(...ys), bottom = Math.max(...ys) + ROW;
            const middle = (top + bottom) / 2;
            const side = x === LEFT ? at - EDGE / 3 : at + EDGE / 2;
            return svg('g', {}, svg('path', {class: 'stream', d: `M${at},${top}V${bottom}`}),
                svg('text', {class: 'soft', transform: `translate(${side},${middle}) rotate(-90)`, 'text-anchor': 'middle'}, text));
        });
    };
    const drawBand = ({name, y, height}) => svg('g', {},
        svg('rect', {class: 'band', x: LEFT - EDGE, y, width: WIDTH - 2 * (LEFT - EDGE), height, rx: 6}),
        svg('text', {class: 'soft', x: LEFT + BOX + GAP / 2, y: isNarrow ? y - 6 : y + height / 2 + 4, 'text-anchor': 'middle'}, name));

    // Producers of what an op reads: lines from them to it.
    const writerBefore = (i, operand) => walk.ops.findLastIndex((op, k) => k < i && op.operands.some((o) => step.isOutput(o) && o.tensor === operand.tensor));
    const edges = svg('g', {class: 'edges'});
    const curve = (from, to) => {
        const a = places.at.get(from), b = places.at.get(to);
        const ay = a.y + (ROW - 4) / 2, by = b.y + (ROW - 4) / 2;
        const ax = a.x === LEFT ? a.x + BOX : a.x, bx = b.x === LEFT ? b.x + BOX : b.x;
        const bend = GAP / 2.6;
        return svg('path', {class: 'edge', d: `M${ax},${ay}C${ax + (a.x === LEFT ? bend : -bend)},${ay} ${bx + (b.x === LEFT ? bend : -bend)},${by} ${bx},${by}`, 'marker-end': 'url(#arrow)'});
    };
    const drawEdges = (i) => edges.replaceChildren(...walk.ops[i].operands.filter((o) => !step.isOutput(o))
        .map((o) => writerBefore(i, o)).filter((k) => k >= 0).map((k) => curve(k, i)));

    const arrow = () => svg('defs', {}, svg('marker', {id: 'arrow', viewBox: '0 0 8 8', refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: 'auto'},
        svg('path', {d: 'M0,1L7,4L0,7Z', class: 'tip'})));
    const heading = (x, text) => svg('text', {class: 'title', x: x + BOX / 2, y: 16, 'text-anchor': 'middle'}, text);

    const draw = (choose) => svg('svg', {viewBox: `0 0 ${WIDTH} ${places.height}`, role: 'group', 'aria-label': 'the ops of the step along the model'},
        arrow(), heading(LEFT, 'forward \u2193'), heading(RIGHT, 'backward \u2191'),
        places.bands.map(drawBand), drawStream(), [...places.at.keys()].flatMap(drawTap).filter(Boolean), edges,
        [...places.at.keys()].sort((a, b) => a - b).map((i) => drawBox(i, choose)));

    const legend = () => make('ul', {class: 'families'}, ...[...new Set(walk.ops.map((op) => familyOf(op.kind)))]
        .map(([name, , colour]) => make('li', {style: `--family:var(${colour})`}, make('span', {class: 'swatch'}), name)));

    // The current op is highlighted; earlier ones are done.
    const show = (i) => {
        boxes.forEach((box, k) => {
            box.classList.toggle('now', k === i);
            box.classList.toggle('done', k < i);
            box.setAttribute('tabindex', k === i ? 0 : -1);
            if (k === i) box.setAttribute('aria-current', 'step'); else box.removeAttribute('aria-current');
        });
        drawEdges(i);
    };
    const boxOf = (i) => boxes[i];
    return {draw, legend, show, boxOf, familyOf};
})();

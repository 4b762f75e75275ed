// step_layers.js: attention's weights, head by head, and how activations and gradients are spread, layer by layer.
// `layers` here.
const layers = (() => {
    const {make, svg, number} = page, {walk} = step;
    const {n_seq: T, n_batch: B} = walk;

    // --- attention ---
    const isAttention = (op) => /attention_forward$/.test(op.kind) && !op.attributes.recomputed;
    // Weights (B,NH,T,T) of an op that keeps them.
    const keptWeights = (op, i) => {
        const operand = step.operandOf(op, 'att');
        return operand && operand.dims.length === 4 ? step.valuesOf(i, operand).slice() : null;
    };
    // Of one that does not: softmax of q and k, as it computes them on its way.
    const scoreRow = (qkv, at, h, t) => {
        const {width, HS, NH, group} = at;
        const q = (at.first + t) * width + h * HS;
        return Array.from({length: at.cut ? T : t + 1}, (_, s) => {
            const k = (at.first + s) * width + (NH + Math.floor(h / group)) * HS;
            let sum = 0;
            for (let c = 0; c < HS; c++) sum += qkv[q + c] * qkv[k + c];
            return sum / Math.sqrt(HS);
        });
    };
    const computedWeights = (op, i) => {
        const {n_head: NH, n_kv_head: NKV = NH} = op.attributes;
        const operand = step.operandOf(op, 'qkv');
        const qkv = step.valuesOf(i, operand).slice();
        const width = operand.dims[2];
        const weights = new Float32Array(B * NH * T * T);
        for (let b = 0; b < B; b++) for (let h = 0; h < NH; h++) for (let t = 0; t < T; t++) {
            const at = {first: b * T, width, NH, HS: width / (NH + 2 * NKV), group: NH / NKV, cut: op.attributes.cut};
            weights.set(textPart.softmax(scoreRow(qkv, at, h, t)), ((b * NH + h) * T + t) * T);
        }
        return weights;
    };
    const headMap = (op, weights, b, h) => {
        const first = (b * op.attributes.n_head + h) * T * T;
        const word = (n) => step.tokenText(walk.tokens[b * T + n]);
        return heat.make({name: `att[${b},${h}]`, dims: [T, T], values: weights.subarray(first, first + T * T),
            describe: (i) => `“${word(Math.floor(i / T))}” looks at “${word(i % T)}”`},
        {most: 224, scale: 1, caption: make('div', {class: 'caption'}, `head ${h}` + (B > 1 ? `, sequence ${b}` : ''))});
    };
    const layerFigure = (op, i) => {
        if (step.isCut(step.operandOf(op, 'att') || step.operandOf(op, 'qkv'))) return make('p', {class: 'soft'}, `block ${op.layer}: this page has slices of its tensors, too small for its weights.`);
        const kept = keptWeights(op, i);
        const weights = kept || computedWeights(op, i);
        const heads = Array.from({length: B * op.attributes.n_head}, (_, n) => headMap(op, weights, Math.floor(n / op.attributes.n_head), n % op.attributes.n_head));
        return make('figure', {}, make('h3', {}, `block ${op.layer}`), make('div', {class: 'heads'}, ...heads),
            make('figcaption', {}, kept ? `What op ${i} stores: row t is how token t shares its attention among ${op.attributes.cut ? 'all tokens, also those after it' : 'tokens s ≤ t'}.`
                : `Op ${i} (${op.kind}) stores no whole square of weights: these are softmax(q kᵀ/√HS), computed here from the q and k that it reads.`));
    };
    const drawAttention = () => make('div', {class: 'charts'}, ...walk.ops.flatMap((op, i) => (isAttention(op) ? [layerFigure(op, i)] : [])));

    // --- histograms ---
    const BINS = 31, WIDTH = 150, HEIGHT = 34;
    const statistics = (values) => {
        const n = values.length;
        const mean = values.reduce((a, x) => a + x, 0) / n;
        const variance = values.reduce((a, x) => a + (x - mean) ** 2, 0) / n;
        return {mean, std: Math.sqrt(variance), most: heat.largest(values)};
    };
    const countBins = (values, most) => {
        const bins = new Array(BINS).fill(0);
        for (const x of values) bins[Math.min(BINS - 1, Math.max(0, Math.floor((x / most + 1) / 2 * BINS)))]++;
        return bins;
    };
    const histogram = (name, values) => {
        const {mean, std, most} = statistics(values);
        const bins = countBins(values, most || 1);
        const top = Math.max(...bins);
        const w = WIDTH / BINS;
        const text = `${name}: ${values.length} values from ${number(-most)} to ${number(most)}; mean ${number(mean)}, standard deviation ${number(std)}`;
        const picture = svg('svg', {class: 'histogram', viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: 'img', 'aria-label': text},
            svg('path', {d: bins.map((n, k) => `M${k * w},${HEIGHT}v${-HEIGHT * n / top}h${w - .5}v${HEIGHT * n / top}`).join('')}));
        page.hint(picture, () => text);
        return {picture, std, most};
    };
    const cells = (found) => (found ? [found.picture, [number(found.std, 3), found.std], [number(found.most, 3), found.most]] : ['', '', '']);

    // An activation where it is written first, and its gradient where it is complete.
    const lastWrite = (name) => walk.ops.reduce((last, op, i) => (op.operands.some((o) => o.tensor === name && step.isOutput(o)) ? i : last), -1);
    // "d." before the tensor's own part of its name; what leaves a block goes by the name of what enters the next.
    const lastLayer = walk.config.n_layer - 1;
    const gradientName = (name) => {
        const [, layer] = name.match(/^h\.(\d+)\.res2$/) || [];
        if (name === 'encoded') return 'h.0.d.x';
        if (layer !== undefined) return Number(layer) < lastLayer ? `h.${Number(layer) + 1}.d.x` : 'd.x';
        return name.replace(/^(h\.\d+\.)?/, '$1d.');
    };
    // Of values, those that the model has: what pads a vocabulary is in no statistic.
    const {vocab} = walk.config;
    const modelsOf = (name, values, shown = name) => (name === 'logits' ? values.filter((_, i) => i % step.tensor(shown).dims.at(-1) < vocab)
        : values.slice(0, step.isCut(step.tensor(shown)) ? values.length : step.tensor(name).model_elems));
    const gradientOf = (name) => {
        const gradient = ['d.' + name, gradientName(name)].find(step.tensor);
        const at = gradient ? lastWrite(gradient) : -1;
        return at < 0 ? null : histogram(gradient, modelsOf(name, step.valuesAt(gradient, 2 * at + 1), gradient));
    };
    const rowOf = (layer, name, values) => [layer < 0 ? '' : layer, name, ...cells(histogram(name, modelsOf(name, values))), ...cells(gradientOf(name))];
    const activationRows = () => walk.ops.flatMap((op, i) => (op.phase !== 'forward' || op.attributes.recomputed ? [] : op.operands
        .filter((o) => step.isOutput(o) && o.role === 'activations' && step.count(o.dims) > 1).map((o) => rowOf(op.layer, o.tensor, step.valuesOf(i, o)))));
    const layerOf = (name) => Number((name.match(/^(?:h|model\.layers)\.(\d+)\./) || [0, -1])[1]);
    const parameterRows = () => walk.tensors.filter((t) => t.role === 'parameters' && t.view_of && !/^(bf16|f16|rows)\./.test(t.name))
        .map((t) => rowOf(layerOf(t.name), t.name, step.valuesAt(t.name, 0)));
    const table = (id, first, rows) => page.grid(id, `#block|${first}|values|#std|#largest|gradient|#std|#largest`, rows);
    const drawHistograms = () => [make('h3', {}, 'Activations'), table('activations', 'activation', activationRows()), make('h3', {}, 'Weights'), table('weights', 'weight', parameterRows())];

    return {drawAttention, drawHistograms};
})();

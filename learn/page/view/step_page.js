// step_page.js: puts the parts of the page together, and plays the step: op by op, by buttons, keys or a slider.
const stepPage = (() => {
    const {make, number} = page, {data, walk} = step;
    const last = walk.ops.length - 1;
    const state = {op: -1, timer: null};

    // --- player ---
    const button = (id, label, text, act) => make('button', {id, type: 'button', 'aria-label': label, title: label, onclick: act}, text);
    const slider = make('input', {id: 'slider', type: 'range', min: 0, max: last, value: 0, 'aria-label': 'op of the step', oninput: () => go(Number(slider.value))});
    const now = make('output', {id: 'now', 'aria-live': 'polite'});
    const speed = make('select', {id: 'speed', 'aria-label': 'ops a second'}, ...[[1, '1 a second'], [3, '3 a second'], [10, '10 a second']].map(([n, text]) => make('option', {value: n, selected: n === 3}, text)));
    const playButton = button('play', 'play', 'play', () => (state.timer ? pause() : play()));

    const pause = () => {
        clearInterval(state.timer);
        state.timer = null;
        playButton.textContent = 'play';
        playButton.setAttribute('aria-label', 'play');
    };
    const play = () => {
        if (state.op === last) go(0);
        playButton.textContent = 'pause';
        playButton.setAttribute('aria-label', 'pause');
        state.timer = setInterval(() => (state.op < last ? go(state.op + 1) : pause()), 1000 / Number(speed.value));
    };
    speed.addEventListener('change', () => { if (state.timer) { pause(); play(); } });

    // One part of the step a bar, an op a piece of it.
    const pieces = make('div', {class: 'strip', 'aria-hidden': 'true'}, ...walk.ops.map((op, i) => {
        const piece = make('i', {style: `--family:var(${picture.familyOf(op.kind)[2]})`, 'data-phase': op.phase, title: `${i} ${op.kind}`});
        piece.addEventListener('click', () => go(i));
        return piece;
    }));
    const phases = () => make('div', {class: 'phases'}, ...step.phasesOf(walk.ops).map(({phase, first, n}) =>
        make('button', {type: 'button', style: `flex:${n} 1 0`, title: `${phase}: ops ${first} to ${first + n - 1}`, onclick: () => go(first)}, phase)));

    // The picture scrolls by itself next to a long op.
    const keepInView = (frame, box) => {
        if (frame.scrollHeight <= frame.clientHeight + 1) return;
        const at = box.getBoundingClientRect().top - frame.getBoundingClientRect().top;
        if (at < 40 || at > frame.clientHeight - 40) frame.scrollTop += at - frame.clientHeight / 2;
    };
    const panel = make('section', {id: 'op-panel', 'aria-labelledby': 'op'});
    const go = (i) => {
        state.op = Math.max(0, Math.min(last, i));
        const op = walk.ops[state.op];
        slider.value = state.op;
        slider.setAttribute('aria-valuetext', `op ${state.op}: ${op.kind}, ${step.place(op)}`);
        now.textContent = `op ${state.op} of ${walk.ops.length}: ${op.kind}, ${step.place(op)}`;
        [...pieces.children].forEach((piece, k) => piece.classList.toggle('now', k === state.op));
        picture.show(state.op);
        keepInView(map, picture.boxOf(state.op));
        memory.show(state.op);
        panel.replaceChildren(...opPanel.draw(state.op).filter(Boolean));
    };
    const choose = (i) => { pause(); go(i); clearTimeout(state.link); state.link = setTimeout(live.link, 400); };
    const map = make('div', {class: 'map'}, picture.draw(choose));

    // Space plays, arrows step, Home and End go to the ends; not while a field or a map has the keys.
    const keys = {' ': () => (state.timer ? pause() : play()), ArrowRight: () => choose(state.op + 1), ArrowLeft: () => choose(state.op - 1), Home: () => choose(0), End: () => choose(last)};
    addEventListener('keydown', (event) => {
        const isElsewhere = event.target.closest('input, select, textarea, canvas, summary, a, button') || event.ctrlKey || event.metaKey || event.altKey;
        if (isElsewhere || !keys[event.key]) return;
        event.preventDefault();
        keys[event.key]();
        if (event.target.closest('g.op')) picture.boxOf(state.op).focus();
    });

    // A tour for those who see a step for the first time: one op of each kind that matters, along the last block.
    const stops = [['words become vectors', /^embedding_forward/], ['each vector is normalised', /(layernorm|rmsnorm)_forward$/], ['a product with weights', /^matmul_forward/], ['each token looks back', /attention_forward$/],
        ['a nonlinear function', /^(gelu|relu2|swiglu)/], ['how wrong it was', /^crossentropy_(forward|with)/], ['who was to blame', /^matmul_backward_weight/], ['the weights move', /^adam|^sgd|^lion|^muon|^adafactor/]]
        .map(([text, kind]) => ({text, at: walk.ops.findLastIndex((op) => kind.test(op.kind))})).filter(({at}) => at >= 0);
    const tour = make('select', {id: 'tour', 'aria-label': 'tour', onchange: () => { if (tour.value !== '') choose(Number(tour.value)); }},
        make('option', {value: ''}, 'tour'), ...stops.map(({text, at}, k) => make('option', {value: at}, `${k + 1}. ${text}`)));
    // The first sight: where a trained model looks, or how wrong a fresh one is.
    const first = () => stops[/ --(weights|train-steps) /.test(data.command) ? 3 : 5]?.at ?? 0;

    const player = () => make('div', {class: 'player on-screen'}, make('div', {class: 'buttons'}, button('first', 'first op', '|◀', () => choose(0)), button('back', 'one op back', '◀', () => choose(state.op - 1)),
        playButton, button('on', 'one op on', '▶', () => choose(state.op + 1)), button('last', 'last op', '▶|', () => choose(last)), speed, tour, now), slider, pieces, phases());

    // --- the page ---
    const section = (id, title, ...contents) => make('section', {id}, make('h2', {}, title), ...contents);
    const save = () => page.download('walk.json', 'application/json', JSON.stringify(step.whole()));
    // Of a text what is read of it.
    const read = () => (walk.data.startsWith('the text: ') ? [...walk.tokens.slice(0, walk.n_seq), walk.targets[walk.n_seq - 1]].map(step.tokenText).join('').replaceAll('\u2423', ' ') : walk.data);
    const head = () => {
        const {config} = walk;
        return make('section', {id: 'about'},
            page.facts([['model', `${walk.model_arch} ${walk.model}: ${config.n_layer} blocks of ${config.n_head} heads, ${config.d_model} channels, ${number(walk.model_n_params, 9)} parameters`],
                ['step', `${walk.n_batch} × ${walk.n_seq} tokens, mode ${walk.mode}, ${walk.precision}, dropout ${walk.dropout}, ${walk.optimizer}`],
                ['loss', heat.exact(textPart.loss())], ['weights', walk.weights], ['tokens', read()]]),
            walk.tensors.some(step.isCut) ? make('p', {id: 'slices'}, 'Large tensors are shown in slices: their first rows and columns, as each says. Norms, the loss and the text are those of the whole step.') : null,
            make('p', {}, `Every number here was computed by the reference backend. ${walk.tensors.some(step.isCut) ? 'Norms and first values' : 'The same numbers'} as text: `, make('code', {}, data.command)),
            make('div', {class: 'tools'}, make('button', {id: 'save', type: 'button', onclick: save}, 'all numbers as JSON'), make('span', {class: 'soft'}, 'Space plays, ← and → step, Tab and arrows reach every cell.')));
    };
    const deviceRow = ({ops, device, name, isa, median_ns: median, peak_flops: flops, peak_bandwidth: bandwidth, verdict, status, reason}) => [device, [name, isa].filter(Boolean).join(', '),
        ...(ops ? [[opPanel.microseconds(median), median], flops ? flops / 1e9 : '', bandwidth ? bandwidth / 1e9 : '', verdict] : ['', '', '', `${status}: ${reason}`])];
    const devices = () => (data.times.length ? [page.grid('devices', 'device|is|#a step|#GFLOP/s|#GB/s|what it is bound by', data.times.map(deviceRow)),
        make('p', {class: 'soft'}, 'A short measurement of the same plan on batches of the embedded text; the loss and the gradients were checked first. GFLOP/s and GB/s: ceilings measured here, each for a tenth of a second. stepmark profile takes its time.')]
        : [make('p', {class: 'soft'}, 'No device was timed (--backend none).')]);
    const links = [['step', 'the step'], ['op-panel', 'the op'], ['live', 'change it'], ['text', 'the text'], ['attention', 'attention'], ['histograms', 'layers'], ['memory', 'memory'], ['fusion', 'naive and fused'], ['devices-part', 'devices']];

    document.querySelector('h1').after(head(), make('nav', {'aria-label': 'parts'}, ...links.map(([id, text]) => make('a', {href: '#' + id}, text))));
    document.body.append(section('step', 'The step', player(), make('div', {class: 'stage'}, make('div', {class: 'model'}, picture.legend(), map), panel)));

    // Parts further down are drawn when the first part is there.
    const ofValues = () => [section('text', 'The text', textPart.drawLosses(), make('h3', {}, 'What the model expects'), textPart.drawLogits()),
        section('attention', 'Attention', layers.drawAttention()), section('histograms', 'Layer by layer', ...layers.drawHistograms())];
    const parts = () => [section('live', 'Change it', ...live.draw()), ...ofValues(),
        section('memory', 'Memory', ...memory.draw()), section('fusion', 'Naive next to fused', ...memory.drawFusion().filter(Boolean)), section('devices-part', 'Devices', ...devices())];
    document.body.append(...parts());
    go(first());
    // After the values have changed.
    const refresh = () => {
        for (const part of ofValues()) document.getElementById(part.id).replaceWith(part);
        document.getElementById('about').replaceWith(head());
        go(state.op);
    };
    return {go, choose, state, refresh};
})();
live.begin();
addEventListener('hashchange', live.begin);

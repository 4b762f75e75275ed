// step_lessons.js: the course's lessons at their ops: each asks what a change will do. You guess, and the page computes
// the answer. `lessons` here.
const lessons = (() => {
    const {make, number} = page, {data, walk} = step;
    const L = walk.config.n_layer - 1;

    // --- where things are ---
    const last = (kind, phase = null) => walk.ops.findLastIndex((op) => kind.test(op.kind) && (!phase || op.phase === phase));
    const first = (kind) => walk.ops.findIndex((op) => kind.test(op.kind));
    const name = (i, operand) => walk.ops[i] && step.operandOf(walk.ops[i], operand)?.tensor;
    const after = (i, operand) => step.valuesAt(name(i, operand), 2 * i + 1);
    const width = (tensor) => step.tensor(tensor).dims.at(-1);
    const norm = (values) => Math.sqrt(values.reduce((total, x) => total + x * x, 0));
    const all = (tensor, change) => `${tensor}[*,0:${width(tensor)}]${change}`;
    const loss = () => textPart.loss();

    // --- what a guess says of a number: it was, and is now ---
    const near = (a, b) => Math.abs(a - b) <= 0.02 * Math.abs(b);
    const rises = {falls: (was, now) => now < was, stays: (was, now) => now === was, rises: (was, now) => now > was};
    const doubles = {stays: (was, now) => near(now, was), doubles: (was, now) => near(now, 2 * was), 'becomes four times as large': (was, now) => near(now, 4 * was), 'something else': () => true};

    // Each: the lesson, its op, what is asked, the change, the number that answers, its name, and the guesses: the first
    // that holds is right.
    const frequent = () => walk.tokens.reduce((best, id, _, ids) => (ids.filter((x) => x === id).length > ids.filter((x) => x === best).length ? id : best), walk.tokens[0]);
    const sum = (ops) => ops.reduce((total, op) => total + op.flops, 0);
    const share = () => sum(walk.ops.filter((op) => /^matmul/.test(op.kind))) / sum(walk.ops);
    const table = [
        {n: 1, file: '01-tokens.md', op: () => last(/^loss_mean/), ask: 'Suppose that the model were certain of the first token: its loss were 0. What would the mean loss be?',
            edits: (i) => [`${name(i, 'losses')}[0]=0`], measure: loss, what: 'the loss', guesses: {'0': (was, now) => now === 0, 'as before': (was, now) => now === was, 'lower by a share of one token': () => true}},
        {n: 2, file: '02-embedding.md', op: () => first(/^embedding_forward/), ask: () => `The row of “${step.tokenText(frequent())}” in the table becomes 0. How many of the ${walk.tokens.length} vectors change?`,
            edits: (i) => { const t = name(i, 'wte'), C = width(t), k = frequent() * C; return [`${t}[${k}:${k + C}]=0`]; }, what: 'vectors that differ from the program’s',
            measure: (i) => { const x = after(i, 'x'), was = step.firstAt(name(i, 'x'), 2 * i + 1), C = width(name(i, 'x')); return walk.tokens.filter((_, n) => x.subarray(n * C, n * C + C).some((v, c) => v !== was[n * C + c])).length; },
            guesses: {one: (was, now) => now === 1, all: (was, now) => now === walk.tokens.length, 'one for each place of the token': () => true}},
        {n: 3, file: '03-layernorm.md', op: () => first(/(layernorm|rmsnorm)_forward$/), ask: 'Every number before this norm is doubled. What does the norm’s result do?',
            edits: (i) => [all(name(i, 'x'), '*2')], measure: (i) => norm(after(i, 'y')), what: 'the length of y', guesses: doubles},
        {n: 4, file: '04-matmul.md', op: () => last(/^matmul_backward_weight/), ask: 'dy, the gradient of this product’s result, is doubled. What does dW do?',
            edits: (i) => [all(name(i, 'dy'), '*2')], measure: (i) => norm(after(i, 'dW')), what: 'the length of dW', guesses: doubles},
        {n: 5, file: '05-attention.md', op: () => last(/attention_forward$/, 'forward'), ask: 'The mask goes: every token sees those that it has to predict. What does the loss of this model do, at once?',
            edits: () => ['mask[*]=0'], measure: loss, what: 'the loss', guesses: rises},
        {n: 6, file: '06-flash-attention.md', op: () => last(/attention_forward$/, 'forward'), ask: 'All queries of this block are doubled, and all keys halved. What does the loss do?',
            edits: (i) => { const {n_head: NH, n_kv_head: NKV} = walk.ops[i].attributes, t = name(i, 'qkv'), HS = width(t) / (NH + 2 * NKV), q = NH * HS, k = q + NKV * HS; return [`${t}[*,0:${q}]*2`, `${t}[*,${q}:${k}]*0.5`]; },
            measure: loss, what: 'the loss', guesses: rises},
        {n: 7, file: '07-gelu.md', op: () => last(/^(gelu|relu2|swiglu)_forward/), ask: 'Every input of this function becomes -10. What are its outputs?',
            edits: (i) => [`${name(i, 'x')}[*,0:${width(name(i, 'y'))}]=-10`], measure: (i) => norm(after(i, 'y')) / Math.sqrt(after(i, 'y').length), what: 'the size of a number of y',
            guesses: {'numbers near 0': (was, now) => now < 0.1, 'numbers near -10': (was, now) => near(now, 10), 'numbers near 1': () => true}},
        {n: 8, file: '08-residual.md', op: () => last(/^residual/, 'forward'), ask: 'Without the residual line around this block’s MLP: what does the loss do?',
            edits: () => [`line[${2 * L + 1}]=0`], measure: loss, what: 'the loss', guesses: rises},
        {n: 9, file: '09-loss.md', op: () => last(/^crossentropy_forward/), ask: 'All logits are doubled: the model is surer of the same guesses. What does the loss do?',
            edits: (i) => [all(name(i, 'logits'), '*2')], measure: loss, what: 'the loss', guesses: rises},
        {n: 10, file: '10-backward.md', op: () => last(/^crossentropy_backward/), ask: 'The gradient at the logits is doubled. What does the norm of all gradients do?',
            edits: (i) => [all(name(i, 'dlogits'), '*2')], measure: () => step.valuesAt('grad_norm', 2 * walk.ops.length)[0], what: 'the norm', guesses: doubles},
        {n: 11, file: '11-adamw.md', op: () => first(/^adamw/), ask: 'All gradients of these weights are doubled. What happens to the distance that the weights move in this step?',
            edits: (i) => { const t = last(/^matmul_backward_weight/), d = name(t, 'dW'); return [all(d, '*2')]; },
            measure: (i) => { const t = name(last(/^matmul_backward_weight/), 'dW').replace(/^d\./, ''); const [was, now] = [step.valuesAt(t, 0).slice(), step.valuesAt(t, 2 * walk.ops.length)]; return norm(now.map((x, k) => x - was[k])); },
            what: 'the distance of the last product’s weights', guesses: {stays: doubles.stays, doubles: doubles.doubles, 'grows by less than twice': (was, now) => now > was, shrinks: () => true}},
        {n: 12, file: '12-speed.md', op: () => first(/^matmul_forward/), ask: 'What share of all this step’s operations belongs to products of matrices?',
            edits: () => [], measure: share, what: 'their share', guesses: {'less than half': (was, now) => now < 0.5, 'half to nine tenths': (was, now) => now < 0.9, 'more than nine tenths': () => true}},
    ];
    // In a step of chunks some tensors have other names.
    const isWritten = (edit) => /^(mask|line)\[/.test(edit) || walk.ops.some((op) => op.operands.some((o) => step.isOutput(o) && edit.startsWith(o.tensor + '['))) || step.tensor(edit.split('[')[0])?.role === 'parameters';
    const there = table.map((lesson) => ({...lesson, at: lesson.op()})).filter(({at, edits}) => at >= 0 && edits(at).every(isWritten));

    // --- the question at its op ---
    const question = (lesson) => {
        const {n, at, ask, edits, measure, what, guesses} = lesson;
        const answer = make('output', {class: 'answer', 'aria-live': 'polite'});
        const guess = async (said) => {
            const changes = edits(at);
            const [was, now] = await live.ask(changes, () => measure(at));
            const right = Object.keys(guesses).find((text) => guesses[text](was, now));
            show(lesson.n, `${said === right ? 'Yes' : `No: ${right}`}. ${what[0].toUpperCase()}${what.slice(1)} ${changes.length ? `was ${number(was, 6)} and is ${number(now, 6)}` : `is ${number(now, 3)}`}.`);
        };
        answer.textContent = answers.get(n) || '';
        return make('section', {class: 'lesson', 'aria-label': `lesson ${n}`}, make('p', {}, make('b', {}, `Lesson ${n} asks: `), typeof ask === 'function' ? ask() : ask),
            make('div', {class: 'tools', role: 'group', 'aria-label': 'your guess'}, ...Object.keys(guesses).map((text) => make('button', {type: 'button', onclick: () => guess(text)}, text))), answer);
    };
    const answers = new Map();
    const show = (n, text) => { answers.set(n, text); stepPage.go(stepPage.state.op); };

    // Of an op: its questions, the lesson to read, the exercise to write.
    const draw = (i) => {
        const {kind} = walk.ops[i];
        const {lesson} = data.kinds[kind];
        const here = there.filter(({at}) => at === i);
        const files = [...new Set([lesson, ...here.map(({file}) => file)])].filter((file) => file && data.files['docs/course/' + file]);
        const asks = data.live.lacks ? [] : here.map(question);
        return asks.length + files.length === 0 ? null : make('div', {class: 'lessons'}, ...asks,
            ...files.map((file) => make('details', {class: 'source'}, make('summary', {}, 'the lesson: ', make('code', {}, 'docs/course/' + file)), make('pre', {}, data.files['docs/course/' + file]))),
            lesson ? make('p', {class: 'soft'}, 'Write it yourself: ', make('code', {}, `stepmark exercise ${kind} --init mine`)) : null);
    };
    return {draw, at: (n) => there.find((lesson) => lesson.n === Number(n))?.at ?? -1};
})();

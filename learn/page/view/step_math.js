// step_math.js: reads equations in the course's notation, and shows them as MathML. `math` here.
//
//   x[n,c]  a subscript     a / b  a fraction of the product before it and the factor after it     a/b  of two factors
//   sum_c   a sum over c    a / sum_c b  a fraction whose lower side is the whole sum               "for s <= t"  text
//   x^2, W^T, x^(2i)  a superscript         sqrt(...)  a root            [i = j]  1 or 0
const math = (() => {
    const MATHML = 'http://www.w3.org/1998/Math/MathML';
    const el = (tag, children, attributes = {}) => {
        const element = document.createElementNS(MATHML, tag);
        for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
        element.append(...[children].flat());
        return element;
    };
    const row = (children) => (children.length === 1 ? children[0] : el('mrow', children));

    // --- reading ---
    // An equation: expressions, and the signs and texts between them. Nodes: {kind, ...}.
    const pattern = /"[^"]*"|∂?[A-Za-z_][A-Za-z0-9_]*'*|[0-9.]*[0-9](?:e-?[0-9]+)?|\.\.\.|<=|>=|->|\+=|-=|\*=|\S/g;
    const ends = new Set(['', '+', '-', '=', ',', ';', ':', '<=', '>=', '<', '>', '->', '+=', '-=', '*=', '~', ')', ']']);
    const parse = (text) => {
        const tokens = [...text.matchAll(pattern)].map((match) => ({word: match[0], spaced: match.index === 0 || text[match.index - 1] === ' '}));
        let at = 0;
        const peek = () => tokens[at] || {word: '', spaced: true};
        const is = (word) => peek().word === word;
        const take = () => tokens[at++]?.word ?? '';
        // Expressions, and the signs and texts between them, up to one of these words.
        const within = (...ending) => {
            const parts = [];
            while (at < tokens.length && !ending.some(is)) parts.push(isEnd() && !is('-') ? {kind: 'sign', word: take()} : sum());
            return parts;
        };
        const row = (parts) => (parts.length === 1 ? parts[0] : {kind: 'row', parts});
        const list = (close) => {
            const entries = [];
            while (at < tokens.length && !is(close)) { entries.push(row(within(',', close))); if (is(',')) take(); }
            take();
            return entries;
        };
        const comparison = () => {
            const [left, sign, right] = [sum(), take(), sum()];
            take();
            return {kind: 'where', left, sign, right};
        };
        const atom = () => {
            const word = take();
            if (word === '[') return comparison();
            if (word === '(') { const inner = row(within(')')); take(); return {kind: 'group', inner}; }
            if (/^[0-9.]/.test(word)) return {kind: 'number', word, value: Number(word)};
            if (is('(') && !peek().spaced) { take(); return {kind: 'call', name: word, inputs: list(')')}; }
            if (is('[') && !peek().spaced) { take(); return {kind: 'entry', name: word, index: list(']')}; }
            return {kind: 'entry', name: word, index: []};
        };
        const factor = () => {
            const node = atom();
            if (!is('^')) return node;
            take();
            return {kind: 'power', base: node, up: atom()};
        };
        const isEnd = () => ends.has(peek().word) || peek().word[0] === '"';
        const isTight = () => is('/') && !peek().spaced;
        // A factor with what it is divided by, or a sum over all that follows, up to " / ".
        const part = () => {
            const over = /^(sum|max)_(.'*)$/.exec(peek().word);
            if (over) { take(); return {kind: 'over', what: over[1], letter: over[2], body: factors()}; }
            let node = factor();
            while (isTight()) { take(); node = {kind: 'ratio', above: node, below: factor()}; }
            return node;
        };
        const factors = () => {
            const parts = [];
            while (!isEnd() && (!is('/') || isTight())) parts.push(part());
            return parts.length === 1 ? parts[0] : {kind: 'product', parts};
        };
        // Factors side by side: " / " divides the product before it.
        const product = () => {
            let node = factors();
            while (is('/')) {
                take();
                node = {kind: 'ratio', above: node, below: part()};
                if (!isEnd() && !is('/')) node = {kind: 'product', parts: [node, factors()]};
            }
            return node;
        };
        const sum = () => {
            const first = is('-') && take() ? -1 : 1;
            const parts = [{sign: first, node: product()}];
            while (is('+') || is('-')) parts.push({sign: take() === '-' ? -1 : 1, node: product()});
            return parts.length === 1 && first > 0 ? parts[0].node : {kind: 'sum', parts};
        };
        return within();
    };

    // --- showing ---
    const greek = {alpha: 'α', beta: 'β', eps: 'ε', theta: 'θ', rho: 'ρ', mu: 'μ', sigma: 'σ', pi: 'π', lambda: 'λ'};
    const symbols = {'<=': '≤', '>=': '≥', '*': '⋅', '->': '→', '-': '−', '~': '∼', '*=': '⋅=', '-=': '−='};
    const mark = (word) => el('mo', symbols[word] || word);
    // A name: its Greek letter, and a number at its end as a subscript.
    const letters = (word) => {
        const [, stem, digits, primes] = word.match(/^(.*?)([0-9]*)('*)$/);
        const letter = el('mi', greek[stem] || stem);
        const base = digits ? el('msub', [letter, el('mn', digits)]) : letter;
        return primes ? el('msup', [base, mark('′'.repeat(primes.length))]) : base;
    };
    const listed = (nodes) => nodes.flatMap((node, i) => (i > 0 ? [mark(','), ...show(node)] : show(node)));
    const bare = (node) => row(show(node.kind === 'group' ? node.inner : node));
    const spread = (all) => all.filter((parts) => parts.length).flatMap((parts, i) => (i > 0 ? [el('mspace', [], {width: '0.17em'}), ...parts] : parts));
    const shown = {
        number: ({word}) => [el('mn', word)],
        sign: ({word}) => [word[0] === '"' ? el('mtext', '\u2002' + word.slice(1, -1) + '\u2002') : mark(word)],
        group: ({inner}) => [mark('('), row(show(inner)), mark(')')],
        where: ({left, sign, right}) => [mark('['), row([...show(left), mark(sign), ...show(right)]), mark(']')],
        call: ({name, inputs}) => (name === 'sqrt' ? [el('msqrt', listed(inputs))] : [row([letters(name), mark('('), row(listed(inputs)), mark(')')])]),
        entry: ({name, index}) => {
            const base = letters(name.replace('∂', ''));
            return [...(name[0] === '∂' ? [mark('∂')] : []), index.length ? el('msub', [base, row(listed(index))]) : base];
        },
        power: ({base, up}) => [el('msup', [row(show(base)), bare(up)])],
        over: ({what, letter, body}) => spread([[what === 'sum' ? el('munder', [mark('∑'), letters(letter)]) : letters(`${what}_${letter}`)], show(body)]),
        ratio: ({above, below}) => [el('mfrac', [bare(above), bare(below)])],
        row: ({parts}) => parts.flatMap(show),
        sum: ({parts}) => parts.flatMap(({sign, node}, i) => (i > 0 || sign < 0 ? [mark(sign < 0 ? '-' : '+'), ...show(node)] : show(node))),
        product: ({parts}) => spread(parts.map(show)),
    };
    const show = (node) => shown[node.kind](node);
    const expression = (text) => parse(text).flatMap(show);
    // Alone on its line.
    const display = (text) => el('math', row(expression(text)), {display: 'block', 'aria-label': text});
    const inline = (text) => el('math', row(expression(text)), {'aria-label': text});

    // A paragraph whose `code` is mathematics.
    const paragraph = (text) => page.make('p', {}, ...text.split('`').map((part, i) => (i % 2 ? inline(part) : part)));

    // Text as docs/equations.md has it: paragraphs, and equations on lines of their own, four spaces in.
    const describe = (text) => text.replace(/^\n+/, '').split(/\n\n+/).filter((block) => block.trim()).map((block) =>
        (block.startsWith('    ')
            ? page.make('div', {class: 'equations'}, ...block.split('\n').filter((line) => line.trim()).map((line) => display(line.trim())))
            : paragraph(block.replaceAll('\n', ' '))));

    return {parse, display, describe};
})();

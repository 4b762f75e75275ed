// step_math.js: equations in the course's notation as MathML. `math` here.
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

    const greek = {alpha: 'α', beta: 'β', eps: 'ε', theta: 'θ', rho: 'ρ', mu: 'μ', sigma: 'σ', pi: 'π', lambda: 'λ'};
    const functions = new Set(['exp', 'log', 'tanh', 'max', 'min', 'sin', 'cos', 'softmax', 'sign', 'gelu', 'relu2', 'dropout', 'norm',
        'layernorm', 'rmsnorm', 'mean', 'rms', 'map', 'clip', 'nearest', 'rows', 'abs', 'floor', 'group', 'map_m', 'map_v', 'code_m', 'code_v']);
    const symbols = {'<=': '≤', '>=': '≥', '*': '⋅', '->': '→', '-': '−', '~': '∼', '...': '…', '/': '/', '+=': '+=', '*=': '⋅=', '-=': '−='};

    // Each token says whether a space comes before it.
    const pattern = /"[^"]*"|[A-Za-z_][A-Za-z0-9_]*'*|[0-9.]*[0-9](?:e-?[0-9]+)?|\.\.\.|<=|>=|->|\+=|-=|\*=|\S/g;
    const tokenize = (text) => [...text.matchAll(pattern)].map((match) =>
        ({text: match[0], spaced: match.index > 0 && text[match.index - 1] === ' '}));

    const parser = (text) => {
        const tokens = tokenize(text);
        let at = 0;
        const peek = (ahead = 0) => tokens[at + ahead] || {text: '', spaced: true};
        const is = (word) => peek().text === word;
        const take = () => tokens[at++];

        // A name: its Greek letter, and a number at its end as a subscript.
        const name = (word) => {
            const [, stem, digits, primes] = word.match(/^(.*?)([0-9]*)('*)$/);
            const letter = el('mi', greek[stem] || stem);
            const base = digits ? el('msub', [letter, el('mn', digits)]) : letter;
            return primes ? el('msup', [base, el('mo', '′'.repeat(primes.length))]) : base;
        };

        // The text between brackets, closed by `close`, with its commas.
        const until = (close) => {
            const parts = [];
            while (at < tokens.length && !is(close)) parts.push(...sequence((word) => word === close));
            take();
            return parts;
        };
        const inParentheses = (open, close) => {
            take();
            return [el('mo', open), row(until(close)), el('mo', close)];
        };

        const sum = (word) => {
            const index = word.slice(4);
            const sign = el('mo', '∑');
            return index ? el('munder', [sign, row(parser(index).all())]) : sign;
        };

        const atom = () => {
            const {text: word} = peek();
            if (word === '(') return {parts: inParentheses('(', ')'), bracketed: true};
            if (word === '[') return {parts: inParentheses('[', ']')};
            if (word === '|') { take(); return {parts: [el('mo', '|'), row(until('|')), el('mo', '|')]}; }
            take();
            if (word.startsWith('"')) return {parts: [el('mtext', '\u2002' + word.slice(1, -1) + '\u2002')]};
            if (/^[0-9.]/.test(word) && word !== '...') return {parts: [el('mn', word)]};
            if (word === 'sqrt' && is('(')) { take(); return {parts: [el('msqrt', until(')'))]}; }
            if (word === '∂') return {parts: [el('mo', '∂'), ...factor().parts]};
            if (word === 'sum' || word.startsWith('sum_')) return {parts: [sum(word)], isSum: true};
            if (/^[A-Za-z_]/.test(word)) return {parts: [name(word)], callable: functions.has(word.replace(/'+$/, ''))};
            return {parts: [el('mo', symbols[word] || word)]};
        };

        // An atom with its subscripts, superscripts and arguments.
        const factor = () => {
            const first = atom();
            let parts = first.parts;
            let bracketed = first.bracketed;
            while (at < tokens.length && !peek().spaced) {
                if (is('[')) { take(); parts = [el('msub', [row(parts), row(until(']'))])]; bracketed = false; }
                else if (is('^')) { take(); const up = atom(); parts = [el('msup', [row(parts), row(up.bracketed ? up.parts.slice(1, -1) : up.parts)])]; bracketed = false; }
                else if (is('(') && first.callable) { parts = [row([...parts, ...inParentheses('(', ')')])]; bracketed = false; }
                else break;
            }
            return {parts, bracketed, isSum: first.isSum};
        };

        const bare = ({parts, bracketed}) => row(bracketed ? parts.slice(1, -1) : parts);
        const fraction = (above, below) => ({parts: [el('mfrac', [bare(above), bare(below)])]});
        const ends = new Set(['+', '-', '=', ',', ';', ':', '<=', '>=', '<', '>', '->', '+=', '-=', '*=', '~', ')', ']', '|', '']);

        const isEnd = () => ends.has(peek().text) || peek().text.startsWith('"');

        // The divisor of a fraction: a factor, or a sum with the product that it sums.
        const divisor = () => {
            const factors = [factor()];
            while (factors[0].isSum && !isEnd() && !is('/')) factors.push(factor());
            return factors.length === 1 ? factors[0] : {parts: spread(factors)};
        };

        // Factors side by side. A tight slash joins two of them; a spaced one takes all of the product so far.
        const product = () => {
            let factors = [];
            while (!isEnd()) {
                if (is('/')) {
                    const isTight = !peek().spaced && !peek(1).spaced;
                    take();
                    const above = isTight || factors.length === 1 ? factors.pop() : {parts: spread(factors)};
                    factors = [...(isTight ? factors : []), fraction(above, divisor())];
                } else factors.push(factor());
            }
            return spread(factors);
        };
        const spread = (factors) => factors.flatMap(({parts}, i) => (i > 0 ? [el('mspace', [], {width: '0.17em'}), ...parts] : parts));

        // Products with signs between them, up to what `stops`.
        const sequence = (stops) => {
            const parts = [];
            while (at < tokens.length && !stops(peek().text)) {
                const before = at;
                parts.push(...product());
                if (at < tokens.length && !stops(peek().text)) parts.push(...atom().parts);
                if (at === before) break;
            }
            return parts;
        };
        return {all: () => sequence(() => false)};
    };

    const expression = (text) => parser(text).all();
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

    return {display, describe};
})();

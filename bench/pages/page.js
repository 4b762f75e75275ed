// page.js: the base of every page's script. Each file is a function that returns what the others may use: `page` here.
// Texts become text nodes (make), never markup.
const page = (() => {
    // The value of a <script type="application/json" id="...">; null: there is none.
    const data = (id) => {
        const element = document.getElementById(id);
        return element ? JSON.parse(element.textContent) : null;
    };

    const add = (element, attributes, children) => {
        for (const [name, value] of Object.entries(attributes || {})) {
            if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
            else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? '' : value);
        }
        element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
        return element;
    };
    // make('p', {class: 'soft', onclick: f}, 'text', child): an element; text is text, never markup.
    const make = (tag, attributes, ...children) => add(document.createElement(tag), attributes, children);
    const svg = (tag, attributes, ...children) =>
        add(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

    // --- numbers: four digits, thousands apart ---
    const formats = Array.from({length: 9}, (_, decimals) => new Intl.NumberFormat('en', {maximumFractionDigits: decimals}));
    const number = (value, digits = 4) => {
        if (value === null || value === undefined || !isFinite(value)) return '-';
        if (value === 0) return '0';
        const size = Math.abs(value);
        if (size >= 1e15 || size < 1e-4) return value.toExponential(2);
        const decimals = Math.max(0, Math.min(8, digits - 1 - Math.floor(Math.log10(size))));
        return formats[decimals].format(value);
    };
    const bytes = (value) => {
        if (!(value > 0)) return '-';
        const power = Math.min(4, Math.floor(Math.log2(value) / 10));
        return number(value / 1024 ** power, 3) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB'][power];
    };
    const ms = (ns) => number(ns * 1e-6) + ' ms';

    // --- hints: what is under the pointer, or has the focus ---
    const box = make('div', {class: 'hint', role: 'tooltip', id: 'hint', hidden: true});
    document.body.append(box);
    const place = (x, y) => {
        const width = box.offsetWidth, height = box.offsetHeight;
        const left = x + 14 + width > innerWidth ? Math.max(4, x - width - 14) : x + 14;
        const top = y + 14 + height > innerHeight ? Math.max(4, y - height - 14) : y + 14;
        box.style.left = Math.min(left, Math.max(4, innerWidth - width - 4)) + scrollX + 'px';
        box.style.top = top + scrollY + 'px';
    };
    const showHint = (contents, x, y) => {
        box.replaceChildren(...[contents()].flat());
        box.hidden = false;
        place(x, y);
    };
    const hideHint = () => { box.hidden = true; };
    // `contents` is called when the hint is shown and gives a node, a text or an array of them.
    const hint = (element, contents) => {
        element.addEventListener('pointerenter', (event) => showHint(contents, event.clientX, event.clientY));
        element.addEventListener('pointermove', (event) => place(event.clientX, event.clientY));
        element.addEventListener('pointerleave', hideHint);
        element.addEventListener('focus', () => {
            if (!element.matches(':focus-visible')) return;
            const at = element.getBoundingClientRect();
            showHint(contents, at.right, at.bottom);
            element.setAttribute('aria-describedby', 'hint');
        });
        element.addEventListener('blur', hideHint);
    };
    addEventListener('keydown', (event) => { if (event.key === 'Escape') hideHint(); });
    addEventListener('beforeprint', hideHint);

    // [['name', 'value'], ...] as a list of facts.
    const facts = (pairs) => make('dl', {class: 'facts'},
        pairs.filter(([, value]) => value !== null && value !== undefined && value !== '' && value !== '-')
            .map(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]));

    // --- tables that sort ---
    // A cell sorts by its data-v where it has one, else by its text; what is no number comes last.
    const keyOf = (cell) => {
        const text = cell.dataset.v !== undefined ? cell.dataset.v : cell.textContent.trim();
        const value = text === '' || text === '-' ? NaN : Number(text.replaceAll(',', ''));
        return {text, value};
    };
    const compare = (a, b, direction) => {
        const none = (key) => key.text === '' || key.text === '-';
        if (none(a) || none(b)) return none(a) - none(b);
        if (!isNaN(a.value) && !isNaN(b.value)) return direction * (a.value - b.value);
        if (isNaN(a.value) !== isNaN(b.value)) return isNaN(a.value) - isNaN(b.value);
        return direction * a.text.localeCompare(b.text, 'en', {numeric: true});
    };
    const sortBy = (table, column, direction) => {
        const body = table.tBodies[0];
        const rows = [...body.rows].map((row) => ({row, key: keyOf(row.cells[column])}));
        rows.sort((a, b) => compare(a.key, b.key, direction));
        body.append(...rows.map(({row}) => row));
        [...table.tHead.rows[0].cells].forEach((head, i) => {
            if (i === column) head.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
            else head.removeAttribute('aria-sort');
        });
    };
    const makeSortable = (table) => {
        [...table.tHead.rows[0].cells].forEach((head, column) => {
            const button = make('button', {class: 'sorts', type: 'button', title: 'sort by ' + head.textContent}, ...head.childNodes);
            button.addEventListener('click', () => {
                const now = head.getAttribute('aria-sort');
                const first = head.classList.contains('n') ? -1 : 1; // of numbers the largest first
                sortBy(table, column, now === null ? first : now === 'ascending' ? -1 : 1);
            });
            head.replaceChildren(button);
        });
    };

    // columns: [{heading, number, varied, about, minor}]; a minor one is not printed. rows: of cells: a text, an element, or
    // [either, value to sort by]. ids: of the rows, instead of their places.
    const cellOf = (cell, column) => {
        const [text, value] = Array.isArray(cell) ? cell : [cell];
        const isEmpty = text === '' || text === null || text === undefined;
        const kinds = [column.number ? 'n' : typeof text !== 'string' || text.length < 40 ? 'name' : '', column.minor ? 'minor' : ''];
        return make('td', {class: kinds.join(' ').trim() || null, 'data-v': value}, isEmpty ? '-' : text);
    };
    const table = (id, {columns, rows, ids}) => {
        if (rows.length === 0) return null;
        const heads = columns.map(({heading, number: isNumber, varied, about, minor}) =>
            make('th', {class: [isNumber ? 'n' : '', minor ? 'minor' : ''].join(' ').trim() || null, 'data-facet': varied || !isNumber, title: about}, heading));
        const made = make('table', {class: 'sorts-by'}, make('thead', {}, make('tr', {}, heads)),
            make('tbody', {}, rows.map((cells, i) => make('tr', {'data-row': ids ? ids[i] : i}, cells.map((cell, k) => cellOf(cell, columns[k]))))));
        makeSortable(made);
        return make('div', {class: 'wide tall', id}, made);
    };
    // The same from headings, "run|#steps" ('#' before a column of numbers).
    const grid = (id, headings, rows) => table(id, {rows: rows.map((cells) => cells.map((cell) => typeof cell === 'number' ? (isFinite(cell) ? [number(cell), cell] : '') : cell)),
        columns: headings.split('|').map((heading) => ({heading: heading.replace(/^#/, ''), number: heading.startsWith('#')}))});

    // --- a file made here ---
    const download = (name, type, text) => {
        const address = URL.createObjectURL(new Blob([text], {type}));
        make('a', {href: address, download: name}).click();
        setTimeout(() => URL.revokeObjectURL(address), 1000);
    };

    // --- tables that filter: by words, and by the columns of <th data-facet> ---
    const MOST_CHOICES = 60;
    const textOf = (cell) => (cell.classList.contains('n') ? cell.textContent : cell.dataset.v ?? cell.textContent).trim();
    const shownRows = (table) => [...table.tBodies[0].rows].filter((row) => !row.hidden);
    const quoted = (text) => {
        const safe = /^[=+@-]./.test(text) && isNaN(text.replaceAll(',', '')) ? "'" + text : text; // no formula
        return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
    };
    const csv = (table) => [table.tHead.rows[0], ...shownRows(table)]
        .map((row) => [...row.cells].map((cell) => quoted(cell.textContent.trim())).join(',')).join('\n') + '\n';
    // Puts search, choices, reset and CSV above the table; `changed` is called whenever other rows are shown.
    const filters = (table, changed) => {
        const rows = [...table.tBodies[0].rows];
        const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
        const search = make('input', {type: 'search', placeholder: 'filter: words in any column', 'aria-label': 'filter rows'});
        const choices = [...table.tHead.rows[0].cells].map((head, column) => {
            if (head.dataset.facet === undefined) return null;
            const values = [...new Set(rows.map((row) => textOf(row.cells[column])))];
            if (values.length < 2 || values.length > MOST_CHOICES) return null;
            values.sort((a, b) => a.localeCompare(b, 'en', {numeric: true}));
            const select = make('select', {'aria-label': head.textContent, 'data-column': head.textContent},
                make('option', {value: ''}, head.textContent + ': all'), values.map((value) => make('option', {value}, value)));
            return {column, select};
        }).filter((choice) => choice);
        const told = make('output', {});
        const apply = () => {
            const words = search.value.toLowerCase().split(/\s+/).filter((word) => word);
            let n = 0;
            for (const row of rows) {
                const fits = words.every((word) => texts.get(row).includes(word)) &&
                    choices.every(({column, select}) => select.value === '' || textOf(row.cells[column]) === select.value);
                row.hidden = !fits;
                n += fits;
            }
            told.textContent = n === rows.length ? `${n} ${n === 1 ? 'row' : 'rows'}` : `${n} of ${rows.length} rows`;
            changed();
        };
        const reset = () => {
            search.value = '';
            choices.forEach(({select}) => { select.value = ''; });
            apply();
        };
        search.addEventListener('input', apply);
        choices.forEach(({select}) => select.addEventListener('change', apply));
        const tools = make('div', {class: 'tools on-screen'}, search, choices.map(({select}) => select),
            make('button', {type: 'button', onclick: reset}, 'reset'), told,
            make('button', {type: 'button', title: 'the table as it is shown', onclick: () => download('rows.csv', 'text/csv', csv(table))}, 'CSV'));
        table.parentElement.before(tools);
        apply();
        return tools;
    };

    // --- parts of a page; one without contents is not shown ---
    const isWide = matchMedia('(min-width: 40rem)').matches;
    const some = (children) => children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== '');
    const holding = (children, build) => some(children).length > 0 ? build(some(children)) : null;
    const text = (said) => said ? make('p', {}, said) : null;
    const items = (texts) => holding(texts, (all) => make('ul', {}, all.map((item) => make('li', {}, item))));
    const fold = (title, ...children) => holding(children, (all) => make('details', {}, make('summary', {}, title), all));
    const section = (id, title, ...children) => holding(children, (all) => [make('h2', {id}, title), ...all]);
    // A phone begins with the answer and the rows; what else one may ask is a touch away.
    const part = (id, title, ...children) => holding(children, (all) =>
        make('details', {class: 'part', id, open: isWide}, make('summary', {}, make('h2', {}, title)), all));
    const nav = (parts) => make('nav', {}, parts.flat().filter((one) => one?.matches('.part, h2'))
        .map((one) => make('a', {href: '#' + one.id}, (one.querySelector('h2') || one).textContent)));
    const show = (...children) => {
        document.body.append(...some(children));
        const openPart = () => {
            const chosen = document.getElementById(location.hash.slice(1));
            if (chosen?.matches('.part')) chosen.open = true;
        };
        addEventListener('hashchange', openPart);
        openPart();
    };
    // [{name, colour, facts}]: one a device, with its colour in the figures; those after the first few are a part of their own.
    const OPEN_CARDS = 3;
    const dot = (colour) => make('i', {class: 'dot', style: `color:var(--s${colour > 0 ? (colour - 1) % 12 + 1 : 0})`});
    const cards = (entries) => {
        const all = entries.map(({name, colour, facts: its}) => make('div', {class: 'card'}, make('b', {}, dot(colour), name), facts(its)));
        const more = all.slice(OPEN_CARDS);
        return [all.length > 0 ? make('div', {class: 'cards'}, all.slice(0, OPEN_CARDS)) : null,
            more.length > 0 ? make('details', {class: 'part', open: isWide}, make('summary', {}, `${more.length} more device${more.length > 1 ? 's' : ''}`), make('div', {class: 'cards'}, more)) : null];
    };

    // --- light or dark ---
    const isDark = () => getComputedStyle(document.body).colorScheme !== 'light' &&
        (document.documentElement.dataset.theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
    document.querySelector('h1')?.after(make('button', {class: 'theme on-screen', type: 'button', title: 'light or dark', 'aria-label': 'light or dark',
        onclick: () => { document.documentElement.dataset.theme = isDark() ? 'light' : 'dark'; }}, '\u25d0'));

    return {data, make, svg, number, bytes, ms, hint, showHint, hideHint, facts, filters, shownRows, download,
        isWide, table, grid, text, items, fold, section, part, nav, show, cards, dot, isDark};
})();

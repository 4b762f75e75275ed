// view.js: the report's rows: what a hint says of one, one opened, those that are shown as a file.
(() => {
    const {make, number, ms, bytes} = page;
    const data = page.data('row-data') || {rows: [], contexts: []};
    const table = document.querySelector('#comparison table');
    const lines = table ? [...table.tBodies[0].rows] : [];
    const hidden = new Set();

    const percent = (value) => value === undefined ? '-' : number(100 * value, 3) + '%';
    const listOf = (value) => Array.isArray(value) ? value : [];
    const samplesOf = (index) => listOf(data.rows[index]?.row.samples_ns).filter((v) => v > 0);

    // --- a row in few words ---
    const brief = ({row}) => [
        ['step', row.median_ns ? ms(row.median_ns) + (row.noise_percent ? ` \u00b1 ${row.noise_percent > 50 ? 'over 50' : number(row.noise_percent, 2)}%` : '') : row.status],
        ['tokens/s', number(row.median_ts)], ['of peak', percent(row.mfu)],
        ['memory', bytes(row.device_peak_bytes || row.peak_rss_bytes)],
        ['samples', row.samples_ns ? `${samplesOf(data.rows.findIndex((entry) => entry.row === row)).length}` : null],
    ];
    chart.rows.samples = samplesOf;
    chart.rows.isShown = (index) => !hidden.has(index);
    chart.rows.describe = (index) => {
        const entry = data.rows[index];
        if (!entry) return [];
        const samples = samplesOf(index);
        return [make('div', {class: 'soft'}, `row ${index + 1}: ${entry.device}`), page.facts(brief(entry)),
            ...(samples.length > 1 ? [chart.strip(samples, 260, 44, entry.colour)] : [])];
    };

    // --- a row opened: all that it says ---
    const dialog = make('dialog', {'aria-labelledby': 'opened'});
    document.body.append(dialog);
    const said = (name, value) => {
        if (name === 'reason' || typeof value !== 'object') {
            if (/_ns$/.test(name) && typeof value === 'number') return value < 0 ? String(value) : ms(value);
            if (/_bytes$/.test(name) && value > 0) return bytes(value);
            return typeof value === 'number' ? number(value, 6) : String(value);
        }
        if (Array.isArray(value) && name.startsWith('samples')) return `${value.length} values`;
        return Array.isArray(value) && value.every((v) => typeof v === 'string') ? value.join('\n') : JSON.stringify(value);
    };
    const pairs = (object, before = '') => Object.entries(object).flatMap(([name, value]) =>
        value && typeof value === 'object' && !Array.isArray(value) ? pairs(value, before + name + '.')
            : [[before + name, said(name, value)]]);
    const open = (index) => {
        const entry = data.rows[index];
        if (!entry) return;
        const samples = samplesOf(index), {warnings, context, ...rest} = entry.row;
        dialog.replaceChildren(
            make('form', {method: 'dialog'}, make('button', {autofocus: true}, 'Close')),
            make('h2', {id: 'opened', style: 'margin-top:0'}, `Row ${index + 1}: ${entry.panel}`),
            make('p', {class: 'soft'}, entry.device),
            ...listOf(warnings).map((text) => make('p', {class: 'warn'}, String(text))),
            ...(samples.length > 1 ? [make('h3', {}, 'Raw samples, in the order measured'), chart.strip(samples, Math.min(720, innerWidth - 60), 90, entry.colour),
                make('p', {class: 'soft'}, `${ms(Math.min(...samples))} to ${ms(Math.max(...samples))}`)] : []),
            make('h3', {}, 'All fields'), page.facts(pairs(rest)));
        dialog.showModal();
        dialog.scrollTop = 0;
    };
    chart.rows.open = open;
    dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });

    if (!table) return;
    // --- lines: a click or Enter opens one, arrows go up and down ---
    const shownLines = () => page.shownRows(table);
    table.tBodies[0].addEventListener('click', (event) => {
        const line = event.target.closest('tr');
        if (line && !event.target.closest('a') && !getSelection().toString()) open(Number(line.dataset.row));
    });
    if (lines[0]) lines[0].tabIndex = 0;
    table.tBodies[0].addEventListener('keydown', (event) => {
        const line = event.target.closest('tr'), all = shownLines(), at = all.indexOf(line);
        const next = {ArrowDown: all[at + 1], ArrowUp: all[at - 1], Home: all[0], End: all.at(-1)}[event.key];
        if (event.key === 'Enter' && event.target === line) open(Number(line.dataset.row));
        else if (next) {
            line.tabIndex = -1;
            next.tabIndex = 0;
            next.focus();
        } else return;
        event.preventDefault();
    });

    // --- filters, which the pictures follow ---
    const filters = page.filters(table, () => {
        hidden.clear();
        lines.forEach((line) => {
            line.tabIndex = -1;
            if (line.hidden) hidden.add(Number(line.dataset.row));
        });
        const first = shownLines()[0];
        if (first) first.tabIndex = 0;
        chart.redrawSoon();
    });

    // --- files ---
    const jsonl = () => shownLines().map((line) => {
        const {row} = data.rows[line.dataset.row];
        return JSON.stringify({...row, context: data.contexts[row.context]});
    }).join('\n') + '\n';
    filters.append(make('button', {type: 'button', title: 'the rows that are shown, with their samples, for stepmark',
        onclick: () => page.download('rows.jsonl', 'application/jsonl', jsonl())}, 'JSONL'));
})();

// report.js: the page of a report: the answer, figures, tables; the table of all rows filters, and a click opens a row.
(() => {
    const {make, number, ms, bytes} = page;
    const data = page.data('page');
    const {entries, devices, works, bySpeed, best, field, at, withText, scaled, loops, ladders, figures: drawn} = group(data);

    const percent = (value) => Number.isFinite(value) ? number(100 * value, 3) + '%' : '-';
    const plural = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;
    const listOf = (value) => Array.isArray(value) ? value : [];
    const textOf = (value) => value === null || value === undefined ? '' : typeof value === 'object' ? JSON.stringify(value) : String(value);
    const samplesOf = (index) => listOf(entries[index]?.row.samples_ns).filter((v) => v > 0);
    const spreadOf = (row) => row.noise_percent > 0 ? ` \u00b1 ${row.noise_percent > 50 ? 'over 50' : number(row.noise_percent, 2)}%` : '';
    // Texts that differ only in figures are of one kind.
    const kindOf = (text) => text.replace(/\d[\d.,]*(e[-+]?\d+)?/g, '0');
    const kinds = (items, textOfItem) => [...items.reduce((found, item) => found.set(kindOf(textOfItem(item)), [...(found.get(kindOf(textOfItem(item))) || []), item]), new Map()).values()];
    const rowsText = (indices, most = 12) => indices.slice(0, most).map((index) => index + 1).join(', ') + (indices.length > most ? ` and ${indices.length - most} more` : '');

    // --- warnings: each kind once, with a mark that its rows show ---
    const warned = entries.flatMap(({index, row}) => listOf(row.warnings).map((text) => ({index, text: String(text)})));
    const warnings = kinds(warned, ({text}) => text).map((all) => ({text: all[0].text, hasVariants: all.some(({text}) => text !== all[0].text), rows: [...new Set(all.map(({index}) => index))]}));
    const marksOf = (index) => warnings.flatMap(({rows}, i) => rows.includes(index) ? [' ', make('a', {href: '#warnings'}, `[${i + 1}]`)] : []);

    // --- the answer ---
    const cards = page.cards((works.length > 0 ? best(works[0].entries, 'device') : []).map((entry) => ({name: entry.device, colour: entry.isRanked ? entry.colour : 0, facts: [
        ['tokens/s', number(entry.rate) + spreadOf(entry.row)], ['with', withText(entry)], ['why', entry.why], ['memory', bytes(entry.memory)],
        ['energy', entry.row.energy_per_token_j > 0 ? `${number(entry.row.energy_per_token_j, 3)} J a token` : null], ['cost', entry.cost], ['no verdict', entry.doubt]]})));
    const times = entries.map(({row}) => row.test_time).filter((time) => typeof time === 'string').sort();
    const nUsable = entries.filter((entry) => entry.is_usable).length;
    const summary = `${plural(entries.length, 'row')}, ${nUsable} with figures, ${entries.length - nUsable} without; ${plural(devices.length, 'device')}.`
        + (times.length > 0 ? ` Measured from ${times[0]} to ${times.at(-1)}.` : '');

    // --- loops ---
    const loopRows = loops.map(({entry: {row, index, work, series, rate, median, isRanked}}) => [[String(index + 1), index + 1], `${work}, ${series}`, textOf(row.loop.loader), rate, ms(median).replace(' ms', ''),
        number(field(row, 'loop.headline_wait_ns') * 1e-6), isRanked ? textOf(row.loop.bound) : 'no verdict', isRanked ? percent(row.loop.bound_share) : '', isRanked ? Math.round(field(row, 'loop.ceiling_ts')) : NaN]);
    const loopPart = loops.length === 0 ? null : page.part('loops', 'Training loops',
        page.grid(null, '#row|configuration|loader|#tokens/s|#step ms|#of it waiting for data, ms|bound by|#share of a step|#tokens/s without it', loopRows),
        page.items(loops.map(({entry}) => `row ${entry.index + 1}: ${entry.isRanked ? textOf(entry.row.loop.verdict) : `No verdict: ${entry.doubt}.`}`)),
        chart.charts(drawn.loopFigures()),
        loops.map(({entry, baseline, phases}) => page.fold(`Phases of row ${entry.index + 1}${baseline === null ? '' : `, against row ${baseline + 1}`}`, page.text(phases.shared), page.table(`phases-${entry.index + 1}`, phases))));

    // --- ladders ---
    const rate = (rung) => rung.bound === 'memory' ? scaled(field(rung, 'bytes_per_s'), 'B/s') : scaled(field(rung, 'flops_per_s'), 'FLOP/s');
    const ladderPart = ladders.length === 0 ? null : page.part('ladders', 'Ladders', chart.charts(drawn.ladderFigure()), ladders.map((its) => [
        make('h3', {}, `${its[0].ladder}, ${its[0].shape}, ${its[0].device} on ${its[0].name}${its[0].n_threads > 0 ? `, t${its[0].n_threads}` : ''}`),
        page.grid(null, 'rung|#ms|#rate|#of ceiling|#step|what changed', its.map((rung) => [textOf(rung.rung), field(rung, 'ns') * 1e-6, rate(rung), percent(rung.ceiling_share),
            field(rung, 'times_before') > 0 ? `${rung.times_before.toFixed(2)} x` : '', textOf(rung.what)]))]));

    // --- published figures, next to the fastest row of that model and pass: other machines and other work are no race ---
    const SIZES = {small: '124M', medium: '355M', large: '774M', xl: '1558M'};
    const sizeOf = ({model_arch: arch, model_type: model}) => arch !== undefined && arch !== 'gpt2' ? '' : Object.keys(SIZES).find((size) => new RegExp(`^(${size}|${SIZES[size]})( |$)`).test(textOf(model))) || textOf(model);
    const spread = (row, name) => field(row, `${name}avg_ns`) > 0 ? [`${number(row[`${name}avg_ns`] * 1e-6)} \u00b1 ${number(row[`${name}stddev_ns`] * 1e-6, 3)}`, row[`${name}avg_ns`]] : '';
    const isOfLoop = (row) => at(row, 'loop.wall_ns') > 0 && !row.n_seq;
    const isBeside = (row, own) => isOfLoop(row) ? field(own.row, 'loop.wall_ns') > 0 : sizeOf(own.row) === row.model_type && own.row.pass_type === row.pass_type;
    const published = data.published.filter((row) => row.pass_type).map((row) => ({row, own: best(entries.filter((entry) => entry.is_usable && isBeside(row, entry)), 'work').slice(0, 4)})).filter(({own}) => own.length > 0);
    const optimizer = (row) => percent((field(row, 'loop.update_ns') + (field(row, 'loop.unscale_ns') || 0)) / field(row, 'loop.wall_ns'));
    const line = (row, name, where) => [name, where, textOf(row.pass_type), [textOf(row.n_seq), field(row, 'n_seq')], [textOf(row.n_batch), field(row, 'n_batch')],
        ...(row.status === 'ok' || row.status === undefined ? [spread(row, ''), spread(row, 'forward_'), spread(row, 'backward_'), field(row, 'loop.wall_ns') > 0 ? optimizer(row) : ''] : [row.status, '', '', ''])];
    const publishedPart = published.length === 0 ? null : page.part('published', 'Published figures',
        page.text('Figures that others published, next to rows of the same model and pass. They are of other machines and other work: do not rank them.'),
        page.grid('published-rows', 'model|on|pass|#T|#B|#mean \u00b1 sd, ms|#forward, ms|#backward, ms|#optimizer\'s share', published.flatMap(({row, own}) =>
            [line(isOfLoop(row) ? {...row, pass_type: 'loop'} : row, textOf(row.model_type), `published: ${row.gpu_info ?? ''}`), ...own.map((entry) => line(entry.row, entry.work, entry.device))])),
        page.items([...new Set(published.map(({row}) => textOf(row.source)))]));

    // --- failures, warnings, machines ---
    const failed = kinds(entries.filter(({row}) => row.status !== undefined && row.status !== 'ok'), ({row}) => `${row.status} ${textOf(row.reason)}`);
    const failures = page.part('failures', 'Failures', page.grid(null, 'status|reason of the first|#rows|which|work|test|configuration', failed.map((its) =>
        [textOf(its[0].row.status), textOf(its[0].row.reason) || 'no reason given', its.length, rowsText(its.map(({index}) => index)), its[0].work, textOf(its[0].row.test), its[0].series])));
    const warningPart = page.part('warnings', 'Warnings', page.items([...data.warnings, ...warnings.map(({text, hasVariants, rows}, i) =>
        `[${i + 1}] ${rows.length === 1 ? 'row' : 'rows'} ${rowsText(rows)}: ${text}${hasVariants ? ' (figures of the first)' : ''}`)]));
    const contextOf = ({row}) => data.contexts[row.context];
    const machines = [...entries.filter(contextOf).reduce((found, entry) => {
        const key = ['host', 'kernel', 'cpu.name'].map((name) => textOf(at(contextOf(entry), name))).join('\n');
        return found.set(key, [...(found.get(key) || []), entry]);
    }, new Map()).values()];
    const each = (its, text) => [...new Set(its.map(text))].filter((said) => said).join('; ');
    const machinePart = page.part('machines', 'Machines', page.grid(null, 'machine|processor|#cores|#memory|devices|system|build|#rows', machines.map((its) => {
        const context = contextOf(its[0]);
        return [textOf(context.host) || 'unnamed machine', textOf(at(context, 'cpu.name')), field(context, 'cpu.cores'), bytes(context.memory_bytes), each(its, ({device}) => device), textOf(context.os),
            each(its, (entry) => textOf(contextOf(entry).build_commit)), its.length];
    })), machines.map((its) => page.fold(`All facts of ${textOf(contextOf(its[0]).host) || 'the unnamed machine'}, as of its first row`, page.facts(pairs(contextOf(its[0]))))));

    // --- a row in few words, and one opened ---
    function said(name, value) {
        if (typeof value === 'number') return /_ns$/.test(name) && value >= 0 ? ms(value) : /_bytes$/.test(name) && value > 0 ? bytes(value) : number(value, 6);
        if (Array.isArray(value) && name.startsWith('samples')) return `${value.length} values`;
        return Array.isArray(value) && value.every((v) => typeof v === 'string') ? value.join('\n') : textOf(value);
    }
    function pairs(object, before = '') {
        return Object.entries(object).flatMap(([name, value]) => value && typeof value === 'object' && !Array.isArray(value) ? pairs(value, before + name + '.') : [[before + name, said(name, value)]]);
    }
    const hidden = new Set();
    chart.rows.samples = samplesOf;
    chart.rows.isShown = (index) => !hidden.has(index);
    chart.rows.describe = (index) => {
        const entry = entries[index];
        if (!entry) return [];
        const {row, device, median, rate: own, memory, doubt, colour} = entry, samples = samplesOf(index);
        return [make('div', {class: 'soft'}, `row ${index + 1}: ${device}`), page.facts([['step', median > 0 ? ms(median) + spreadOf(row) : textOf(row.status)], ['tokens/s', number(own)],
            ['of peak', percent(row.mfu)], ['memory', bytes(memory)], ['samples', samples.length > 0 ? String(samples.length) : null], ['no verdict', doubt]]),
        ...(samples.length > 1 ? [chart.strip(samples, 260, 44, colour)] : [])];
    };
    const dialog = make('dialog', {'aria-labelledby': 'opened'});
    const open = (index) => {
        const entry = entries[index];
        if (!entry) return;
        const samples = samplesOf(index), {warnings: its, context, ...rest} = entry.row;
        dialog.replaceChildren(
            make('form', {method: 'dialog'}, make('button', {autofocus: true}, 'Close')),
            make('h2', {id: 'opened', style: 'margin-top:0'}, `Row ${index + 1}: ${entry.work}`),
            make('p', {class: 'soft'}, entry.device),
            ...(entry.doubt ? [make('p', {class: 'warn'}, `No verdict: ${entry.doubt}.`)] : []),
            ...listOf(its).map((text) => make('p', {class: 'warn'}, String(text))),
            ...(samples.length > 1 ? [make('h3', {}, 'Raw samples, in the order measured'), chart.strip(samples, Math.min(720, innerWidth - 60), 90, entry.colour),
                make('p', {class: 'soft'}, `${ms(Math.min(...samples))} to ${ms(Math.max(...samples))}`)] : []),
            make('h3', {}, 'All fields'), page.facts(pairs(rest)));
        dialog.showModal();
        dialog.scrollTop = 0;
    };
    chart.rows.open = open;
    dialog.addEventListener('click', (event) => { if (event.target === dialog) dialog.close(); });

    // --- the table of all rows, by work, the fastest first ---
    const orderOf = new Map(works.map(({name}, i) => [name, i]));
    const sorted = [...entries].sort((a, b) => b.is_usable - a.is_usable || (orderOf.get(a.work) ?? works.length) - (orderOf.get(b.work) ?? works.length) || bySpeed(a, b) || a.index - b.index);
    const most = new Map(works.map(({name, entries: its}) => [name, Math.max(...its.filter(({isRanked}) => isRanked).map(({rate: own}) => own))]));
    const statusOf = (entry, [text]) => {
        const told = entry.is_usable && entry.doubt ? 'ok, no verdict' : text;
        return [make('span', {}, make('span', {class: told === 'ok' ? 'good' : told.startsWith('ok') ? 'warn' : 'bad'}, told), marksOf(entry.index)), told];
    };
    const rateOf = (entry, cell) => entry.isRanked && Array.isArray(cell) ? [make('span', {class: 'bar', style: `--w:${(100 * entry.rate / most.get(entry.work)).toFixed(1)}%`}, cell[0]), cell[1]] : cell;
    const isPlace = ({name}) => devices.length > 1 && (name === 'cpu_info' || name === 'gpu_info');
    const fromTable = data.table.columns.map((column, k) => ({...column, minor: column.rank === 0 && !column.varied, cell: (entry) => {
        const cell = data.table.rows[entry.index][k];
        return column.name === 'loss_check' ? statusOf(entry, [].concat(cell)) : column.name === 'median_ts' ? rateOf(entry, cell) : cell;
    }})).filter((column) => !isPlace(column));
    const columns = [{heading: '#', number: true, rank: 10, about: 'number in the order measured: stepmark compare FILE#N', cell: (entry) => [make('span', {}, page.dot(entry.colour), String(entry.index + 1)), entry.index + 1]},
        ...(devices.length > 1 ? [{heading: 'machine', rank: 7, varied: true, cell: (entry) => entry.device}] : []),
        ...fromTable.filter(({minor}) => !minor), ...fromTable.filter(({minor}) => minor)];
    if (!page.isWide) columns.sort((a, b) => b.rank - a.rank); // a phone shows what matters most without a scroll
    const holder = page.table('comparison', {columns, ids: sorted.map(({index}) => index), rows: sorted.map((entry) => columns.map((column) => column.cell(entry)))});

    const legend = page.items(['Step time: median of plain, uninstrumented samples. The pass type says what a sample is: a whole optimizer step, or a part of it.',
        'Tokens per second: tokens of a sample without padding, over its median time; \u00b1 is how far its 95% interval reaches.', '% of peak: floating-point work of the sample against the device\'s measured peak.',
        'Memory: peak resident memory of the process, or the bytes allocated on a device with memory of its own.',
        'A row is ok only when its loss, gradients and updates agreed with the reference; a row that failed stays, with its reason.',
        'No verdict: a busy machine disturbed the row, its interval is too wide, its figures contradict each other, or code of the user\'s own ran. Such a row has no rank, reason or cost; figures draw it grey.',
        'Lines and baselines compare rows of the same work only.']);
    const pictures = page.part('pictures', 'Pictures', chart.charts(drawn.sideBySide(), drawn.throughput(), drawn.memory(), drawn.gain(), drawn.threads(), drawn.threadEfficiency(), drawn.opTimes(), drawn.opRates(), drawn.phases()),
        page.fold('More pictures: start, spread, roofline', chart.charts(drawn.warmup(), drawn.spread(), drawn.roofline())));
    const short = page.part('short', 'In short', page.text(data.best.shared), page.table(null, data.best));
    const parts = [short, pictures, loopPart, ladderPart, publishedPart, failures, warningPart, machinePart];
    const all = page.section('rows', 'All rows', page.text(data.table.shared), holder), reading = page.section('reading', 'How to read this', legend);
    const hasRows = entries.length > 0;
    page.show(page.text(data.answer[0]), page.text(data.answer[1]), chart.charts(drawn.answer()), cards, hasRows ? [page.text(summary), page.nav([...parts, all, reading])] : null, parts, hasRows ? [all, reading] : null, dialog);
    chart.start();

    // --- lines of the table: a click or Enter opens one, arrows go up and down; the pictures follow the filters ---
    const table = holder?.querySelector('table');
    if (!table) return;
    const lines = [...table.tBodies[0].rows], shownLines = () => page.shownRows(table);
    table.tBodies[0].addEventListener('click', (event) => {
        const clicked = event.target.closest('tr');
        if (clicked && !event.target.closest('a') && !getSelection().toString()) open(Number(clicked.dataset.row));
    });
    table.tBodies[0].addEventListener('keydown', (event) => {
        const now = event.target.closest('tr'), shown = shownLines(), i = shown.indexOf(now);
        const next = {ArrowDown: shown[i + 1], ArrowUp: shown[i - 1], Home: shown[0], End: shown.at(-1)}[event.key];
        if (event.key === 'Enter' && event.target === now) open(Number(now.dataset.row));
        else if (next) {
            now.tabIndex = -1;
            next.tabIndex = 0;
            next.focus();
        } else return;
        event.preventDefault();
    });
    const filters = page.filters(table, () => {
        hidden.clear();
        lines.forEach((one) => {
            one.tabIndex = -1;
            if (one.hidden) hidden.add(Number(one.dataset.row));
        });
        const first = shownLines()[0];
        if (first) first.tabIndex = 0;
        chart.redrawSoon();
    });
    const jsonl = () => shownLines().map((one) => {
        const {row} = entries[one.dataset.row];
        return JSON.stringify({...row, context: data.contexts[row.context]});
    }).join('\n') + '\n';
    filters.append(make('button', {type: 'button', title: 'the rows that are shown, with their samples, for stepmark', onclick: () => page.download('rows.jsonl', 'application/jsonl', jsonl())}, 'JSONL'));
})();

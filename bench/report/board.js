// board.js: the page of a leaderboard: for each work a chart of its machines; the table filters, and the figures follow.
(() => {
    const {number, bytes} = page;
    const {known, make, seriesOf, panel} = figures;
    const {records, table, refused} = page.data('page');
    const MOST_WORKS = 12, MOST_PLACES = 20;

    const hostOf = (record) => record.reference ? 'reference' : record.host || '';
    const chip = (record) => record.machine + (hostOf(record) ? ` (${hostOf(record)})` : '');
    const isShared = (record) => records.some((other) => chip(other) === chip(record) && other.device !== record.device);
    const nameOf = (record) => chip(record) + (isShared(record) ? ', ' + String(record.device).split(' ')[0] : '');
    const workOf = (record) => [record.model, `${record.n_seq} tokens`, record.precision, record.pass_type, record.optimizer, record.own_kernels ? 'own code' : ''].filter((text) => text).join(', ');
    const devices = [...new Set(records.map((record) => `${chip(record)}\n${record.device}`))];
    const colourOf = (record) => 1 + devices.indexOf(`${chip(record)}\n${record.device}`);
    const all = records.map((record, index) => ({record, index, name: nameOf(record), work: workOf(record), colour: colourOf(record)}));
    const works = [...new Set(all.map(({work}) => work))].map((name) => ({name, places: all.filter(({work}) => work === name)}));
    const first = works.reduce((most, work) => work.places.length > (most?.places.length ?? 1) ? work : most, null);

    // --- figures ---
    const measure = (id, title, caption, label, field, lo, hi, scale = 1) => (shown) => {
        const figure = make('intervals', id, title, caption, {x: {label, scale: 'auto'}});
        for (const {name, places} of shown.slice(0, MOST_WORKS)) {
            panel(figure, name).points = places.filter(({record}) => record[field] > 0).slice(0, MOST_PLACES).map(({record, index, name: its, colour}) => ({name: its, series: seriesOf(figure, its, colour), x: record[field] * scale,
                lo: known(record[lo] * scale), hi: known(record[hi] * scale), row: index, text: `${record.mode} B=${record.n_batch}${record.marks ? ', ' + record.marks : ''}`}));
        }
        return figure;
    };
    const rate = ['tokens per second', 'median_ts', 'lo_ts', 'hi_ts'], speed = 'The fastest checked row of each device; bars: 95% interval of the median step.';
    const answer = measure('answer', 'Which device is fastest?', speed, ...rate);
    const measures = [measure('rate', 'Tokens per second', speed, ...rate), measure('watt', 'Tokens per second a watt', 'Only devices that report their energy.', 'tokens per joule', 'tokens_per_joule'),
        measure('gib', 'Tokens per second a GiB', 'Of the memory that the row took.', 'tokens per second and GiB', 'tokens_per_s_gib'),
        measure('peak', 'Share of the device\'s own peak', 'Floating-point work against the peak that was measured on the same device.', '% of peak', 'mfu', undefined, undefined, 100)];

    // --- the answer: of the work that most machines did, and where the user's fastest stands in it ---
    const sentences = () => {
        if (!first) return ['No two machines did the same work.'];
        const [a, b] = first.places, own = first.places.find(({record}) => !record.reference), ratio = (x, y) => (a.record[x] / b.record[y]).toFixed(2);
        const win = b.record.place === 1 ? `For ${first.name}, no device is the fastest: ${a.name} (${number(a.record.median_ts)} tokens/s) and ${b.name} share the first place.`
            : `For ${first.name}, ${a.name} is the fastest: ${number(a.record.median_ts)} tokens/s in mode ${a.record.mode} with batch ${a.record.n_batch}, ${ratio('median_ts', 'median_ts')} (${ratio('lo_ts', 'hi_ts')} to ${ratio('hi_ts', 'lo_ts')}) times ${b.name}.`
                + (a.record.bound ? ` It is ${a.record.bound}.` : '') + (a.record.cost ? ` ${a.record.cost}.` : '');
        return [win, own && own !== a ? `Your machine is here: ${own.name} is number ${own.record.place} of ${first.places.length}, with ${number(own.record.median_ts)} tokens/s, ${number(100 * own.record.median_ts / a.record.median_ts, 2)}% of the first.` : null];
    };
    const cards = page.cards((first ? first.places.slice(0, MOST_PLACES) : []).map(({record, name, colour}) => ({name, colour, facts: [
        ['tokens/s', `${number(record.median_ts)}${record.noise_percent > 0 ? ` \u00b1 ${number(record.noise_percent, 2)}%` : ''}`], ['with', `${record.mode}, batch ${record.n_batch}`], ['why', record.bound],
        ['memory', bytes(record.memory_bytes)], ['energy', record.tokens_per_joule > 0 ? `${number(1 / record.tokens_per_joule, 3)} J a token` : null], ['cost', record.cost]]})));

    const pictures = page.part('pictures', 'Each work: speed, energy, memory, share of peak', chart.charts(measures.map((draw) => draw(works))));
    const refusedPart = page.part('refused', 'Refused', page.text(refused.shared), page.table('refused-rows', refused));
    const FIRST = ['median_ts', 'place'], rankOf = (k) => table.columns[k].rank + 10 * FIRST.indexOf(table.columns[k].name);
    const columns = table.columns.map((_, k) => k).sort((a, b) => page.isWide ? a - b : rankOf(b) - rankOf(a));
    const board = page.table('board', {columns: columns.map((k) => table.columns[k]), rows: table.rows.map((cells) => columns.map((k) => cells[k]))});
    const places = page.section('places', 'Places', page.text(table.shared), board);
    const reading = page.section('reading', 'How to read this', page.items([
        'A work is a model, a length, a number format, a pass, an optimizer, an accumulation and a dropout. Rows of other work are never compared. Of each device of each machine its fastest row of a work has a place; batch and mode are its own choice. Rows that ran kernels or a backend of the user\'s own (own code) are ranked apart.',
        'A row counts only when its loss, gradients and updates agreed with the reference. Bundles that were changed by a byte are refused whole.',
        'Marks: reference (measured by the makers of stepmark; same checks; --no-reference leaves them out), own code (kernels or a backend of the user\'s own ran), emulated (computed in fp32, for lack of instructions), noisy or too few (another run may give another figure), warned (something may have spoiled it), other data (than the first of its work).',
        '\u00b1 is how far the 95% interval of the median reaches. Rows whose intervals overlap are not distinct, and share a place.',
        'Share of peak is against the peak that was measured on that device itself, in that number format.']));
    page.show(sentences().map(page.text), first ? chart.charts(answer([first])) : null, cards,
        page.text(`${records.length} places in ${works.length} ${works.length === 1 ? 'work' : 'works'}; ${refused.rows.length} ${refused.rows.length === 1 ? 'row' : 'rows'} refused.`),
        page.nav([pictures, refusedPart, places, reading]), pictures, refusedPart, places, reading);

    if (board) {
        const lines = [...board.querySelectorAll('tbody tr')], lineOf = (index) => lines.find((line) => Number(line.dataset.row) === index);
        chart.rows.isShown = (index) => !lineOf(index)?.hidden;
        chart.rows.describe = (index) => lineOf(index) ? [page.facts([...lineOf(index).cells].map((cell, k) => [table.columns[columns[k]].heading, cell.textContent]))] : [];
        chart.rows.open = (index) => {
            lineOf(index)?.scrollIntoView({block: 'center'});
            lineOf(index)?.animate([{backgroundColor: 'var(--warn)'}, {}], 1500);
        };
        page.filters(board.querySelector('table'), chart.redrawSoon);
    }
    chart.start();
})();

// group.js: groups the rows of a report, and makes its figures; it needs no document.
//   work    what may share a panel: the model and the work but for the batch
//   device  has one colour throughout a page
//   series  the columns of how a row ran in which rows of a device differ
const group = (data) => {
    const {known, make, seriesOf, panel, point, byteUnit} = figures;
    const MOST_PANELS = 6, MOST_SERIES = 10, MOST_ROOFS = 12, MOST_POINTS = 200, MOST_LOOPS = 12;

    // --- rows: a damaged or hostile one may hold values that no machine measures ---
    const at = (row, name) => name.split('.').reduce((object, key) => object?.[key], row);
    const field = (row, name) => {
        const value = at(row, name);
        return typeof value === 'number' && value >= 0 && value < 1e30 ? value : NaN;
    };
    const list = (row, name) => {
        const values = at(row, name);
        return Array.isArray(values) ? values.map((value) => typeof value === 'number' ? value : NaN) : [];
    };
    const entries = data.rows.map((entry, index) => {
        const {row} = entry, median = field(row, 'median_ns'), rate = field(row, 'median_ts');
        const allocated = row.gpu_info ? field(row, 'device_peak_bytes') : NaN;
        const [lo, hi] = ['ci95_lo_ns', 'ci95_hi_ns'].every((name) => field(row, name) >= 0) ? [field(row, 'ci95_lo_ns'), field(row, 'ci95_hi_ns')] : [field(row, 'q1_ns'), field(row, 'q3_ns')];
        return {...entry, index, median, rate, lo: rate * median / hi, hi: rate * median / lo, batch: field(row, 'n_batch'),
            memory: allocated > 0 ? allocated : field(row, 'peak_rss_bytes'), isRanked: !entry.doubt};
    });
    const devices = [...new Set(entries.map(({device}) => device))];

    // --- series ---
    const OF_WORK = ['work', 'batch', 'machine'], OTHERS = ['test', 'pass_type', 'model_n_params', 'seed', 'data'];
    const how = data.table.columns.map((column, k) => ({...column, k}))
        .filter((column) => (column.varied || column.name === 'device') && !OF_WORK.includes(column.part) && !OTHERS.includes(column.name));
    const cell = (entry, column) => {
        const shown = data.table.rows[entry.index][column.k], text = Array.isArray(shown) ? shown[0] : shown;
        return column.number && text !== '' ? `${column.heading} ${text}` : text;
    };
    const isVaried = new Map(devices.map((device) => {
        const its = entries.filter((entry) => entry.device === device);
        return [device, how.filter((column) => its.some((entry) => cell(entry, column) !== cell(its[0], column)))];
    }));
    const words = (texts) => texts.filter((text) => text).join(' ');
    const styles = [], all = [];
    const numberOf = (names, name) => names.includes(name) ? names.indexOf(name) : names.push(name) - 1;
    for (const entry of entries) {
        const rest = words(isVaried.get(entry.device).map((column) => cell(entry, column)));
        entry.series = words([devices.length > 1 ? entry.device : '', rest]) || words([entry.row.device, entry.mode, entry.precision]);
        entry.style = numberOf(styles, rest);
        entry.colour = 1 + (devices.length > 1 ? devices.indexOf(entry.device) : numberOf(all, entry.series));
    }

    // --- works: those with most figures first ---
    const works = [...new Set(entries.map(({work}) => work))]
        .map((name) => ({name, entries: entries.filter((entry) => entry.work === name && entry.is_usable && entry.rate > 0)}))
        .filter((work) => work.entries.length > 0).sort((a, b) => b.entries.length - a.entries.length);
    const shown = works.slice(0, MOST_PANELS);
    const bySpeed = (a, b) => b.isRanked - a.isRanked || b.rate - a.rate || a.index - b.index;
    const best = (its, key) => {
        const sorted = [...its].sort(bySpeed);
        return sorted.filter((entry, i) => sorted.findIndex((other) => other[key] === entry[key]) === i);
    };
    // The series of a panel: the fastest of each device, then the fastest others.
    const chosen = (work) => [...new Set([...(devices.length > 1 ? best(work.entries, 'device') : []), ...best(work.entries, 'series')].map(({series}) => series))].slice(0, MOST_SERIES);
    // Rows at the one batch that most of these have.
    const atBatch = (work) => {
        const series = chosen(work);
        const rowsAt = (batch) => series.map((name) => work.entries.find((entry) => entry.series === name && Object.is(entry.batch, batch))).filter((entry) => entry);
        return [...new Set(work.entries.map(({batch}) => batch))].sort((a, b) => b - a).map(rowsAt).reduce((most, rows) => rows.length > most.length ? rows : most, []);
    };
    const batchText = ({batch}) => batch >= 0 ? `batch ${batch}` : 'batch not named';
    const withText = (entry) => `${words([entry.mode, entry.precision])}, ${batchText(entry)}`;

    // --- which is fastest ---
    const intervals = (figure, title, its, key) => {
        const made = panel(figure, title);
        made.points = its.slice(0, MOST_SERIES).map((entry) => ({name: entry[key], series: seriesOf(figure, entry[key], entry.colour), x: entry.rate, lo: known(entry.lo), hi: known(entry.hi),
            row: entry.index, text: !entry.isRanked ? 'no verdict' : key === 'device' ? withText(entry) : batchText(entry), is_grey: !entry.isRanked}));
    };
    const rates = {x: {label: 'tokens per second', scale: 'linear'}};
    const answer = () => {
        const figure = make('intervals', 'answer', 'Which device is fastest?', 'The fastest setting of each device; bars: 95% interval. Grey: no verdict.', rates);
        if (works.length > 0) intervals(figure, works[0].name, best(works[0].entries, 'device'), 'device');
        return figure;
    };
    const sideBySide = () => {
        const key = devices.length > 1 ? 'device' : 'series';
        const figure = make('intervals', 'side-by-side', 'Which is fastest at each work?',
            `The fastest row of each ${key === 'device' ? 'device, at the batch and mode that suit it' : 'configuration'}; bars: 95% interval of the median, or the quartiles where there are too few samples. Grey: no verdict.`,
            {x: {label: 'tokens per second', scale: 'auto'}});
        if (key === 'device' && works.length < 2) return null;
        shown.forEach((work) => intervals(figure, work.name, best(work.entries, key), key));
        return figure;
    };

    // --- against the batch ---
    const BASES = [['mode', ['naive', 'eager']], ['precision', ['fp32', 'float32']], ['n_threads', [1]], ['backend_used', ['cpu', 'reference']]];
    const isBase = (entry, [name, values]) => values.includes(entry.row[name]);
    const differ = (a, b, [name]) => {
        const ofDevice = name === 'backend_used', apart = how.filter((column) => cell(a, column) !== cell(b, column));
        return ofDevice === (a.device !== b.device) && apart.every((column) => ofDevice ? ['device', 'isa', 'tier', 'threads'].includes(column.part) : column.name === name);
    };
    // The row of the same work and batch that differs in that one thing, and has its base value.
    const baselineOf = (work, entry, base) => isBase(entry, base) ? undefined
        : work.entries.find((other) => other.batch === entry.batch && other.isRanked && isBase(other, base) && differ(entry, other, base));
    const speedup = (work) => {
        const base = BASES.find((one) => work.entries.some((entry) => baselineOf(work, entry, one)));
        return (entry) => {
            const other = base && entry.isRanked ? baselineOf(work, entry, base) : undefined;
            return other ? [entry.rate / other.rate, entry.lo / other.hi, entry.hi / other.lo] : [NaN];
        };
    };
    const againstBatch = (id, title, caption, y, valueOf, more = () => {}) => {
        const figure = make('lines', id, title, caption, {x: {label: 'batch, sequences', scale: 'log2'}, y: {scale: 'auto', from_zero: true, ...y}});
        for (const work of shown) {
            const made = panel(figure, work.name), series = chosen(work), value = valueOf(work);
            for (const entry of [...work.entries].sort((a, b) => a.batch - b.batch || a.index - b.index)) {
                if (!series.includes(entry.series)) continue;
                const [middle, lo, hi] = value(entry);
                if (middle > 0) point(made, seriesOf(figure, entry.series, entry.colour, entry.style), [entry.batch, middle, lo, hi, entry.index, !entry.isRanked]);
            }
            more(made, work);
        }
        return figure;
    };
    const throughput = () => againstBatch('throughput', 'Which batch is fastest?', 'Median of the samples; bars: its 95% interval, or the quartiles where there are too few samples. Grey: no verdict.',
        {label: 'tokens per second'}, () => (entry) => [entry.rate, entry.lo, entry.hi]);
    const memory = () => {
        const [unit, size] = byteUnit(Math.max(0, ...entries.map((entry) => entry.memory || 0)));
        return againstBatch('memory', 'Which batch fits in memory?', 'Peak resident memory of the process, or the bytes allocated on a device with memory of its own. Crosses: out of memory.',
            {label: `peak memory, ${unit}`}, () => (entry) => [entry.memory / size], (made, work) => {
                made.crosses = entries.filter((entry) => entry.work === work.name && entry.row.status === 'oom' && entry.batch > 0).map((entry) => [entry.batch, entry.index]);
            });
    };
    const gain = () => againstBatch('speedup', 'What does each change gain?',
        'Each point against the row of the same batch, length and model that differs in one thing only: mode naive, or in a picture that lacks it precision fp32, else one thread, else the cpu. Bars: from the 95% intervals of both.',
        {label: 'times the baseline\'s tokens per second', level: 1}, speedup);

    // --- against the threads: lines of rows that differ in nothing else ---
    const againstThreads = (id, title, caption, label, valueOf) => {
        const figure = make('lines', id, title, caption, {x: {label: 'threads', scale: 'log2'}, y: {label, scale: 'auto', from_zero: true}});
        const rest = (entry) => words([devices.length > 1 ? entry.device : '', ...isVaried.get(entry.device).filter(({name}) => name !== 'n_threads').map((column) => cell(entry, column)), batchText(entry)]);
        for (const work of shown) {
            const its = work.entries.map((entry) => ({entry, name: rest(entry), n: field(entry.row, 'n_threads')})).filter(({n}) => n > 0).sort((a, b) => a.n - b.n || a.entry.index - b.entry.index);
            const names = [...new Set(its.map(({name}) => name))].filter((name) => new Set(its.filter((one) => one.name === name).map(({n}) => n)).size > 1).slice(0, MOST_SERIES);
            if (names.length === 0) continue;
            const made = panel(figure, work.name);
            names.forEach((name, k) => {
                const line = its.filter((one) => one.name === name), [{n: fewest, entry: {rate: base}}] = line;
                for (const {entry, n} of line) {
                    point(made, seriesOf(figure, name, 1 + k % 12), [n, ...[entry.rate, entry.lo, entry.hi].map((rate) => valueOf(rate, base / fewest, n)), entry.index, !entry.isRanked]);
                }
                const ends = [fewest, line.at(-1).n].map((n) => [n, valueOf(n * base / fewest, base / fewest, n)]);
                if (!made.ideal || ends[1][1] > made.ideal[1][1]) made.ideal = ends;
            });
        }
        return figure;
    };
    const threads = () => againstThreads('threads', 'Do more threads help?', 'Each line differs in threads alone. Dashed: as many times as fast as its fewest threads. Grey: no verdict.', 'tokens per second', (rate) => rate);
    const threadEfficiency = () => againstThreads('thread-efficiency', 'What is a thread worth?', 'Tokens per second of a thread, against a thread where they are fewest: 1 is ideal.', 'share', (rate, ofOne, n) => rate / n / ofOne);

    // --- where time goes ---
    const stacks = (id, title, caption, unit, perNs, parts, more, textOf) => {
        const figure = make('stacks', id, title, caption, {x: {label: unit, scale: 'linear', unit}, ...more});
        parts.forEach(([, name, colour]) => seriesOf(figure, name, colour));
        for (const work of shown) {
            const its = atBatch(work), made = panel(figure, its.length > 0 ? `${work.name}, ${batchText(its[0])}` : work.name);
            made.bars = its.map((entry) => ({name: entry.series, colour: entry.colour, parts: parts.map(([name]) => Math.min(field(entry.row, name) * perNs || 0, 1e15)), row: entry.index,
                mark: more ? known(entry.median * perNs) : null, text: textOf(entry)})).filter((bar) => bar.parts.some((part) => part > 0));
        }
        return figure;
    };
    const msOf = (entry) => Number((entry.median * 1e-6).toPrecision(4));
    const phases = () => stacks('phases', 'Where does a step\'s time go?', 'Parts of one step of the attribution pass, which times each op; the line is the median of the plain samples.', 'ms', 1e-6,
        [['phases.zero_grad_ns', 'zero gradients', 8], ['phases.forward_ns', 'forward', 1], ['phases.backward_ns', 'backward', 2], ['phases.optimizer_ns', 'optimizer', 3],
            ['phases.scaler_ns', 'loss scaler', 4], ['phases.unaccounted_ns', 'unaccounted', 5]], {mark_name: 'plain step'}, () => '');
    const warmup = () => stacks('warmup', 'How long until it is steady?', 'Time of a process before its steady state, part by part, without measuring the ceilings and checking the loss.', 's', 1e-9,
        [['open_ns', 'open the device', 6], ['build_ns', 'build the plan', 1], ['tune_ns', 'tune kernels', 4], ['first_step_ns', 'first step', 2], ['warmup_ns', 'warm-up steps', 3]], null, (entry) => `step ${msOf(entry)} ms`);

    // --- samples ---
    const spread = () => {
        const figure = make('strips', 'spread', 'How steady is a step?',
            'Raw samples, each as its distance from the median of its row, in the order measured from top to bottom; box: quartiles. The number beyond the right edge is given there.', {x: {label: 'step time, % from the median', scale: 'linear'}});
        for (const work of shown) {
            const its = atBatch(work), made = panel(figure, its.length > 0 ? `${work.name}, ${batchText(its[0])}` : work.name);
            made.rows = its.filter((entry) => list(entry.row, 'samples_ns').filter((v) => v > 0).length > 1).map((entry) => [seriesOf(figure, entry.series, entry.colour, entry.style), entry.index]);
        }
        return figure;
    };

    // --- roofline ---
    const scaled = (value, unit) => {
        const power = Math.max(0, Math.min(4, Math.floor(Math.log10(value) / 3)));
        return `${Number((value / 1000 ** power).toPrecision(3))} ${['', 'k', 'M', 'G', 'T'][power]}${unit}`;
    };
    const ONE_LINE = 1.05; // closer ceilings are drawn as one line
    const span = (lo, hi, unit) => (hi > lo * ONE_LINE ? scaled(lo, unit) + ' to ' : '') + scaled(hi, unit);
    const roofline = () => {
        const figure = make('lines', 'roofline', 'What bounds a step?',
            'Whole samples under their own measured ceilings. Across: floating-point operations for each byte, if every operation reads and writes its operands once. Lines: the lower of peak and bandwidth times intensity, of each device, thread count and precision; where its rows measured it differently, the highest and (thin) the lowest.',
            {x: {label: 'FLOP per byte', scale: 'log'}, y: {label: 'GFLOP/s', scale: 'log'}});
        const made = panel(figure), roofs = new Map();
        const has = entries.filter(({row, is_usable: isUsable, median}) => isUsable && median > 0 && ['flops', 'bytes', 'peak_flops', 'peak_bandwidth'].every((name) => field(row, name) > 0));
        for (const entry of has) {
            const threads = field(entry.row, 'n_threads');
            const name = words([devices.length > 1 ? entry.device : String(entry.row.device ?? ''), threads > 0 ? `t${threads}` : '', entry.precision]);
            if (!roofs.has(name) && roofs.size < MOST_ROOFS) roofs.set(name, {colour: devices.length > 1 ? entry.colour : 0, peaks: [], bandwidths: []});
            roofs.get(name)?.peaks.push(field(entry.row, 'peak_flops'));
            roofs.get(name)?.bandwidths.push(field(entry.row, 'peak_bandwidth'));
        }
        [...roofs].forEach(([name, {colour, peaks, bandwidths}], i) => {
            const [a, b, c, d] = [Math.min(...peaks), Math.max(...peaks), Math.min(...bandwidths), Math.max(...bandwidths)];
            const series = seriesOf(figure, `${name}: ${span(a, b, 'FLOP/s')}, ${span(c, d, 'B/s')}`, colour, i, {is_roof: true});
            made.roofs.push({series, lines: [[b * 1e-9, d * 1e-9], ...(b > a * ONE_LINE || d > c * ONE_LINE ? [[a * 1e-9, c * 1e-9]] : [])]});
        });
        for (const entry of has.slice(0, 2 * MOST_POINTS)) {
            const name = devices.length > 1 ? entry.device : entry.series;
            point(made, seriesOf(figure, name, entry.colour, devices.length > 1 ? 0 : entry.style, {is_loose: true}),
                [field(entry.row, 'flops') / field(entry.row, 'bytes'), field(entry.row, 'flops') / entry.median, NaN, NaN, entry.index, !entry.isRanked]);
        }
        return figure;
    };

    // --- training loops ---
    const loops = data.loops.map((loop) => ({...loop, entry: entries[loop.row]}));
    const PHASES = [['read', 'read', 6], ['tokenise', 'tokenise', 10], ['collate', 'collate', 11], ['wait', 'wait', 7], ['transfer', 'transfer', 9], ['forward', 'forward', 1], ['backward', 'backward', 2],
        ['all_reduce', 'all-reduce', 4], ['unscale', 'unscale', 12], ['update', 'update', 3], ['loss_scaler', 'loss scaler', 10], ['zero_grad', 'zero gradients', 8], ['launch', 'launch', 5], ['log', 'log', 11], ['unaccounted', 'unaccounted', 0]];
    const change = (loop, key) => {
        const names = loop.phases.columns.map(({name}) => name), phase = names.indexOf('phase'), percent = names.indexOf('change_percent');
        const found = loop.phases.rows.find((cells) => [].concat(cells[phase])[0].replaceAll(/[ -]/g, '_') === key);
        return found && percent >= 0 ? [].concat(found[percent])[0] : '';
    };
    const loopPhases = () => {
        const figure = make('stacks', 'loop-phases', 'Where a training step\'s time goes, loop included',
            'Exclusive phases of an instrumented step, mean of the middle half of such steps; the line is the undisturbed step. The first loop of a work is the baseline: next to each other loop, how many times as fast it is, and in the hint the change of each phase with its 95% interval.',
            {x: {label: 'ms', scale: 'linear', unit: 'ms'}, mark_name: 'undisturbed step'});
        PHASES.forEach(([, name, colour]) => seriesOf(figure, name, colour));
        for (const work of [...new Set(loops.map(({entry}) => entry.work))].slice(0, MOST_PANELS)) {
            const made = panel(figure, work);
            made.bars = loops.filter(({entry}) => entry.work === work).slice(0, MOST_LOOPS).map((loop) => {
                const base = loop.baseline === null ? null : entries[loop.baseline], isCompared = base && base.isRanked && loop.entry.isRanked;
                return {name: loop.entry.series, colour: loop.entry.colour, row: loop.row, mark: known(loop.entry.median * 1e-6), parts: PHASES.map(([key]) => Math.min(field(loop.entry.row, `loop.${key}_ns`) * 1e-6 || 0, 1e12)),
                    text: base === null ? 'baseline' : isCompared ? `${Number((base.median / loop.entry.median).toPrecision(3))} times row ${base.index + 1}` : 'no verdict',
                    ...(isCompared ? {changes: PHASES.map(([key]) => change(loop, key))} : {})};
            });
        }
        return figure;
    };
    const overLoops = (id, title, caption, x, y, draw) => {
        const figure = make('lines', id, title, caption, {x: {label: x, scale: 'linear'}, y: {label: y, scale: 'linear', from_zero: true}, is_dense: true});
        loops.slice(0, MOST_PANELS).forEach(({entry}) => draw(figure, panel(figure, `row ${entry.index + 1}: ${entry.series}`), entry));
        return figure;
    };
    const largest = (...names) => Math.max(0, ...loops.flatMap(({entry}) => names.flatMap((name) => list(entry.row, name))).filter((v) => v < 1e30));
    // Means of as many neighbours as needed.
    const overTime = (id, title, caption, label, lines) => overLoops(id, title, caption, 'seconds', label, (figure, made, entry) => {
        const interval = field(entry.row, 'utilisation.interval_ms') * 1e-3;
        for (const [name, of, colour, scale] of lines) {
            const values = list(entry.row, `utilisation.${name}`), step = Math.ceil(values.length / MOST_POINTS);
            for (let i = 0; i + step <= values.length && step > 0 && interval > 0; i += step) {
                const sum = values.slice(i, i + step).reduce((a, b) => a + b, 0);
                if (Math.abs(sum) < 1e30) point(made, seriesOf(figure, of, colour), [(i + step / 2) * interval, sum / step * scale, NaN, NaN, entry.index]);
            }
        }
        made.begin = known(field(entry.row, 'utilisation.n_warmup') * interval);
    });
    const loopFigures = () => {
        const [unit, size] = byteUnit(largest('utilisation.rss_bytes', 'utilisation.gpu_memory_bytes'));
        const held = Math.max(0, ...loops.map(({entry}) => field(entry.row, 'loop.memory.held_bytes') || 0));
        const [stepUnit, stepSize] = byteUnit(held + largest('loop.memory.alive_bytes'));
        return loops.length === 0 ? [] : [loopPhases(),
            overLoops('memory-step', 'Memory over a step',
                'Data on the device while each op runs, by the planner, ops laid end to end; over several micro-batches the times of an op are added. The backward begins at the dashed line. Memory of libraries and kernels is not included.', 'ms', stepUnit, (figure, made, entry) => {
                    const ends = list(entry.row, 'loop.memory.end_ns'), alive = list(entry.row, 'loop.memory.alive_bytes'), base = field(entry.row, 'loop.memory.held_bytes') / stepSize;
                    for (let i = 0, begin = 0; i < Math.min(ends.length, alive.length, MOST_POINTS); begin = ends[i++] * 1e-6) {
                        for (const x of [begin, ends[i] * 1e-6]) {
                            point(made, seriesOf(figure, 'activations and scratch on top', 1), [x, base + alive[i] / stepSize, NaN, NaN, entry.index]);
                            point(made, seriesOf(figure, 'weights, gradients, optimizer\'s state', 3), [x, base, NaN, NaN, entry.index]);
                        }
                    }
                    made.begin = known(field(entry.row, 'loop.memory.backward_ns') * 1e-6);
                }),
            overTime('utilisation', 'Utilisation over time', 'Every 100 ms or more: all processors together, and the GPU. From the dashed line on: the headline, without clocks in its steps; before it the warm-up.', 'busy, %',
                [['cpu', 'processors', 1, 100], ['gpu', 'GPU', 2, 100]]),
            overTime('memory-time', 'Memory while it was measured', 'Resident memory of the process, and allocated memory of the GPU.', unit, [['rss_bytes', 'process', 1, 1 / size], ['gpu_memory_bytes', 'GPU', 2, 1 / size]]),
            overTime('power-time', 'Power over time', 'As the GPU tells it.', 'W', [['power_w', 'GPU', 2, 1]])];
    };

    // --- ops by themselves, against their length ---
    const ops = entries.filter(({row, median}) => row.op && median > 0);
    const againstLength = (id, title, caption, label, name) => {
        const figure = make('lines', id, title, caption, {x: {label: 'tokens a sequence', scale: 'log2'}, y: {label, scale: 'log'}});
        const sizesOf = ({row}) => String(row.shape).split(' ').filter((word) => !/^[TC]=/.test(word)).join(' ');
        const its = ops.filter((entry) => field(entry.row, 'n_seq') > 0 && field(entry.row, name) > 0).sort((a, b) => a.row.n_seq - b.row.n_seq || a.index - b.index);
        for (const sizes of [...new Set(its.map(sizesOf))].slice(0, MOST_PANELS)) {
            const made = panel(figure, sizes), seen = [...new Set(its.map(({series, row}) => words([row.op, series])))];
            for (const entry of its.filter((one) => sizesOf(one) === sizes)) {
                const line = words([entry.row.op, entry.series]), value = field(entry.row, name) * (name === 'median_ns' ? 1e-6 : 1e-9);
                point(made, seriesOf(figure, line, 1 + seen.indexOf(line) % 12), [entry.row.n_seq, value, NaN, NaN, entry.index, !entry.isRanked]);
            }
        }
        return its.length > 1 ? figure : null;
    };
    const opTimes = () => againstLength('op-times', 'How does an op\'s time grow with the length?', 'Median of the samples, warm. Grey: no verdict.', 'ms', 'median_ns');
    const opRates = () => againstLength('op-rates', 'How fast does it compute?', 'Floating-point operations of the equation for each second of the median.', 'GFLOP/s', 'flops_per_s');

    // --- ladders: the rungs of an op on a device, from the lowest up ---
    const rungs = data.rungs || [];
    const named = (rung) => ['ladder', 'shape', 'device', 'name', 'n_threads'].map((name) => rung[name]).join('\n');
    const ladders = rungs.reduce((found, rung, i) => {
        if (i === 0 || named(rung) !== named(rungs[i - 1]) || !isFinite(field(rung, 'times_before'))) found.push([]);
        found.at(-1).push(rung);
        return found;
    }, []);
    const chips = [...new Set(rungs.map(({name}) => String(name)))];
    const ladderFigure = () => {
        const figure = make('intervals', 'ladders', 'From loops to the shipped kernel', 'Each rung\'s share of the least time that the device\'s measured ceilings allow, from the lowest up; bars: 95% interval of the median.', {x: {label: '% of the ceiling', scale: 'auto'}});
        for (const its of ladders) {
            panel(figure, `${its[0].ladder}, ${its[0].device}`).points = its.filter((rung) => field(rung, 'ceiling_share') > 0).map((rung) => ({name: String(rung.rung),
                series: seriesOf(figure, String(rung.name), 1 + chips.indexOf(String(rung.name))), x: 100 * rung.ceiling_share, lo: known(100 * field(rung, 'ceiling_ns') / field(rung, 'ns_ci95_hi')),
                hi: known(100 * field(rung, 'ceiling_ns') / field(rung, 'ns_ci95_lo')), row: null, text: `${Number((field(rung, 'ns') * 1e-6).toPrecision(4))} ms`}));
        }
        return figure;
    };

    return {entries, devices, works, bySpeed, best, field, list, at, withText, scaled, loops, ladders,
        figures: {answer, sideBySide, throughput, memory, gain, threads, threadEfficiency, phases, warmup, spread, roofline, loopFigures, ladderFigure, opTimes, opRates}};
};

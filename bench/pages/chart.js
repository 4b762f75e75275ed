// chart.js: draws the figures of a page. A figure is data: {kind, id, title, caption, x: axis, y: axis, series, panels}; an
// axis is {label, scale: linear, log2, log or auto, unit, from_zero, level}. Panels stand side by side and share axes and
// series [{name, colour, style}]. chart.figure() gives its element; null where it would show one point on an axis.
//
//   kind        a panel holds
//   lines       series: [{series, points: [[x, y, lo, hi, row, is_grey]]}]; crosses: [[x, row]]; ideal: [[x, y]]; begin: x;
//               roofs: [{series, lines: [[peak, bandwidth], the highest first]}]
//   intervals   points: [{name, series, x, lo, hi, row, text, is_grey}]: a dot with its interval for each name
//   stacks      bars: [{name, colour, parts: [one a series], mark, text, row, changes}]
//   strips      rows: [[series, row]]: their raw samples, as distance from their median
//
// Values that are not known are null. A point may name its row: the hint then tells of it (chart.rows), and a click opens it.
const chart = (() => {
    const {make, svg, number} = page;
    const compact = (value) => value.toLocaleString('en', {notation: 'compact', maximumSignificantDigits: 3});
    const colour = (n) => `var(--s${n > 12 ? (n - 1) % 12 + 1 : n})`; // 0: of nobody
    const DASHES = ['', '8 3', '2.5 3', '9 3 2.5 3', '14 4', '5 2 2 2 2 2'];
    // A report's facts of its rows: describe(row) gives nodes for a hint, open(row) shows all, samples(row) in ns,
    // isShown(row) by the reader's filter.
    const rows = {describe: () => [], open: null, samples: () => [], isShown: () => true};

    // --- scales ---
    const linearTicks = (lo, hi, n) => {
        const raw = (hi - lo) / n, power = 10 ** Math.floor(Math.log10(raw));
        const step = power * ([1, 2, 5, 10].find((f) => f * power >= raw) || 10);
        const ticks = [];
        for (let i = Math.ceil(lo / step - 1e-9); i * step <= hi + step * 1e-9; i++) ticks.push(i * step || 0);
        return ticks;
    };
    const logTicks = (lo, hi, n) => {
        const decades = Math.log10(hi / lo);
        const digits = decades < 1.2 ? [1, 2, 3, 5, 7] : decades < n / 2 ? [1, 2, 5] : [1];
        const ticks = [];
        const skip = Math.max(1, Math.ceil(decades / n));
        for (let p = Math.floor(Math.log10(lo)); p <= Math.log10(hi); p++) {
            if (digits.length === 1 && p % skip !== 0) continue;
            for (const d of digits) if (d * 10 ** p >= lo * 0.999 && d * 10 ** p <= hi * 1.001) ticks.push(d * 10 ** p);
        }
        return ticks;
    };
    const powersOfTwo = (lo, hi, n) => {
        const from = Math.ceil(Math.log2(lo) - 1e-9), to = Math.floor(Math.log2(hi) + 1e-9);
        const skip = Math.max(1, Math.ceil((to - from + 1) / n));
        return Array.from({length: to - from + 1}, (_, i) => 2 ** (from + i)).filter((_, i) => i % skip === 0);
    };
    // Of the numbers that are to be seen. auto: by decades where they span more than one and a third.
    const kindOf = (axis, values) => {
        const positive = values.filter((v) => v > 0);
        const spans = positive.length === values.length && Math.max(...positive) > 20 * Math.min(...positive);
        return axis.scale === 'auto' ? (spans ? 'log' : 'linear') : axis.scale === 'log2' && positive.length < values.length ? 'linear' : axis.scale;
    };
    const MOST_DECADES = 1e15; // what no machine measures, a damaged row may hold
    const scaleOf = (kind, axis, values, from, to) => {
        const isLog = kind !== 'linear';
        const seen = values.filter((v) => Number.isFinite(v) && Math.abs(v) < 1e300 && (!isLog || v > 0));
        let lo = seen.length > 0 ? Math.min(...seen) : 1, hi = seen.length > 0 ? Math.max(...seen) : 1;
        const n = Math.max(2, Math.floor(Math.abs(to - from) / (axis.isUp ? 28 : 64)));
        if (isLog) {
            lo = Math.max(lo, hi / MOST_DECADES);
            const room = Math.max((hi / lo) ** 0.06, 1.06);
            lo /= room; hi *= room;
        } else {
            if (axis.from_zero && lo > 0) lo = 0;
            if (axis.from_zero && hi < 0) hi = 0;
            const room = Math.max((hi - lo || Math.abs(hi) || 1) * 0.06, Math.abs(hi) * 1e-9, 1e-300); // ticks can be told apart
            hi += room;
            if (!(axis.from_zero && lo === 0)) lo -= room;
        }
        const f = isLog ? Math.log : (v) => v;
        const within = (v) => Number.isFinite(v) ? Math.min(Math.max(v, lo), hi) : lo;
        const at = (v) => from + (f(within(v)) - f(lo)) / (f(hi) - f(lo)) * (to - from);
        const ticks = kind === 'log2' ? powersOfTwo(lo, hi, n) : isLog ? logTicks(lo, hi, n) : linearTicks(lo, hi, n);
        return {at, lo, hi, ticks, isLog};
    };

    // --- marks ---
    const SHAPES = [
        (x, y, r) => `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0z`,
        (x, y, r) => `M${x - r},${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
        (x, y, r) => `M${x},${y - 1.2 * r}l${1.2 * r},${2.2 * r}h${-2.4 * r}z`,
        (x, y, r) => `M${x},${y - 1.4 * r}l${1.3 * r},${1.4 * r}l${-1.3 * r},${1.4 * r}l${-1.3 * r},${-1.4 * r}z`,
        (x, y, r) => `M${x},${y + 1.2 * r}l${1.2 * r},${-2.2 * r}h${-2.4 * r}z`,
        (x, y, r) => `M${x - r},${y - r / 2.6}h${r - r / 2.6}v${-r}h${r / 1.3}v${r}h${r}v${r / 1.3}h${-r}v${r}h${-r / 1.3}v${-r}h${-r}z`,
    ];
    const shape = (style, x, y, r, attributes) => svg('path', {d: SHAPES[style % SHAPES.length](x, y, r), ...attributes});
    const cross = (x, y, r) => svg('path', {d: `M${x - r},${y - r}l${2 * r},${2 * r}m0,${-2 * r}l${-2 * r},${2 * r}`, stroke: 'var(--bad)', 'stroke-width': 2, fill: 'none'});

    // A panel under construction: its picture, and the places that answer to a pointer.
    const begin = (title, width, height) => {
        const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', tabindex: 0, 'aria-label': title});
        if (title) picture.append(svg('text', {x: 0, y: 13, class: 'title'}, title));
        return {picture, places: [], width, height};
    };
    const put = (p, ...nodes) => p.picture.append(...nodes);
    const line = (x1, y1, x2, y2, attributes) => svg('line', {x1, y1, x2, y2, ...attributes});
    // Puts a mark that answers. `hint` gives nodes; `row`: undefined where the place is of none.
    const answer = (p, element, box, hint, row) => {
        put(p, element);
        element.classList.add('mark');
        if (row !== undefined && row !== null) element.dataset.row = row;
        p.places.push({element, box, hint, row});
    };
    const labelOf = (axis, scale) => axis.label + (scale.isLog ? ' (log scale)' : '');
    const axisX = (p, axis, scale, top, bottom) => {
        for (const tick of scale.ticks) {
            put(p, line(scale.at(tick), top, scale.at(tick), bottom, {class: 'gridline'}),
                svg('text', {x: scale.at(tick), y: bottom + 14, class: 'tick', 'text-anchor': 'middle'}, compact(tick)));
        }
        put(p, svg('text', {x: p.width - 4, y: bottom + 29, class: 'soft', 'text-anchor': 'end'}, labelOf(axis, scale)));
    };
    const axisY = (p, axis, scale, left, right, top) => {
        for (const tick of scale.ticks) {
            put(p, line(left, scale.at(tick), right, scale.at(tick), {class: 'gridline'}),
                svg('text', {x: left - 5, y: scale.at(tick) + 4, class: 'tick', 'text-anchor': 'end'}, compact(tick)));
        }
        put(p, svg('text', {x: 0, y: top - 6, class: 'soft'}, labelOf(axis, scale)));
    };
    const range = (lo, hi, unit) => lo !== null && hi !== null && lo !== hi ? ` (${number(lo)} to ${number(hi)}${unit})` : '';
    const told = (name, pairs, row) => () => [make('b', {}, name), page.facts(pairs),
        ...(row !== undefined && row !== null ? rows.describe(row) : [])];

    // --- lines ---
    const visible = (figure, panel) => panel.series
        .filter((s) => !figure.hidden.has(s.series))
        .map((s) => ({...figure.series[s.series], points: s.points.filter((point) => rows.isShown(point[4]))}))
        .filter((s) => s.points.length > 0);

    const drawLines = (figure, panel, width) => {
        const roofs = panel.roofs.filter((roof) => !figure.hidden.has(roof.series));
        const top = panel.title ? 40 : 24, height = panel.roofs.length > 0 ? Math.max(300, Math.min(440, width * .6)) : top + 196;
        const left = 50, bottom = height - 34, right = width - 8;
        const p = begin(panel.title, width, height);
        const series = visible(figure, panel);
        const all = series.flatMap((s) => s.points).filter((point) => point[1] !== null);
        const missed = (panel.crosses || []).filter((c) => rows.isShown(c[1]));
        if (all.length === 0) return p;
        const xs = [...all.map((point) => point[0]), ...missed.map((c) => c[0]), ...roofs.flatMap((roof) => roof.lines.map(([peak, bandwidth]) => peak / bandwidth))];
        const ys = [...all.flatMap(([, y, lo, hi]) => [y, lo ?? y, hi ?? y]), ...roofs.map(({lines: [[peak]]}) => peak)];
        if (panel.ideal) ys.push(...panel.ideal.map((point) => point[1]));
        const x = scaleOf(kindOf(figure.x, xs), figure.x, xs, left + 8, right - 8);
        const y = scaleOf(figure.yKind, {...figure.y, isUp: true}, figure.yKind === 'linear' ? ys : ys.filter((v) => v > 0), bottom, top + 4);
        const polyline = (points, attributes) => svg('polyline', {points: points.map(([a, b]) => `${x.at(a)},${y.at(b)}`).join(' '), fill: 'none', ...attributes});
        axisX(p, figure.x, x, top, bottom);
        axisY(p, figure.y, y, left, right, top);
        if (figure.y.level > y.lo && figure.y.level < y.hi) put(p, line(left, y.at(figure.y.level), right, y.at(figure.y.level), {class: 'axis'}));
        if (panel.ideal) put(p, polyline(panel.ideal, {class: 'axis', 'stroke-dasharray': '4 4'}));
        if (panel.begin > x.lo && panel.begin < x.hi) put(p, line(x.at(panel.begin), top, x.at(panel.begin), bottom, {class: 'axis', 'stroke-dasharray': '3 4'}));
        for (const roof of roofs) {
            const s = figure.series[roof.series];
            roof.lines.forEach(([peak, bandwidth], i) => {
                const first = Math.max(x.lo, y.lo / bandwidth), knee = Math.max(first, Math.min(x.hi, peak / bandwidth));
                const drawn = polyline([[first, Math.min(peak, first * bandwidth)], [knee, Math.min(peak, knee * bandwidth)], [x.hi, Math.min(peak, x.hi * bandwidth)]],
                    {stroke: colour(s.colour), 'stroke-width': i === 0 ? 1.8 : .9, 'stroke-dasharray': DASHES[s.style % DASHES.length]});
                answer(p, drawn, [right - 60, y.at(peak) - 3, right, y.at(peak) + 3], told(s.name, []), null);
            });
        }
        for (const s of series) {
            const points = s.points.filter((point) => point[1] !== null);
            if (!s.is_loose) put(p, polyline(points, {stroke: colour(s.colour), 'stroke-width': s.is_thin ? 1.1 : 1.8, opacity: s.is_thin ? .7 : 1, 'stroke-dasharray': DASHES[s.style % DASHES.length]}));
            for (const [a, b, lo, hi, row, isGrey] of points) {
                const cx = x.at(a), cy = y.at(b), own = colour(isGrey ? 0 : s.colour);
                if (lo !== null && hi !== null && lo < hi) put(p, line(cx, y.at(Math.max(lo, y.lo)), cx, y.at(hi), {stroke: own, 'stroke-width': 1.5}));
                const mark = shape(s.style, cx, cy, figure.is_dense || s.is_thin ? 1.2 : 3.6, {opacity: s.is_thin ? 0 : 1, fill: s.is_hollow ? 'var(--card)' : own, stroke: own});
                answer(p, mark, [cx, cy, cx, cy], told(s.name, [[figure.x.label, number(a)], [figure.y.label, number(b) + range(lo, hi, '')]], row), row);
            }
        }
        for (const [a, row] of missed) {
            const mark = cross(x.at(a), top + 10, 5);
            answer(p, mark, [x.at(a), top + 10, x.at(a), top + 10], told('out of memory', [[figure.x.label, number(a)]], row), row);
        }
        return p;
    };

    // --- names down the side: a line of text, its picture under it ---
    // texts: for each a name and what stands at the right edge; below the name where both do not fit on a line.
    const GAP = 36, LINE = 14;
    const fitting = (width) => Math.max(8, Math.floor((width - 24) / 6.6));
    const named = (figure, panel, width, texts) => {
        const top = panel.title ? 24 : 6;
        const extra = texts.some(([name, beside]) => name.length + beside.length > fitting(width)) ? LINE : 0;
        const bottom = top + texts.length * (GAP + extra) + 4;
        return {p: {...begin(panel.title, width, bottom + 34), extra}, top, bottom, left: 8, right: width - 14,
            at: (i) => top + i * (GAP + extra) + extra};
    };
    // A name too long for a line is cut; the hint shows all of it.
    const nameOf = (p, [text, beside], y, colourNumber) => {
        const fits = fitting(p.width) - (p.extra ? 0 : beside.length), above = y - p.extra;
        if (colourNumber) put(p, shape(0, 5, above - 4, 4, {fill: colour(colourNumber)}));
        put(p, svg('text', {x: colourNumber ? 14 : 0, y: above}, text.length > fits ? text.slice(0, fits - 1) + '\u2026' : text),
            svg('text', {x: p.width - 2, y, 'text-anchor': 'end'}, beside));
    };

    const drawIntervals = (figure, panel, width) => {
        const points = panel.points.filter((point) => !figure.hidden.has(point.series) && rows.isShown(point.row));
        const texts = points.map(({name, x: value, text, is_grey: isGrey}) =>
            [name, number(value) + (text && (width >= 480 || isGrey) ? ', ' + text : '')]); // a phone has room for names alone
        const {p, top, bottom, left, right, at: rowAt} = named(figure, panel, width, texts);
        if (points.length === 0) return p;
        const values = points.flatMap(({x, lo, hi}) => [x, lo ?? x, hi ?? x]);
        const kind = kindOf(figure.x, values);
        const x = scaleOf(kind, {...figure.x, from_zero: true}, values, left, right);
        axisX(p, figure.x, x, top, bottom);
        points.forEach(({name, x: value, lo, hi, row, series, text, is_grey: isGrey}, i) => {
            const s = isGrey ? {...figure.series[series], colour: 0} : figure.series[series], y = rowAt(i) + 26, at = x.at(value);
            nameOf(p, texts[i], y - 12, s.colour);
            if (kind === 'linear') put(p, line(x.at(0), y, at, y, {stroke: colour(s.colour), 'stroke-width': 7, opacity: .25}));
            if (lo !== null && hi !== null) put(p, line(x.at(lo), y, x.at(hi), y, {stroke: colour(s.colour), 'stroke-width': 2.4}),
                line(x.at(lo), y - 4, x.at(lo), y + 4, {stroke: colour(s.colour), 'stroke-width': 1.6}), line(x.at(hi), y - 4, x.at(hi), y + 4, {stroke: colour(s.colour), 'stroke-width': 1.6}));
            const mark = shape(0, at, y, 4.5, {fill: colour(s.colour)});
            answer(p, mark, [Math.min(x.at(lo ?? value), at), y - 14, Math.max(x.at(hi ?? value), at), y + 4],
                told(name, [[figure.x.label, number(value) + range(lo, hi, '')], ['', text]], row), row);
        });
        return p;
    };

    const drawStacks = (figure, panel, width) => {
        const bars = panel.bars.filter((bar) => rows.isShown(bar.row));
        const parts = (bar) => bar.parts.map((value, k) => ({k, value})).filter(({k, value}) => value > 0 && !figure.hidden.has(k));
        const total = (bar) => parts(bar).reduce((sum, part) => sum + part.value, 0);
        const totals = bars.map(total);
        const texts = bars.map((bar, i) => [bar.name, `${number(totals[i])} ${figure.x.unit}${bar.text ? ', ' + bar.text : ''}`]);
        const {p, top, bottom, left, right, at: rowAt} = named(figure, panel, width, texts);
        if (bars.length === 0) return p;
        const isShare = kindOf({scale: 'auto'}, totals) === 'log'; // sums of decades have no common length
        const most = isShare ? [100] : bars.map((bar, i) => Math.max(totals[i], bar.mark ?? 0));
        const scale = scaleOf('linear', {...figure.x, from_zero: true}, [0, ...most], left, right);
        axisX(p, isShare ? {label: 'share, %'} : figure.x, scale, top, bottom);
        bars.forEach((bar, i) => {
            const y = rowAt(i) + 18, sum = totals[i];
            const x = {at: (v) => scale.at(isShare ? 100 * v / sum : v)};
            nameOf(p, texts[i], y - 4, bar.colour);
            let at = 0;
            for (const {k, value} of parts(bar)) {
                const x0 = x.at(at), x1 = x.at(at += value);
                const mark = svg('rect', {x: x0, y, width: Math.max(0.5, x1 - x0), height: 14, fill: colour(figure.series[k].colour)});
                answer(p, mark, [x0, y, x1, y + 14], told(bar.name, [[figure.series[k].name, `${number(value)} ${figure.x.unit}, ${number(100 * value / sum, 3)}%`], ...(bar.changes ? [['against the baseline', bar.changes[k]]] : [])], bar.row), bar.row);
            }
            if (bar.mark !== null && bar.mark !== undefined && (!isShare || bar.mark <= sum)) {
                const mark = line(x.at(bar.mark), y - 3, x.at(bar.mark), y + 17, {stroke: 'var(--ink)', 'stroke-width': 2.5});
                answer(p, mark, [x.at(bar.mark) - 2, y - 3, x.at(bar.mark) + 2, y + 17], told(bar.name, [[figure.mark_name, `${number(bar.mark)} ${figure.x.unit}`]], bar.row), bar.row);
            }
        });
        return p;
    };

    // --- raw samples ---
    const quantile = (sorted, q) => {
        const at = (sorted.length - 1) * q, low = Math.floor(at);
        return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
    };

    // Dots of one row's samples in the order measured, from left to right of `width`; also what a hint shows.
    const strip = (samples, width, height, colourNumber) => {
        const picture = svg('svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true', style: `width:${width}px`});
        const lo = Math.min(...samples), hi = Math.max(...samples);
        const y = (v) => hi > lo ? height - 4 - (v - lo) / (hi - lo) * (height - 8) : height / 2;
        const median = quantile([...samples].sort((a, b) => a - b), .5);
        picture.append(line(0, y(median), width, y(median), {class: 'axis', 'stroke-dasharray': '3 3'}));
        const skip = Math.ceil(samples.length / 300);
        samples.forEach((v, i) => {
            if (i % skip === 0) picture.append(svg('circle', {cx: 3 + (width - 6) * (samples.length > 1 ? i / (samples.length - 1) : .5), cy: y(v), r: 1.8, fill: colour(colourNumber)}));
        });
        return picture;
    };

    const drawStrips = (figure, panel, width) => {
        const found = panel.rows.map(([series, row]) => ({series, row, s: figure.series[series], samples: rows.samples(row)}))
            .filter(({series, row, samples}) => !figure.hidden.has(series) && rows.isShown(row) && samples.length > 1)
            .map((entry) => ({...entry, sorted: [...entry.samples].sort((a, b) => a - b)}));
        const texts = found.map((entry) => [entry.s.name, page.ms(quantile(entry.sorted, .5))]);
        const {p, top, bottom, left, right, at: rowAt} = named(figure, panel, width, texts);
        if (found.length === 0) return p;
        const away = (entry, v) => 100 * (v / quantile(entry.sorted, .5) - 1);
        let lo = -1, hi = 1;
        for (const entry of found) {
            lo = Math.min(lo, away(entry, entry.sorted[0]));
            hi = Math.max(hi, Math.min(away(entry, entry.sorted.at(-1)), Math.max(3, 6 * away(entry, quantile(entry.sorted, .75)))));
        }
        const x = scaleOf('linear', figure.x, [lo, hi], left, right);
        axisX(p, figure.x, x, top, bottom);
        put(p, line(x.at(0), top, x.at(0), bottom, {class: 'axis'}));
        found.forEach((entry, i) => {
            const y = rowAt(i) + 26, q1 = x.at(away(entry, quantile(entry.sorted, .25))), q3 = x.at(away(entry, quantile(entry.sorted, .75)));
            nameOf(p, texts[i], y - 12, entry.s.colour);
            const mark = svg('rect', {x: q1, y: y - 8, width: Math.max(1, q3 - q1), height: 16, fill: colour(entry.s.colour), opacity: .25});
            answer(p, mark, [left, y - 14, right, y + 10], told(entry.s.name, [], entry.row), entry.row);
            const skip = Math.ceil(entry.samples.length / 200);
            entry.samples.forEach((v, k) => {
                const at = away(entry, v);
                if (k % skip === 0 && at <= hi) put(p, svg('circle', {cx: x.at(at), cy: y - 7 + 14 * k / entry.samples.length, r: 1.6, fill: colour(entry.s.colour)}));
            });
            const beyond = entry.samples.filter((v) => away(entry, v) > hi).length;
            if (beyond > 0) put(p, svg('text', {x: right + 12, y: y + 4, 'text-anchor': 'end', class: 'soft'}, `+${beyond} \u203a`));
        });
        return p;
    };

    const KINDS = {lines: drawLines, intervals: drawIntervals, stacks: drawStacks, strips: drawStrips};

    // --- pointer and keys: the nearest place answers ---
    const REACH = 26;
    const distance = ([x0, y0, x1, y1], x, y) => Math.hypot(Math.max(x0 - x, 0, x - x1), Math.max(y0 - y, 0, y - y1));
    const makeAnswer = (p) => {
        let now = null, byKey = false;
        const choose = (place, x, y, isByKey = false) => {
            byKey = isByKey;
            now?.element.classList.remove('hot');
            now = place;
            if (!now) { page.hideHint(); return; }
            now.element.classList.add('hot');
            page.showHint(now.hint, x, y);
        };
        const toPicture = (event) => {
            const at = p.picture.getBoundingClientRect();
            return [(event.clientX - at.left) * p.width / at.width, (event.clientY - at.top) * p.height / at.height];
        };
        const nearest = (event) => {
            const [x, y] = toPicture(event);
            let best = null, least = REACH;
            for (const place of p.places) {
                const d = distance(place.box, x, y);
                if (d < least) { best = place; least = d; }
            }
            return best;
        };
        p.picture.addEventListener('pointermove', (event) => {
            const place = nearest(event);
            if (place || !byKey) choose(place, event.clientX, event.clientY);
        });
        p.picture.addEventListener('pointerdown', (event) => {
            if (event.pointerType !== 'mouse') choose(nearest(event), event.clientX, event.clientY);
        });
        p.picture.addEventListener('pointerleave', () => { if (!byKey) choose(null); });
        p.picture.addEventListener('click', (event) => {
            const place = nearest(event);
            if (place?.row !== undefined && place?.row !== null && rows.open) rows.open(place.row);
        });
        p.picture.addEventListener('keydown', (event) => {
            const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
            if (step && p.places.length > 0) {
                const n = p.places.length, place = p.places[(p.places.indexOf(now) + step + n + (now ? 0 : step < 0 ? 1 : 0)) % n];
                const at = place.element.getBoundingClientRect();
                choose(place, at.right, at.bottom, true);
                event.preventDefault();
            } else if (event.key === 'Enter' && now?.row !== undefined && now?.row !== null && rows.open) {
                event.preventDefault(); // or the key presses the button of what opens
                rows.open(now.row);
            }
        });
        p.picture.addEventListener('blur', () => choose(null));
    };

    // --- figures ---
    const allValues = (figure) => (figure.panels || []).flatMap((panel) => (panel.series || []).flatMap((s) => s.points.map(([, y]) => y)).filter((v) => v !== null));
    // `forced`: drawn for paper, in that many units.
    const draw = (figure, forced) => {
        const room = figure.room.clientWidth, columns = Math.min(figure.panels.length, Math.max(1, Math.floor(room / 330)));
        const width = forced || Math.max(240, Math.floor(room / columns) - 12);
        if (figure.y) figure.yKind = kindOf(figure.y, allValues(figure));
        const drawn = figure.panels.map((panel) => KINDS[figure.kind](figure, panel, width));
        const holders = drawn.map((p) => {
            makeAnswer(p);
            const holder = make('div', {class: 'panel'}, p.picture);
            holder.hidden = p.places.length === 0;
            return holder;
        });
        figure.room.replaceChildren(...holders);
        figure.isEmpty.hidden = drawn.some((p) => p.places.length > 0);
    };
    const isUsed = (figure, k) => figure.kind !== 'stacks' || figure.panels.some((panel) => panel.bars.some((bar) => bar.parts[k] > 0));
    const legend = (figure) => {
        const buttons = figure.series.map((s, i) => {
            const picture = svg('svg', {viewBox: '0 0 26 12', width: 26, height: 12, style: 'width:26px', 'aria-hidden': 'true'});
            if (figure.kind === 'stacks') picture.append(svg('rect', {x: 4, y: 1, width: 18, height: 10, fill: colour(s.colour)}));
            else {
                if (!s.is_loose) picture.append(line(0, 6, 26, 6, {stroke: colour(s.colour), 'stroke-width': 1.8, 'stroke-dasharray': DASHES[s.style % DASHES.length]}));
                if (!s.is_roof && !figure.is_dense && !s.is_thin) picture.append(shape(figure.kind === 'lines' ? s.style : 0, 13, 6, 4, {fill: s.is_hollow ? 'var(--card)' : colour(s.colour), stroke: colour(s.colour)}));
            }
            const button = make('button', {type: 'button', 'aria-pressed': 'true', title: 'hide or show; twice: this one alone'}, picture, s.name);
            const update = () => {
                buttons.forEach((other, k) => other.setAttribute('aria-pressed', String(!figure.hidden.has(k))));
                draw(figure);
            };
            button.addEventListener('click', () => {
                if (!figure.hidden.delete(i)) figure.hidden.add(i);
                update();
            });
            button.addEventListener('dblclick', () => {
                const isAlone = figure.series.every((_, k) => k === i || figure.hidden.has(k));
                figure.hidden = new Set(isAlone ? [] : figure.series.keys());
                figure.hidden.delete(i);
                update();
            });
            return button;
        });
        return make('div', {class: 'legend', role: 'group', 'aria-label': 'series'}, ...buttons.filter((_, k) => isUsed(figure, k)));
    };
    // --- which figures there are ---
    const distinct = (points) => new Set(points.filter(([, y]) => y !== null).map(([x]) => x)).size;
    const SIZES = { // of a panel: the points on its axis
        lines: (panel) => Math.max(0, ...panel.series.map((s) => distinct(s.points) + panel.roofs.length)), intervals: (panel) => panel.points.length,
        stacks: (panel) => 2 * panel.bars.length, strips: (panel) => 2 * panel.rows.length,
    };
    const figures = [];
    const figure = (made) => {
        made.panels = made.panels.filter((panel) => SIZES[made.kind](panel) >= 2);
        if (made.panels.length === 0) return null;
        made.hidden = new Set();
        made.room = make('div', {class: 'panels'});
        made.isEmpty = make('p', {class: 'soft', hidden: true}, 'Nothing to show: every series or row is hidden.');
        const isNamed = made.kind === 'intervals' || made.kind === 'strips'; // in the picture, one a line
        new ResizeObserver(() => {
            const width = made.room.clientWidth;
            if (width > 0 && made.width !== undefined && width !== made.width) { made.width = width; draw(made); }
        }).observe(made.room);
        figures.push(made);
        return make('figure', {class: made.panels.length > 1 ? 'broad' : null}, make('h3', {}, made.title),
            make('div', {'data-figure': made.id}, made.series.length > 1 && !isNamed ? legend(made) : null, made.room, made.isEmpty),
            made.caption ? make('figcaption', {}, made.caption) : null);
    };
    const charts = (...made) => {
        const drawn = made.flat().filter((one) => one).map(figure).filter((one) => one);
        return drawn.length > 0 ? make('div', {class: 'charts'}, drawn) : null;
    };
    const redraw = () => figures.forEach((figure) => draw(figure));
    let due = 0;
    const redrawSoon = () => {
        clearTimeout(due);
        if (document.documentElement.dataset.drawn !== undefined) due = setTimeout(redraw, 80);
    };
    // The first screen first: then one figure after the other.
    const drawFrom = (i) => {
        if (i === figures.length) { document.documentElement.dataset.drawn = ''; return; }
        figures[i].width = figures[i].room.clientWidth;
        draw(figures[i]);
        setTimeout(() => drawFrom(i + 1));
    };
    const start = () => requestAnimationFrame(() => setTimeout(() => drawFrom(0)));
    addEventListener('beforeprint', () => figures.forEach((figure) => draw(figure, figure.panels[0].roofs.length > 0 ? 460 : figure.panels.length > 1 && figure.y ? 250 : 340)));
    addEventListener('afterprint', redraw);
    return {rows, charts, start, strip, redrawSoon};
})();

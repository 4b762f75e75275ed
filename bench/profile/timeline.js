// timeline.js: the memory of a step over its ops, as stacked areas: a stripe a tensor, in the order of first use; what
// outlives the step lies below, a stripe a role.
(() => {
    const {make, svg, bytes, number} = page;
    const of = page.data('page');
    const [NAME, ROLE, SIZE, FIRST, END] = [0, 1, 2, 3, 4];
    const N = of.ops.length, W = 960, H = 420, LEFT = 70, BOTTOM = 24;
    const isMeasured = of.ops.length > 0 && of.ops[0].length > 3;
    const ends = [];
    of.ops.forEach((op, i) => ends.push((i > 0 ? ends[i - 1] : 0) + (isMeasured ? Math.max(op[3], 1) : 1)));
    const x = (op) => LEFT + (W - LEFT) * (op > 0 ? ends[op - 1] : 0) / ends[N - 1];
    const held = {};
    const moving = [];
    for (const t of of.tensors) {
        if (t[FIRST] === 0 && t[END] === N && t[ROLE] !== 'activations' && t[ROLE] !== 'scratch') held[t[ROLE]] = (held[t[ROLE]] || 0) + t[SIZE];
        else moving.push(t);
    }
    moving.sort((a, b) => a[FIRST] - b[FIRST]);
    const stripes = [...Object.entries(held).map(([role, size]) => [role, role, size, 0, N]), ...moving];
    const most = Math.max(of.tensor_bytes, ...of.alive_bytes);
    const y = (value) => H - BOTTOM - (H - BOTTOM - 12) * value / most;
    const tops = new Array(N).fill(0); // of the stripes so far
    const about = make('p', {class: 'soft', 'aria-live': 'polite'}, 'Point at a stripe to see its tensor.');
    const picture = svg('svg', {viewBox: `0 0 ${W} ${H}`, role: 'img', 'aria-label': 'memory over the ops of a step'});
    const say = (t) => about.replaceChildren(`${t[NAME]} (${t[ROLE]}): ${bytes(t[SIZE])}, from op ${t[FIRST]} ${of.ops[t[FIRST]][0]} to op ${t[END] - 1} ${of.ops[t[END] - 1][0]}`);
    stripes.forEach((t, k) => {
        const upper = [], lower = [];
        for (let i = t[FIRST]; i < t[END]; i++) {
            lower.push(`${x(i)},${y(tops[i])}`, `${x(i + 1)},${y(tops[i])}`);
            tops[i] += t[SIZE];
            upper.push(`${x(i)},${y(tops[i])}`, `${x(i + 1)},${y(tops[i])}`);
        }
        const hue = (k * 47) % 360;
        const colour = t[END] - t[FIRST] === N ? `hsl(${hue} 12% ${50 + 10 * (k % 3)}%)` : `hsl(${hue} 55% 58%)`;
        const stripe = svg('polygon', {points: [...upper, ...lower.reverse()].join(' '), fill: colour, stroke: 'none'});
        for (const event of ['pointerenter', 'click']) stripe.addEventListener(event, () => say(t));
        stripe.append(svg('title', {}, `${t[NAME]}: ${bytes(t[SIZE])}`));
        picture.append(stripe);
    });
    const line = (value, name) => [svg('line', {x1: LEFT, x2: W, y1: y(value), y2: y(value), class: 'axis', stroke: 'currentColor', 'stroke-dasharray': '4 4'}),
        svg('text', {x: W - 4, y: y(value) - 4, 'text-anchor': 'end', class: 'soft'}, `${name} ${bytes(value)}`)];
    picture.append(...line(of.tensor_bytes, 'allocated'));
    const peak = x(of.peak_op);
    picture.append(svg('line', {x1: peak, x2: peak, y1: y(of.peak_alive_bytes), y2: H - BOTTOM, stroke: 'currentColor'}),
        svg('text', {x: 0, y: y(of.peak_alive_bytes) + 4}, bytes(of.peak_alive_bytes)),
        svg('text', {x: LEFT, y: H - 6, class: 'soft'}, isMeasured ? 'time, by the measured ops' : 'ops in the order of execution'));
    let phase = '';
    of.ops.forEach((op, i) => {
        if (op[1] !== phase && op[1] !== 'scaler') picture.append(svg('text', {x: x(i), y: 10, class: 'soft'}, op[1]));
        phase = op[1];
    });
    const rows = of.peak_largest.map((t) => make('tr', {}, make('td', {}, t[NAME]), make('td', {}, t[ROLE]), make('td', {}, bytes(t[SIZE])),
        make('td', {}, `${t[FIRST]} to ${t[END] - 1}`)));
    document.querySelector('main, body').append(make('h1', {}, of.title), make('p', {}, `${N} ops. At most ${bytes(of.peak_alive_bytes)} hold data at once, in op ${number(of.peak_op)} ` +
        `(${of.ops[of.peak_op][0]}); ${bytes(of.tensor_bytes)} are allocated for tensors, and ${bytes(of.working_bytes)} for the kernels.`), picture, about,
        make('h2', {}, 'The largest tensors at the peak'), make('table', {}, make('tr', {}, ...['tensor', 'role', 'size', 'ops'].map((h) => make('th', {}, h))), ...rows));
})();

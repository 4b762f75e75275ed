// step_memory.js: memory over the step, as the planner packs it, and what mode fused makes of mode naive. `memory` here.
const memory = (() => {
    const {make, svg, bytes, number} = page, {data, walk} = step;
    const WIDTH = 720, HEIGHT = 220, LEFT = 64, BOTTOM = 24;

    const isTransient = (role) => role === 'activations' || role === 'scratch';
    const isRoot = (plan, i) => plan.tensors[i].root === i;
    const arenaBytes = (plan, wanted) => plan.arenas.reduce((sum, a) => sum + (wanted(a.role) ? a.bytes : 0), 0);
    // The start of an arena, if all arenas packed by lifetime follow one another.
    const arenaStarts = (plan) => plan.arenas.map((_, k) => arenaBytes({arenas: plan.arenas.slice(0, k)}, isTransient));

    // Bytes of tensors that hold data while each op runs; what lies in another's place counts once.
    const aliveAt = (plan) => plan.ops.map((_, i) => {
        const seen = new Map();
        for (const t of plan.tensors.filter((t, k) => isRoot(plan, k) && isTransient(t.role) && t.first <= i && i < t.end)) seen.set(t.arena + ':' + t.offset, Math.max(t.bytes, seen.get(t.arena + ':' + t.offset) || 0));
        return [...seen.values()].reduce((a, b) => a + b, 0);
    });

    const colourOf = (t) => (t.role === 'scratch' ? 'var(--s8)' : /(^|\.)d\./.test(t.name) ? 'var(--s2)' : 'var(--s1)');
    const block = (plan, t, scale, start) => {
        const x = LEFT + t.first * scale.x, y = HEIGHT - (start[t.arena] + t.offset + t.bytes) * scale.y;
        const rect = svg('rect', {class: 'mark place', x, y, width: Math.max(1, (t.end - t.first) * scale.x - .5), height: Math.max(.8, t.bytes * scale.y - .4), style: `--family:${colourOf(t)}`});
        page.hint(rect, () => [make('b', {}, t.name), make('br'), `${bytes(t.bytes)}, ${t.role}`, make('br'), `from op ${t.first} (${plan.ops[t.first].kind}) to op ${t.end - 1} (${plan.ops[t.end - 1].kind})`]);
        return rect;
    };
    const aliveLine = (alive, scale) => svg('path', {class: 'alive', d: 'M' + alive.map((n, i) => `${LEFT + i * scale.x},${HEIGHT - n * scale.y}h${scale.x}`).join('L')});
    const axis = (most, scale) => [0, .25, .5, .75, 1].map((share) => {
        const y = HEIGHT - share * most * scale.y;
        return svg('g', {}, svg('path', {class: 'gridline', d: `M${LEFT},${y}H${WIDTH}`}), svg('text', {class: 'soft', x: LEFT - 6, y: y + 4, 'text-anchor': 'end'}, share ? bytes(share * most) : '0'));
    });
    // Parts of the step under the picture.
    const phases = (plan, scale) => step.phasesOf(plan.ops).map(({phase, first, n}) => [svg('path', {class: 'axis', d: `M${LEFT + first * scale.x},${HEIGHT}v5`}),
        svg('text', {class: 'soft', x: LEFT + first * scale.x + 3, y: HEIGHT + 15}, phase.length * 6 < scale.x * n ? phase : '')]);

    const cursors = [];
    const picture = (plan, mode, most) => {
        const scale = {x: (WIDTH - LEFT) / plan.ops.length, y: (HEIGHT - 12) / most};
        const start = arenaStarts(plan);
        const alive = aliveAt(plan);
        const blocks = plan.tensors.filter((t, i) => isRoot(plan, i) && isTransient(t.role) && t.end > t.first).map((t) => block(plan, t, scale, start));
        const cursor = svg('path', {class: 'cursor', d: ''});
        if (plan === step.plan) cursors.push({cursor, scale});
        const total = arenaBytes(plan, isTransient);
        const text = `Mode ${mode}: ${plan.ops.length} ops, activations and scratch packed into ${bytes(total)}; at most ${bytes(Math.max(...alive))} hold data at once.`;
        return make('figure', {}, make('h3', {}, `mode ${mode}`),
            svg('svg', {class: 'memory', viewBox: `0 0 ${WIDTH} ${HEIGHT + BOTTOM}`, role: 'img', 'aria-label': text}, axis(most, scale), blocks, aliveLine(alive, scale), phases(plan, scale), cursor),
            make('figcaption', {}, text + ' Each tensor is a rectangle: as long as it holds data, where it lies. Blue: activations; orange: their gradients; grey: scratch. The line: bytes that hold data.'));
    };

    const roleTable = (plans) => {
        const roles = [...new Set(plans.flatMap(({plan}) => plan.arenas.map((a) => a.role))), 'all'];
        const bytesOf = (role) => plans.map(({plan}) => arenaBytes(plan, (r) => role === 'all' || r === role)).map((n) => [bytes(n), n]);
        return page.grid('roles', ['memory for', ...plans.map(({mode}) => '#mode ' + mode)].join('|'), roles.map((role) => [role, ...bytesOf(role)]));
    };
    const tensorTable = ({plan, mode}) => make('details', {}, make('summary', {}, `every tensor of mode ${mode}: its lifetime and its place`),
        page.grid('lives-' + mode, 'tensor|for|#size|#from op|#to op|#arena|#at byte', plan.tensors.filter((t, i) => isRoot(plan, i) && t.end > t.first)
            .map((t) => [t.name, t.role, [bytes(t.bytes), t.bytes], t.first, t.end - 1, t.arena, [number(t.offset, 9), t.offset]])));

    const both = [{plan: data.plan, mode: walk.mode}, {plan: data.other, mode: data.other_mode}].sort((a, b) => (a.mode === 'naive' ? -1 : b.mode === 'naive' ? 1 : 0));
    const draw = () => {
        const most = Math.max(...both.map(({plan}) => arenaBytes(plan, isTransient)));
        return [make('div', {class: 'charts'}, ...both.map(({plan, mode}) => picture(plan, mode, most))), roleTable(both), ...both.map(tensorTable)];
    };
    const show = (i) => cursors.forEach(({cursor, scale}) => cursor.setAttribute('d', `M${LEFT + (i + .5) * scale.x},0V${HEIGHT}`));

    // --- naive next to fused ---
    // A fused op stands for the naive ops that give what it gives, and those whose results only they read and that are gone.
    const namesOf = (plan, list) => list.map((i) => plan.tensors[i].name);
    const sameKey = (plan, op) => `${op.kind}(${namesOf(plan, op.in)})(${namesOf(plan, op.out)})`;
    const readerOf = (plan, tensor, from) => plan.ops.findIndex((op, i) => i > from && op.in.includes(tensor));
    const standIn = (naive, fused, at) => {
        const writers = new Map();
        fused.ops.forEach((op, i) => namesOf(fused, op.out).forEach((name) => writers.set(op.phase + name, [...(writers.get(op.phase + name) || []), i])));
        for (let i = at, steps = 0; i >= 0 && steps < 6; steps++) {
            const op = naive.ops[i];
            const found = namesOf(naive, op.out).map((name) => writers.get(op.phase + name)).find(Boolean);
            if (found) return found[0];
            i = readerOf(naive, op.out[0], i);
        }
        return -1;
    };
    const groups = (naive, fused) => {
        const same = new Set(fused.ops.map((op) => sameKey(fused, op)));
        const found = new Map();
        naive.ops.forEach((op, i) => {
            if (same.has(sameKey(naive, op))) return;
            const into = standIn(naive, fused, i);
            found.set(into, [...(found.get(into) || []), i]);
        });
        return found;
    };
    const gone = (naive, fused) => {
        const there = new Set(fused.tensors.filter((t) => t.end > t.first).map((t) => t.name));
        return naive.tensors.filter((t, i) => isRoot(naive, i) && t.end > t.first && !there.has(t.name));
    };
    const groupRow = (naive, fused, into, from) => {
        const op = fused.ops[into];
        const names = (plan, i) => make('li', {}, make('code', {}, plan.ops[i].kind), ' → ' + namesOf(plan, plan.ops[i].out).join(', '));
        const lost = new Set(gone(naive, fused).map((t) => t.name));
        const vanished = from.flatMap((i) => namesOf(naive, naive.ops[i].out)).filter((name) => lost.has(name));
        return [op.layer < 0 ? '' : op.layer, make('ul', {class: 'plain'}, ...from.map((i) => names(naive, i))), make('ul', {class: 'plain'}, names(fused, into)), vanished.join(', ')];
    };
    const drawFusion = () => {
        const naive = both[0].plan, fused = both[both.length - 1].plan;
        const found = [...groups(naive, fused)].sort((a, b) => a[0] - b[0]);
        const lost = gone(naive, fused);
        const rows = found.filter(([into]) => into >= 0).map(([into, from]) => groupRow(naive, fused, into, from));
        const left = (found.find(([into]) => into < 0) || [0, []])[1];
        return [make('p', {}, `${naive.ops.length} ops became ${fused.ops.length}; ${lost.length} tensors of ${bytes(lost.reduce((n, t) => n + t.bytes, 0))} are gone: `, make('span', {class: 'soft'}, lost.map((t) => t.name).join(', '))),
            page.grid('fusion-table', '#block|naive|fused|gone', rows),
            left.length ? make('p', {class: 'soft'}, `Left out altogether: ${left.map((i) => `${naive.ops[i].kind} (${namesOf(naive, naive.ops[i].out)})`).join(', ')}.`) : null];
    };

    return {draw, drawFusion, show};
})();

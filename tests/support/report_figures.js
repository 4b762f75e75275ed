// report_figures.js PAGE NAME: what group.js makes of the data in a page, without a browser, is as the case NAME has it.
'use strict';
const assert = require('assert');
const fs = require('fs');
const path = require('path');

const root = path.join(__dirname, '..', '..');
const source = (...parts) => fs.readFileSync(path.join(root, ...parts), 'utf8');
const group = new Function(`${source('bench', 'pages', 'figure.js')}; ${source('bench', 'report', 'group.js')}; return group;`)();
const page = fs.readFileSync(process.argv[2], 'utf8');
const data = JSON.parse(page.match(/<script type="application\/json" id="page">(.*?)<\/script>/s)[1]);
const {entries, works, loops, figures} = group(data);

const made = (name) => figures[name]();
const bars = (figure) => figure.panels.flatMap((panel) => panel.bars);
const near = (value, wanted) => assert(Math.abs(value - wanted) <= 1e-6 * wanted, `${value} is not ${wanted}`);
const xs = (figure) => figure.panels.flatMap((panel) => panel.series.map((s) => s.points.map(([x]) => x)));

const CASES = {
    spoiled() {
        assert.equal(entries.length, 18);
        assert.equal(made('memory').panels[0].crosses.length, 1); // the row out of memory
        for (const name of Object.keys(figures)) made(name); // none of them throws
    },
    one() {
        assert.equal(made('threads').panels.length, 0);
        assert.deepEqual(xs(made('throughput')), [[1]]); // chart.js draws no panel of one point
        assert.equal(made('answer').panels[0].points.length, 1);
        assert.equal(bars(made('phases')).length, 1);
        assert.equal(made('loopFigures').length, 0);
    },
    two_devices() {
        assert.deepEqual(works.map(({name}) => name), ['small, 64 tokens, step']);
        assert.deepEqual([...new Set(entries.map(({series}) => series))], ['cpu naive', 'opencl:0.0 naive', 'cpu fused', 'opencl:0.0 fused']);
        const lines = made('throughput');
        assert.deepEqual(xs(lines), [[1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8], [1, 2, 4, 8]]);
        const [batch, rate, lo, hi, row] = lines.panels[0].series.find((s) => lines.series[s.series].name === 'cpu naive').points[2];
        assert.deepEqual([batch, row], [4, 8]);
        near(rate, 4 * 64 / (entries[8].row.median_ns * 1e-9));
        assert(lo < rate && rate < hi);
        const gain = made('gain'); // of fused, at each batch, next to naive of the same device
        assert.deepEqual(gain.series.map(({name}) => name).sort(), ['cpu fused', 'opencl:0.0 fused']);
        gain.panels[0].series.forEach((s) => s.points.forEach(([, times]) => assert(Math.abs(times - 1.4) < 1e-3, times)));
        const answer = made('answer').panels[0].points;
        assert.deepEqual(answer.map(({name, text}) => [name, text]), [['cpu', 'fused fp32, batch 8'], ['opencl:0.0', 'fused fp32, batch 8']]);
        const phases = bars(made('phases')); // of the largest batch that all have
        assert.deepEqual(phases.map(({row: index}) => index).sort((a, b) => a - b), [12, 13, 14, 15]);
        near(phases.find(({row: index}) => index === 12).parts[1], entries[12].row.phases.forward_ns * 1e-6);
        near(bars(made('warmup'))[0].parts[1], 0.4);
        assert.equal(made('spread').panels[0].rows.length, 4);
    },
    warmup() {
        assert.deepEqual(data.table.columns.filter(({varied}) => varied).map(({name}) => name), ['n_warmup']);
        assert.deepEqual(entries.map(({series}) => series), ['warm-up 0', 'warm-up 5', 'warm-up 10', 'warm-up 15']);
    },
    threads() {
        const lines = made('threads'), names = lines.series.map(({name}) => name), panel = lines.panels[0];
        assert.deepEqual(names.sort(), ['cpu fused batch 4', 'cpu naive batch 4', 'opencl:0.0 fused batch 4', 'opencl:0.0 naive batch 4']);
        panel.series.forEach((s) => assert.deepEqual(s.points.map(([n, rate]) => [n, rate]), [[1, 1000], [2, 2000], [4, 3000], [8, 4000]]));
        assert.deepEqual(panel.ideal, [[1, 1000], [8, 8000]]);
        const worth = made('threadEfficiency').panels[0];
        worth.series.forEach((s) => assert.deepEqual(s.points.map(([, share]) => share), [1, 1, 0.75, 0.5]));
        assert.deepEqual(worth.ideal, [[1, 1], [8, 1]]);
    },
    loops() {
        assert.deepEqual(loops.map(({row, baseline}) => [row, baseline]), [[0, null], [2, 0]]);
        const [first, second] = bars(made('loopFigures')[0]);
        assert.deepEqual([first.text, first.changes], ['baseline', undefined]);
        assert.equal(second.changes[3], '-90.0%');
        assert.deepEqual([second.parts[3], second.parts[5]], [5, 100]);
    },
    ladders() {
        const points = made('ladderFigure').panels[0].points;
        assert.deepEqual(points.map(({name, x}) => [name, x]), [['loops', 25], ['shipped', 50]]);
        near(points[0].lo, 100 / 4.1);
    },
    two_hosts() {
        assert.deepEqual(entries.slice(0, 2).map(({device}) => device), ['Some Chip of here', 'Some Chip of there']);
        entries.forEach(({colour, style}, i) => assert.deepEqual([colour, style], [1 + i % 2, Math.floor(i / 2) % 2]));
    },
    ceilings() {
        const {series, panels: [{roofs}]} = made('roofline');
        const names = series.map(({name}) => name);
        assert(names.includes('cpu t2 bf16: 800 GFLOP/s, 40 GB/s'), names);
        assert(names.includes('cpu t2 fp32: 200 GFLOP/s, 6.6 GB/s to 40 GB/s'), names);
        assert.deepEqual(roofs.map(({lines}) => lines.length > 1), [false, true]);
    },
    refused() {
        const points = made('answer').panels[0].points;
        assert.equal(points.find(({name}) => name === 'cpu').is_grey, true);
        assert.equal(points[0].name, 'opencl:0.0'); // ranked before one that is faster and refused
        assert(made('throughput').panels.flatMap((panel) => panel.series.flatMap((s) => s.points)).every(([, , , , row, isGrey]) => isGrey === (row === 0 || row === 2)));
    },
};
CASES[process.argv[3]]();

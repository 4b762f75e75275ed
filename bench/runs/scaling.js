// scaling.js: the page of scaling tables: speed-up, efficiency, a step's parts, the tables, the notes.
(() => {
    const {known, make, seriesOf, panel, point} = figures;
    const {has_verdict: hasVerdict, records, strong, weak, notes} = page.data('page');
    const KINDS = {measured: {}, predicted: {is_hollow: true, is_loose: true}, published: {}};

    const curves = (id, title, caption, label, isEfficiency) => {
        const figure = make('lines', id, title, `${caption} Bars: 95% intervals. Hollow points are the model's, not measured.`, {x: {label: 'processes', scale: 'log2'}, y: {label, scale: isEfficiency ? 'linear' : 'log2', from_zero: true}});
        const made = panel(figure), most = Math.max(...records.map((record) => record.n_processes));
        for (const [kind, more] of Object.entries(KINDS)) {
            for (const record of records.filter((one) => one.kind === kind)) {
                const isStrong = record.scaling === 'strong', n = isEfficiency ? record.n_processes : 1, half = record.speedup_half || 0;
                const name = kind === 'published' ? `published: ${record.on}, ${record.scaling}` : `${record.scaling}, ${kind}`;
                point(made, seriesOf(figure, name, kind === 'published' ? 2 : isStrong ? 1 : 3, kind === 'published' ? 2 : isStrong ? 0 : 1, more), [record.n_processes, record.speedup / n, (record.speedup - half) / n, (record.speedup + half) / n]);
            }
        }
        made.ideal = [[1, 1], [most, isEfficiency ? 1 : most]];
        return figure;
    };
    // Of the kind with more rows.
    const parts = () => {
        const own = records.filter(({kind}) => kind !== 'published'), of = (scaling) => own.filter((record) => record.scaling === scaling);
        const isStrong = of('strong').length > 1;
        const figure = make('stacks', 'parts', 'Where a step\'s time goes', `${isStrong ? 'Strong' : 'Weak'} scaling: the model's parts of a step; lines: steps that were measured.`, {x: {label: 'ms', scale: 'linear', unit: 'ms'}, mark_name: 'measured'});
        [['compute', 1], ['serial', 5], ['exposed communication', 2]].forEach(([name, colour]) => seriesOf(figure, name, colour));
        panel(figure).bars = of(isStrong ? 'strong' : 'weak').map((record) => ({name: `${record.n_processes} process${record.n_processes > 1 ? 'es' : ''}`, colour: 0, row: null,
            parts: [record.model_compute_s, record.model_serial_s, record.model_comm_s].map((seconds) => 1e3 * (seconds || 0)), mark: record.kind === 'measured' ? known(1e3 * record.step_s) : null}));
        return figure;
    };
    page.show(hasVerdict ? chart.charts(curves('speedup', 'Speed-up', 'Tokens per second over those of the fewest processes; the dashed line is ideal.', 'speed-up', false),
        curves('efficiency', 'Efficiency', 'Speed-up / processes; 1 is ideal.', 'efficiency', true), parts()) : null,
    page.section('strong', 'Strong scaling: the same work, shared by more processes', page.text(strong.shared), page.table('strong-table', strong)),
    page.section('weak', 'Weak scaling: the same work for each process', page.text(weak.shared), page.table('weak-table', weak)),
    page.section('reading', 'How to read this', page.items(notes)));
    chart.start();
})();

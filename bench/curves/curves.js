// curves.js: the page of trainings: their curves lie over each other.
(() => {
    const {make, seriesOf, panel, point} = figures;
    const {answer, warnings, curves, table} = page.data('page');
    const STEP = 0, TOKENS = 1, SECONDS = 2, LOSS = 3, NORM = 4, RATE = 5, SPEED = 6; // places in a point of a curve
    const isAlone = curves.length === 1;

    const draw = (id, title, caption, x, xLabel, y, yLabel, axis) => {
        const figure = make('lines', id, title, caption, {x: {label: xLabel, scale: 'linear'}, y: {label: yLabel, scale: 'linear', ...axis}}), made = panel(figure);
        curves.forEach((curve, k) => {
            curve.points.forEach((one) => point(made, seriesOf(figure, curve.name, k + 1, 0, {is_thin: true}), [one[x], one[y] ?? NaN]));
            if (y === LOSS) curve.validations.forEach((one) => point(made, seriesOf(figure, `${curve.name}, validation`, k + 1, k), [one[x], one[LOSS] ?? NaN]));
        });
        return figure;
    };
    const phases = () => {
        const figure = make('stacks', 'phases', 'Where does the time go?', 'Seconds of the whole training, start and end left out.', {x: {label: 'seconds', scale: 'linear', unit: 's'}});
        [['compute', 1], ['waiting for data', 5], ['communication', 2], ['validation', 3], ['checkpoints', 4]].forEach(([name, colour]) => seriesOf(figure, name, colour));
        panel(figure).bars = curves.map((curve, k) => ({name: curve.name, colour: k + 1, parts: curve.phases_s.map((seconds) => Math.max(0, seconds ?? 0)), mark: null, row: null}));
        return figure;
    };
    const pictures = chart.charts(
        draw('loss', 'Is it still learning?', 'Loss by step. Thin: of the training\'s own batches, means of neighbouring steps. With marks: validation.', STEP, 'step', LOSS, 'loss'),
        draw('loss-tokens', isAlone ? 'Loss by tokens' : 'Which learns most from a token?', 'The same by tokens read.', TOKENS, 'tokens', LOSS, 'loss'),
        draw('loss-time', isAlone ? 'Loss by time' : 'Which learns most in an hour?', 'The same by time: steps, validations and checkpoints.', SECONDS, 'seconds', LOSS, 'loss'),
        draw('norm', 'Is it stable?', 'Norm of the gradient before clipping, by step.', STEP, 'step', NORM, 'norm', {scale: 'auto'}),
        draw('rate', 'What was the learning rate?', 'Learning rate by step.', STEP, 'step', RATE, 'learning rate', {from_zero: true}),
        draw('speed', 'How fast is it?', 'Tokens per second by step, validations and checkpoints left out.', STEP, 'step', SPEED, 'tokens/s', {from_zero: true}), phases());

    // A row for each setting in which trainings differ; of one training for each setting.
    const flat = (object, before = '') => Object.entries(object || {}).flatMap(([name, value]) =>
        value && typeof value === 'object' && !Array.isArray(value) ? flat(value, before + name + '.') : [[before + name, JSON.stringify(value)]]);
    const settings = curves.map(({configuration}) => new Map(flat(configuration)));
    const names = [...new Set(settings.flatMap((one) => [...one.keys()]))].filter((name) => isAlone || new Set(settings.map((one) => one.get(name))).size > 1);
    const differing = page.grid(null, ['setting', ...curves.map(({name}) => name.replaceAll('|', ' '))].join('|'), names.map((name) => [name, ...settings.map((one) => one.get(name) ?? '')]));

    page.show(page.text(answer), page.items(warnings), pictures, page.section('runs', 'Runs', page.text(table.shared), page.table('runs-table', table)),
        page.section('samples', 'Samples', page.items(curves.flatMap(({name, samples}) => samples.map(([step, text]) => `${name}, step ${step}: ${text}`)))),
        page.section('settings', isAlone ? 'Settings' : 'Settings that differ', differing));
    chart.start();
})();

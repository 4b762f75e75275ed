// figure.js: makes the data of figures (chart.js); it needs no document.
const figures = (() => {
    const known = (value) => Number.isFinite(value) ? value : null;
    const make = (kind, id, title, caption, more) => ({kind, id, title, caption, series: [], panels: [], x: {label: '', scale: 'linear'}, ...more});
    // The number of the series of that name, which is added where there is none.
    const seriesOf = (figure, name, colour, style = 0, more = {}) => {
        const at = figure.series.findIndex((s) => s.name === name);
        return at >= 0 ? at : figure.series.push({name, colour, style, ...more}) - 1;
    };
    const panel = (figure, title = '') => {
        const made = {title, series: [], points: [], bars: [], rows: [], crosses: [], roofs: []};
        figure.panels.push(made);
        return made;
    };
    const point = (of, series, [x, y, lo, hi, row, isGrey]) => {
        if (!Number.isFinite(x) || !Number.isFinite(y)) return;
        let line = of.series.find((s) => s.series === series);
        if (!line) of.series.push(line = {series, points: []});
        line.points.push([x, y, known(lo), known(hi), row ?? null, Boolean(isGrey)]);
    };
    // Of bytes of which the largest is that many: [name, bytes].
    const byteUnit = (largest) => [['KiB', 2 ** 10], ['MiB', 2 ** 20], ['GiB', 2 ** 30]].findLast(([, bytes], i) => i === 0 || largest >= bytes);
    return {known, make, seriesOf, panel, point, byteUnit};
})();

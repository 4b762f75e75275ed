// step_heat.js: a tensor as a heat map: rows by columns, the value of a cell under the pointer or the keyboard's cursor.
// `heat` here.
const heat = (() => {
    const {make, number} = page;
    const MOST_COLS = 256; // of a vector, which is shown in lines

    // Rows and columns of a tensor: leading dimensions flattened; a long vector broken into lines.
    const layout = (dims) => {
        const n = step.count(dims);
        if (dims.length > 1) return {rows: n / dims[dims.length - 1], cols: dims[dims.length - 1]};
        return n <= MOST_COLS ? {rows: 1, cols: n} : {rows: Math.ceil(n / 128), cols: 128};
    };
    // "[0,1,3,2]": the place of element i in its tensor.
    const indexText = (dims, i) => `[${step.indicesOf(dims, i).join(',')}]`;

    const largest = (values) => values.reduce((most, x) => (isFinite(x) ? Math.max(most, Math.abs(x)) : most), 0);

    // From blue over the page's colour to red; the root makes small values visible.
    const palette = () => (page.isDark() ? {none: [25, 31, 38], less: [70, 160, 255], more: [255, 110, 80]}
        : {none: [255, 255, 255], less: [0, 80, 180], more: [185, 35, 15]});
    const paint = (pixels, at, x, scale, {none, less, more}) => {
        const share = scale > 0 && isFinite(x) ? Math.sqrt(Math.min(1, Math.abs(x) / scale)) : 0;
        const end = x < 0 ? less : more;
        for (let k = 0; k < 3; k++) pixels[at + k] = none[k] + (end[k] - none[k]) * share;
        pixels[at + 3] = 255;
    };

    const draw = (canvas, map) => {
        const {values, rows, cols, scale} = map;
        canvas.width = cols;
        canvas.height = rows;
        const context = canvas.getContext('2d');
        const image = context.createImageData(cols, rows);
        const colours = palette();
        for (let i = 0; i < values.length; i++) paint(image.data, 4 * i, values[i], scale, colours);
        context.putImageData(image, 0, 0);
    };

    const cellAt = (canvas, map, event) => {
        const box = canvas.getBoundingClientRect();
        const col = Math.min(map.cols - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * map.cols)));
        const rowAt = Math.min(map.rows - 1, Math.max(0, Math.floor((event.clientY - box.top) / box.height * map.rows)));
        return Math.min(rowAt * map.cols + col, map.values.length - 1);
    };
    const say = (map, i) => `${map.name}${map.place ? map.place(i) : indexText(map.dims, i)} = ${exact(map.values[i])}${map.describe ? ' · ' + map.describe(i) : ''}`;
    // As walk prints it.
    const exact = (x) => (Number.isInteger(x) ? String(x) : Number(x).toPrecision(7).replace(/\.?0+(e|$)/, '$1'));

    // Arrows move the cell.
    const moves = (map) => ({ArrowLeft: -1, ArrowRight: 1, ArrowUp: -map.cols, ArrowDown: map.cols, Home: -Infinity, End: Infinity});
    const listen = (canvas, map, readout) => {
        let cell = 0;
        const show = (i, x, y) => {
            cell = i;
            readout.textContent = say(map, i);
            page.showHint(() => say(map, i), x, y);
        };
        canvas.addEventListener('pointermove', (event) => show(cellAt(canvas, map, event), event.clientX, event.clientY));
        canvas.addEventListener('pointerleave', page.hideHint);
        if (map.pick) canvas.addEventListener('click', (event) => map.pick(cellAt(canvas, map, event)));
        canvas.addEventListener('blur', page.hideHint);
        canvas.addEventListener('keydown', (event) => {
            if (map.pick && event.key === 'Enter') { map.pick(cell); return; }
            const move = moves(map)[event.key];
            if (move === undefined) return;
            event.preventDefault();
            event.stopPropagation();
            const box = canvas.getBoundingClientRect();
            const next = Math.min(map.values.length - 1, Math.max(0, cell + move));
            show(next, box.left + (next % map.cols + .5) * box.width / map.cols, box.top + (Math.floor(next / map.cols) + .5) * box.height / map.rows);
        });
    };

    // Cells of at least one pixel, square where they fit; never wider than the page.
    const sizeOf = ({rows, cols}, most) => {
        const cell = Math.max(1, Math.min(16, Math.floor(most / cols), Math.max(2, Math.floor(320 / rows))));
        return `width:${cell * cols}px;max-width:100%;aspect-ratio:${cols}/${rows}`;
    };

    // {name, dims, values, describe, place, pick}: a canvas with its readout. Values are copied. place(i) is the text of
    // cell i's place where it is no element of dims; pick(i) is called when the cell is chosen.
    const make_map = (given, {most = 512, caption = null, scale = null} = {}) => {
        const map = {...given, ...layout(given.dims), values: given.values.slice()};
        map.scale = scale === null ? largest(map.values) : scale;
        if (map.scale === 0) return make('div', {class: 'heat-box'}, caption, make('p', {class: 'readout'}, `all ${number(map.values.length, 9)} values are 0`));
        const text = `${map.name}, ${map.dims.join(' by ')}: largest size ${number(map.scale)}`;
        const canvas = make('canvas', {class: 'heat', tabindex: 0, role: 'img', 'aria-label': text + '; arrow keys read its cells' + (map.pick ? ', Enter follows one' : ''), style: sizeOf(map, most)});
        const readout = make('output', {class: 'readout', 'aria-live': 'polite'});
        draw(canvas, map);
        listen(canvas, map, readout);
        painted.push(new WeakRef(Object.assign(canvas, {repaint: () => draw(canvas, map)})));
        return make('div', {class: 'heat-box'}, caption, canvas, readout);
    };
    const painted = [];
    const repaint = () => painted.forEach((reference) => reference.deref()?.repaint());
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', repaint);
    new MutationObserver(repaint).observe(document.documentElement, {attributes: true, attributeFilter: ['data-theme']});

    // --- every value, as a table of some rows at a time ---
    const ROWS_A_PAGE = 32, MOST_TABLE_COLS = 16;
    const table = (given) => {
        const map = {...given, ...layout(given.dims), values: given.values.slice()};
        const width = Math.min(map.cols, MOST_TABLE_COLS);
        const lines = Math.ceil(map.values.length / width);
        const body = make('tbody');
        const where = make('output', {'aria-live': 'polite'});
        const rowOf = (line) => make('tr', {}, make('th', {scope: 'row'}, indexText(map.dims, line * width)),
            ...Array.from(map.values.subarray(line * width, (line + 1) * width), (x) => make('td', {class: 'n'}, exact(x))));
        let first = 0;
        const turn = (by) => {
            first = Math.max(0, Math.min(Math.floor((lines - 1) / ROWS_A_PAGE) * ROWS_A_PAGE, first + by));
            const n = Math.min(lines - first, ROWS_A_PAGE);
            body.replaceChildren(...Array.from({length: n}, (_, k) => rowOf(first + k)));
            where.textContent = `lines ${first + 1} to ${first + n} of ${lines}`;
        };
        turn(0);
        const tools = map.values.length > ROWS_A_PAGE * MOST_TABLE_COLS
            ? make('div', {class: 'tools'}, make('button', {type: 'button', onclick: () => turn(-ROWS_A_PAGE)}, 'back'),
                make('button', {type: 'button', onclick: () => turn(ROWS_A_PAGE)}, 'on'), where) : null;
        return make('div', {}, tools, make('div', {class: 'wide'}, make('table', {class: 'values'}, make('caption', {}, map.name), body)));
    };

    return {make: make_map, table, exact, indexText, largest};
})();

// leaderboard_view.js: the leaderboard's table filters, its pictures follow, and a point tells its line of the table.
(() => {
    const table = document.querySelector('#board table');
    if (!table) return;
    const lines = [...table.tBodies[0].rows];
    const byRow = new Map(lines.map((line) => [Number(line.dataset.row), line]));
    const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
    chart.rows.isShown = (index) => !byRow.get(index)?.hidden;
    chart.rows.describe = (index) => {
        const line = byRow.get(index);
        return line ? [page.facts([...line.cells].map((cell, i) => [heads[i], cell.textContent]))] : [];
    };
    chart.rows.open = (index) => {
        const line = byRow.get(index);
        line?.scrollIntoView({block: 'center'});
        line?.animate([{backgroundColor: 'var(--warn)'}, {}], 1500);
    };
    page.filters(table, chart.redrawSoon);
})();

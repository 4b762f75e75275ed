// judged.js: the page of kernels that were judged: how many are right, and the table, which sorts by a click.
(() => {
    const of = page.data('page');
    const right = of.columns.findIndex(({name}) => name === 'right');
    const n = of.rows.filter((cells) => [].concat(cells[right])[0] === 'yes').length;
    page.show(page.text(`${n} of ${of.rows.length} are right. Times compare within this machine and this run.`), page.text(of.shared), page.table('judged', of));
})();

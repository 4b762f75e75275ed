// reload.js: a page that is written again loads itself again, and returns to its place. A hidden page waits.
history.scrollRestoration = 'manual';
document.documentElement.style.overflowAnchor = 'none'; // figures grow while they are drawn
addEventListener('load', () => scrollTo(0, Number(sessionStorage.getItem('place'))));
setInterval(() => {
    if (document.hidden || document.querySelector('dialog[open]')) return;
    sessionStorage.setItem('place', scrollY);
    location.reload();
}, 5000);

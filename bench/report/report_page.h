// report_page.h: the style of the report's page. Two palettes: what is drawn names a role (ink,
// grid, series 1 to 8), and the reader's colour scheme says which colour that is; on paper, light.
#ifndef STEPMARK_REPORT_PAGE_H
#define STEPMARK_REPORT_PAGE_H

static const char report_page_style[] =
    ":root{--page:#fff;--ink:#1b1f24;--soft:#57606a;--grid:#c9d1d9;--band:#f3f5f7;--bad:#b3261e;"
    "--s1:#0063b1;--s2:#c1440e;--s3:#1b7f4b;--s4:#8f3fa8;--s5:#9a6b00;--s6:#00808a;--s7:#c2185b;--s8:#5b6470}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#12161b;--ink:#e4e8ec;--soft:#9aa4af;--grid:#3a434d;"
    "--band:#1c2229;--bad:#ff8a80;--s1:#5db2ff;--s2:#ff9157;--s3:#58cf8f;--s4:#d59aec;--s5:#e0b040;--s6:#45cfd9;"
    "--s7:#ff7fab;--s8:#aeb8c2}}\n"
    "html{color-scheme:light dark}*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1rem;max-width:72rem;background:var(--page);color:var(--ink);"
    "font:16px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}\n"
    "h1{font-size:1.7rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.3rem;margin:2.2rem 0 .5rem;"
    "border-bottom:1px solid var(--grid)}h3{font-size:1.05rem;margin:1.4rem 0 .3rem}\n"
    "p{margin:.4rem 0;max-width:60rem}nav{margin:.8rem 0;color:var(--soft)}a{color:var(--s1)}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr));gap:1rem}\n"
    "figure{margin:0;padding:.5rem;border:1px solid var(--grid);border-radius:.4rem;min-width:0}"
    "figcaption{color:var(--soft);font-size:.88rem}\n"
    "svg{display:block;width:100%;max-width:42rem;height:auto;margin:auto;color:var(--ink)}svg "
    "g[color=black]{color:var(--ink)}\n"
    ".wide{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;font-size:.88rem;"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.25rem .6rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}"
    "td{overflow-wrap:normal}th{white-space:nowrap}td:not(.n){min-width:6.5rem}.n{text-align:right;white-space:nowrap}"
    "tbody tr:nth-child(even){background:var(--band)}\n"
    "summary{cursor:pointer;color:var(--s1)}li{margin:.2rem 0}\n"
    "@media print{:root{--page:#fff;--ink:#000;--soft:#333;--grid:#bbb;--band:#f3f3f3;--bad:#900;--s1:#0063b1;"
    "--s2:#c1440e;--s3:#1b7f4b;--s4:#8f3fa8;--s5:#9a6b00;--s6:#00808a;--s7:#c2185b;--s8:#5b6470}\n"
    "figure,tr{break-inside:avoid}h2,h3{break-after:avoid}nav{display:none}body{max-width:none;padding:0}"
    ".figures{display:block}figure{margin:0 0 1rem}.wide{overflow:visible}table{font-size:.68rem}"
    "th,td{padding:.15rem .3rem}th{white-space:normal}td:not(.n){min-width:0}}\n";

#endif

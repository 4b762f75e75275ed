// page.h: the common parts of every page of this program: one file, offline, one style (pages/page.css) and one base of
// script (pages/page.js: tables that sort and filter, hints, downloads). All that is text goes through here and is
// escaped, so that nothing that was read can become markup.
//
// Pages of results draw themselves (sm_page_write): C writes data and texts, which a script finds as page.data('page'),
// and groups, sorts and draws with pages/chart.js. Other pages put their own elements between sm_page_begin and
// sm_page_end.
//
// A file *.css or *.js of bench or learn is embedded by the build; its name says which it is. A page may fetch nothing:
// its content security policy refuses everything outside of it.
#pragma once

#include "bench/tables/table.h"

// `styles` and `scripts`: names of embedded files, ending with NULL; NULL: only the base's.
void sm_page_begin(FILE *out, const char *title, const char *const *styles);
void sm_page_end(FILE *out, const char *const *scripts);

// Control characters become spaces; bytes that are not UTF-8 (also from truncation) become '?'.
void sm_page_text(FILE *out, const char *text);

// Takes `data` over. SM_PAGE_RELOADS makes the page load itself again after some seconds.
enum { SM_PAGE_RELOADS = 1 };
void sm_page_write(FILE *out, const char *title, const char *const scripts[2], unsigned how, json_t *data);

// {columns: [{name, heading, about, part, number, varied, rank}], shared: "All rows: mode fused", rows: [[cell, ...],
// ...]}. A cell is a text; of a number [text, value]. part: of a row's identity (bench/rows/identity.h).
json_t *sm_page_table(const sm_table *table, const json_t *records);

// A <script type="application/json" id="...">; no text can end the element.
void sm_page_json(FILE *out, const char *id, const json_t *value);

// figure.c: see pages/figure.h.
#include "bench/pages/figure.h"

#include <string.h>

#include "bench/pages/page.h"
#include "bench/tables/json_values.h"

sm_status sm_figures_open(sm_figures *figures) {
    *figures = (sm_figures){.list = json_array()};
    return figures->list != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for figures");
}

void sm_figures_free(sm_figures *figures) {
    json_decref(figures->list);
    figures->list = NULL;
}

sm_status sm_figures_write(const sm_figures *figures, FILE *out) {
    return figures->failed ? sm_fail(SM_ERR_OOM, "no memory for figures") : sm_page_json(out, "figures", figures->list);
}

void sm_figure_set(sm_figures *figures, json_t *object, const char *name, json_t *value) {
    figures->failed |= json_object_set_new(object, name, value) != 0;
}

void sm_figure_append(sm_figures *figures, json_t *object, const char *array, json_t *value) {
    json_t *values = json_object_get(object, array);
    if (values == NULL) {
        values = json_array();
        sm_figure_set(figures, object, array, values);
    }
    figures->failed |= json_array_append_new(json_object_get(object, array), value) != 0;
}

json_t *sm_figure_add(sm_figures *figures, const char *kind, const char *id, const char *title, const char *caption) {
    json_t *figure = json_pack("{s:s, s:s, s:s, s:s, s:[], s:[]}", "kind", kind, "id", id, "title", title, "caption",
                               caption, "series", "panels");
    figures->failed |= json_array_append_new(figures->list, figure) != 0;
    return figures->failed ? NULL : figure;
}

json_t *sm_figure_axis(sm_figures *figures, json_t *figure, const char *axis, const char *label, const char *scale) {
    json_t *a = json_pack("{s:s, s:s}", "label", label, "scale", scale);
    sm_figure_set(figures, figure, axis, a);
    return figures->failed ? NULL : a;
}

json_t *sm_figure_panel(sm_figures *figures, json_t *figure, const char *title) {
    json_t *panel = json_pack("{s:o}", "title", sm_json_bytes(title));
    sm_figure_append(figures, figure, "panels", panel);
    return figures->failed ? NULL : panel;
}

int sm_figure_series(sm_figures *figures, json_t *figure, const char *name, int colour, int style) {
    const json_t *all = json_object_get(figure, "series");
    int n = (int)json_array_size(all);
    for (int i = 0; i < n; i++) {
        const char *other = json_string_value(json_object_get(json_array_get(all, (size_t)i), "name"));
        if (other != NULL && strcmp(other, name) == 0) {
            return i;
        }
    }
    json_t *series = json_pack("{s:o, s:i, s:i}", "name", sm_json_bytes(name), "colour", colour, "style", style);
    sm_figure_append(figures, figure, "series", series);
    return n;
}

static json_t *find_points(sm_figures *figures, json_t *panel, int series) {
    size_t i;
    json_t *entry;
    json_array_foreach(json_object_get(panel, "series"), i, entry) {
        if (json_integer_value(json_object_get(entry, "series")) == series) {
            return entry;
        }
    }
    entry = json_pack("{s:i, s:[]}", "series", series, "points");
    sm_figure_append(figures, panel, "series", entry);
    return figures->failed ? NULL : entry;
}

static json_t *row_number(int row) { return row != SM_NO_ROW ? json_integer(row) : json_null(); }

void sm_figure_add_point(sm_figures *figures, json_t *panel, int series, const sm_figure_point *point) {
    json_t *entry = find_points(figures, panel, series);
    sm_figure_append(figures, entry, "points",
                     json_pack("[o, o, o, o, o]", sm_json_real(point->x), sm_json_real(point->y),
                               sm_json_real(point->lo), sm_json_real(point->hi), row_number(point->row)));
}

// Of what a panel draws: its points, where it has series of them; of lines, in those that join any.
static size_t count_of(const json_t *panel, const char *array) {
    const json_t *values = json_object_get(panel, array);
    size_t i;
    json_t *entry;
    size_t n = 0;
    if (strcmp(array, "series") != 0) {
        return json_array_size(values);
    }
    json_array_foreach((json_t *)values, i, entry) {
        size_t points = json_array_size(json_object_get(entry, "points"));
        n = points > n ? points : n;
    }
    return n;
}

void sm_figure_close(sm_figures *figures, json_t *figure, const char *array, size_t fewest) {
    json_t *panels = json_object_get(figure, "panels");
    for (size_t i = json_array_size(panels); i-- > 0;) {
        if (count_of(json_array_get(panels, i), array) < fewest) {
            json_array_remove(panels, i);
        }
    }
    size_t last = json_array_size(figures->list);
    if (figure != NULL && json_array_size(panels) == 0 && last > 0 &&
        json_array_get(figures->list, last - 1) == figure) {
        json_array_remove(figures->list, last - 1);
    }
}

double sm_figure_byte_unit(double largest_bytes, const char **unit) {
    static const char *const units[] = {"KiB", "MiB", "GiB"};
    double size_bytes = 1024;
    int i = 0;
    while (i < 2 && largest_bytes >= 1024 * size_bytes) {
        size_bytes *= 1024;
        i++;
    }
    *unit = units[i];
    return size_bytes;
}

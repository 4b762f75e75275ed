#include "bench/compare/compare.h"

sm_status sm_costs_add(sm_costs *costs, const char *text) {
    const char *equals = strrchr(text, '=');
    char *end = NULL;
    const size_t length = equals != NULL ? (size_t)(equals - text) : 0;
    const double per_hour = equals != NULL ? strtod(equals + 1, &end) : 0;
    const char *slash = end != NULL ? strchr(end, '/') : NULL;
    const size_t n_currency = slash != NULL ? (size_t)(slash - end) : sizeof costs->prices[0].currency;
    SM_FAIL_IF(
        length == 0 || length >= SM_PRICE_NAME_SIZE || end == equals + 1 || !(per_hour > 0) || !isfinite(per_hour) ||
            slash == NULL || strcmp(slash, "/h") != 0 || n_currency >= sizeof costs->prices[0].currency,
        SM_ERR_USAGE, "--price: '%s'; give NAME=PRICE/h, for instance \"H100=2.49/h\" or \"EPYC=0.40EUR/h\"", text);
    SM_FAIL_IF(costs->n == SM_MOST_PRICES, SM_ERR_USAGE, "--price: more than %d prices", SM_MOST_PRICES);
    sm_price *price = &costs->prices[costs->n++];
    *price = (sm_price){.per_hour = per_hour};
    memcpy(price->name, text, length);
    memcpy(price->currency, end, n_currency);
    return SM_OK;
}

// The first price whose name the row's processor, card, host or device has, in whatever case; NULL: none.
static const sm_price *find(const sm_costs *costs, const json_t *row) {
    static const char *const fields[] = {"gpu_info", "cpu_info", "machine", "host", "context.host", "device"};
    const bool has_card = sm_rows_has(row, "gpu_info");
    for (int i = 0; costs != NULL && i < costs->n; i++) {
        for (size_t k = 0; k < SM_COUNT(fields); k++) {
            if (!(has_card && k == 1) && strcasestr(sm_rows_text(row, fields[k]), costs->prices[i].name) != NULL) {
                return &costs->prices[i]; // a card is not rented by its host's processor
            }
        }
    }
    return NULL;
}

const char *sm_costs_text(const sm_costs *costs, const json_t *row, double tokens_per_s, char text[SM_COST_TEXT_SIZE]) {
    const sm_price *price = find(costs, row);
    text[0] = '\0';
    if (costs == NULL || !(tokens_per_s > 0)) {
        return text;
    }
    const double seconds = costs->train_tokens / tokens_per_s;
    if (costs->train_tokens > 0) {
        const char *time = seconds < 3600        ? SM_TEXT_IN(32, "%.3g min", seconds / 60)
                           : seconds < 48 * 3600 ? SM_TEXT_IN(32, "%.3g h", seconds / 3600)
                                                 : SM_TEXT_IN(32, "%.0f days", seconds / 86400);
        snprintf(text, SM_COST_TEXT_SIZE, "%s tokens take %s", SM_TEXT_COUNT(costs->train_tokens), time);
        if (price != NULL) {
            sm_append(text, SM_COST_TEXT_SIZE, " and cost %.2f%s%s", seconds / 3600 * price->per_hour,
                      price->currency[0] != '\0' ? " " : "", price->currency);
        }
    }
    if (price != NULL) {
        const double millions = tokens_per_s * 3600 / price->per_hour / 1e6;
        sm_append_part(text, SM_COST_TEXT_SIZE, "; ",
                       millions >= 100 ? SM_TEXT_COUNT(round(millions)) : SM_TEXT_IN(32, "%.3g", millions));
        sm_append(text, SM_COST_TEXT_SIZE, " million tokens for 1 %s",
                  price->currency[0] != '\0' ? price->currency : "unit of the price");
    }
    return text;
}

// costs.h: what a measured speed costs, by prices that the user gives: tokens for a unit of currency, and the time and
// money that a training of N tokens takes. No price is known to the program.
#ifndef STEPMARK_BENCH_COMPARE_COSTS_H
#define STEPMARK_BENCH_COMPARE_COSTS_H

#include <jansson.h>

#include "status.h"

enum { SM_MOST_PRICES = 32, SM_PRICE_NAME_SIZE = 64, SM_COST_TEXT_SIZE = 192 };

typedef struct {
    char name[SM_PRICE_NAME_SIZE]; // a part of the name of a processor, card, host or device
    double per_hour;
    char currency[8]; // "": not named
} sm_price;

typedef struct {
    sm_price prices[SM_MOST_PRICES];
    int n;
    double train_tokens; // 0: not asked for
} sm_costs;

// Adds "H100=2.49/h" or "EPYC=0.40EUR/h". SM_ERR_USAGE says what is wrong.
sm_status sm_costs_add(sm_costs *costs, const char *text);

// "10,000,000,000 tokens take 3.2 h and cost 8.01 EUR; 1,249 million tokens for 1 EUR"; "": nothing is known. `costs`
// may be NULL.
void sm_costs_text(const sm_costs *costs, const json_t *row, double tokens_per_s, char text[SM_COST_TEXT_SIZE]);

#endif

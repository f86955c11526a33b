/* Results as JSON: what fio has, by its names, and what it does not have in objects "iobench". */
#ifndef ANDROSTEP_IOBENCH_REPORT_JSON_H
#define ANDROSTEP_IOBENCH_REPORT_JSON_H

#include "common/json.h"
#include "iobench/report/results.h"

/* json.c: an object like fio's lat_ns; none where nothing was counted. `bins`: with the histogram. */
void json_latency(struct json *json, const char *key, const struct hist *hist, bool bins);

/* json_iobench.c: of one repetition; of all. `command` is the command line. */
void json_iobench(struct json *json, const struct bench_result *result, const char *command);
void json_invocation(struct json *json, const struct bench_results *results, const char *command);

#endif

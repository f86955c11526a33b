#include "iobench/bench.h"

#define ADDRESS(engine) &(engine),
static const struct bench_engine *const engines[] = {BENCH_ENGINES(ADDRESS)};
#define NR_ENGINES (sizeof engines / sizeof *engines)

const struct bench_engine *bench_engine_find(enum bench_workload workload, const char *name)
{
    for (size_t index = 0; index < NR_ENGINES; index++)
        if (engines[index]->workload == workload && (!name || !strcmp(engines[index]->name, name)))
            return engines[index];
    return NULL;
}

void bench_engine_names(enum bench_workload workload, char names[BENCH_NAMES])
{
    *names = '\0';
    for (size_t index = 0; index < NR_ENGINES; index++) {
        size_t length = strlen(names);
        if (engines[index]->workload == workload)
            snprintf(names + length, BENCH_NAMES - length, "%s%s", length ? ", " : "", engines[index]->name);
    }
}

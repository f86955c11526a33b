#include <inttypes.h>

#include "ioreplay/results.h"

static void print_divergences(FILE *out, const struct replay_tally *tally)
{
    const char *comma = " (";

    fprintf(out, ", %" PRId64 " diverged", tally->diverged);
    for (int kind = DIVERGENCE_UNKNOWN; kind < REPLAY_DIVERGENCES; kind++)
        if (tally->divergences[kind]) {
            fprintf(out, "%s%s %" PRId64, comma, replay_divergence_names[kind], tally->divergences[kind]);
            comma = ", ";
        }
    fputs(*comma == ',' ? ")\n" : "\n", out);
}

int replay_print(FILE *out, const struct replay_report *report)
{
    const struct replay_run *run = report->run;
    const struct replay_tally *tally = &report->tally;

    fprintf(out, "%.3f s (recorded %.3f s)%s, %" PRId64 " of %" PRId64 " operations done by %" PRIu32 " threads",
            (double)run->duration_ns / 1e9, (double)run->program->duration_ns / 1e9,
            run->interrupted ? ", a signal ended it early" : "", tally->done, tally->operations,
            run->program->nr_threads);
    print_divergences(out, tally);
    return fflush(out) || ferror(out) ? -1 : 0;
}

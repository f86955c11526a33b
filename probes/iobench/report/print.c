/* One line for each repetition, for users who run iobench by hand. Everything else is in the records. */
#include "common/utf8.h"
#include "common/words.h"
#include "iobench/bench.h"

static void print_text(FILE *out, const char *before, const char *text, const char *after)
{
    if (!text[0])
        return;
    fputs(before, out);
    utf8_print(out, text);
    fputs(after, out);
}

int result_print(FILE *out, const struct bench_result *result)
{
    const struct hist *latencies = &result->parts[PART_OP].latency_ns;
    char bandwidth[WORDS_SIZE], mean[WORDS_SIZE], most[WORDS_SIZE];
    words_bytes(result->bytes_per_second, bandwidth);
    words_time(latencies->count ? (double)latencies->sum / (double)latencies->count : 0, mean);
    words_time((double)latencies->most, most);
    fprintf(out, "%.*f ops/s, %s/s, latency mean %s, max %s, cache %s: %s", result->iops < 1000, result->iops,
            bandwidth, mean, most, cache_states[result->run->cache.state], bench_test(result->job));
    print_text(out, ", ", result->storage->filesystem, "");
    print_text(out, " on ", result->storage->device, "");
    print_text(out, " (", result->storage->model, ")");
    print_text(out, ", ", result->job->filename ? result->job->filename : result->job->directory, "\n");
    print_text(out, "*** INVALID: ", result->run->invalid, "\n");
    return fflush(out) || ferror(out) ? -1 : 0;
}

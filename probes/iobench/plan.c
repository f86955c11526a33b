#define _GNU_SOURCE
#include "iobench/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/complain.h"
#include "iobench/arguments.h"

#define MOST_POINTS 10000

int plan_help(FILE *out)
{
    return opts_help(out, &arguments_table, "iobench");
}

static int make_sweep(struct bench_plan *plan, const char *text)
{
    struct sweep *sweep = &plan->sweeps[plan->nr_sweeps++];

    if (sweep_parse(sweep, &arguments_table, text))
        return -1;
    if (!arguments_of_job(sweep->opt))
        return complain("--sweep %s: this is the same for all measurements", sweep->opt->name);
    if (arguments_have(sweep->opt))
        return complain("--%s is swept: do not give it alone as well", sweep->opt->name);
    for (const struct sweep *other = plan->sweeps; other < sweep; other++)
        if (other->opt == sweep->opt)
            return complain("--sweep %s is there twice: give all values at once", sweep->opt->name);
    if (plan->nr_jobs > MOST_POINTS / sweep->count)
        return complain("--sweep: more than %d measurements; sweep fewer values", MOST_POINTS);
    plan->nr_jobs *= sweep->count;
    return 0;
}

static int make_sweeps(struct bench_plan *plan, const struct opt_list *list)
{
    plan->sweeps = calloc(list->count + 1, sizeof *plan->sweeps);
    if (!plan->sweeps)
        return complain("--sweep: no memory");
    plan->nr_jobs = 1;
    for (size_t index = 0; index < list->count; index++)
        if (make_sweep(plan, list->items[index]))
            return -1;
    return 0;
}

/* The word of each sweep at a point: the last sweep runs fastest. */
static void words_at(const struct bench_plan *plan, int point, char **words)
{
    for (int index = plan->nr_sweeps; index-- > 0;) {
        words[index] = plan->sweeps[index].words[point % plan->sweeps[index].count];
        point /= plan->sweeps[index].count;
    }
}

static int name_job(struct bench_job *job, char **words, int nr_words)
{
    char *name = strdup(bench_test(job));

    for (int index = 0; name && index < nr_words; index++) {
        char *longer;

        if (asprintf(&longer, "%s %s", name, words[index] + strlen("--")) < 0)
            longer = NULL;
        free(name);
        name = longer;
    }
    job->name = name;
    return name ? 0 : complain("no memory for the measurements");
}

static int make_job(struct bench_plan *plan, int point, int argc, char **argv)
{
    struct bench_job *job = &plan->jobs[point];
    char **words = calloc((size_t)(argc + plan->nr_sweeps) + 1, sizeof *words);
    struct arguments arguments;
    int failed;

    if (!words)
        return complain("no memory for the measurements");
    memcpy(words, argv, (size_t)argc * sizeof *words);
    words_at(plan, point, words + argc);
    failed = arguments_parse(&arguments, argc + plan->nr_sweeps, words) || job_make(job, &arguments) ||
             name_job(job, words + argc, plan->nr_sweeps) || job_check(job, &arguments);
    free(words);
    return failed ? -1 : 0;
}

static void take_plan(struct bench_plan *plan, const struct arguments *arguments)
{
    plan->output = given(arguments->output) ? (enum bench_output)arguments->output : OUTPUT_HUMAN;
    plan->record = arguments->record;
    plan->latency_log = arguments->latency_log;
    plan->iops_log = arguments->iops_log;
    plan->to_fio = arguments->to_fio;
    plan->describe = arguments->describe;
    plan->help = arguments->help;
    plan->version = arguments->version;
    plan->quiet = arguments->quiet;
}

static int make_plan(struct bench_plan *plan, int argc, char **argv)
{
    struct arguments arguments;

    if (argc < 2)
        return complain("say what to measure: `iobench file` measures with the defaults; --help tells more");
    if (arguments_parse(&arguments, argc, argv))
        return -1;
    take_plan(plan, &arguments);
    if (plan->help || plan->describe || plan->version)
        return 0;
    if (make_sweeps(plan, &arguments.sweeps))
        return -1;
    plan->jobs = calloc((size_t)plan->nr_jobs, sizeof *plan->jobs);
    if (!plan->jobs)
        return complain("no memory for the measurements");
    for (int point = 0; point < plan->nr_jobs; point++)
        if (make_job(plan, point, argc, argv))
            return -1;
    return 0;
}

int plan_parse(struct bench_plan *plan, int argc, char **argv)
{
    int failed;

    *plan = (struct bench_plan){0};
    failed = make_plan(plan, argc, argv);
    arguments_forget();
    return failed;
}

void plan_free(struct bench_plan *plan)
{
    for (int index = 0; plan->jobs && index < plan->nr_jobs; index++)
        free((char *)plan->jobs[index].name);
    for (int index = 0; index < plan->nr_sweeps; index++)
        sweep_free(&plan->sweeps[index]);
    free(plan->jobs);
    free(plan->sweeps);
    *plan = (struct bench_plan){0};
}

#include "pagecache/modifier.h"

static const int64_t UNKNOWN_PROCESSES = -((int64_t)1 << 40);

// The touches of an interval that determine its modifier, or NULL.
struct summary {
    const struct touch *last_write;
    const struct touch *first_modification; // a write or store
    const struct touch *last_modification;
    const struct touch *last_dirty;
    const struct touch *first_process_dirty; // by a process, not by a kernel thread
    const struct touch *last_process_dirty;
    bool has_maybe;
    bool has_unknown_modifier;
    bool is_within_write;
};

static bool is_unknown(const struct evaluator *evaluator, const struct touch *touch)
{
    return evaluator->threads[touch->thread].process == NO_INT64;
}

// Return the process; each event of an unknown thread counts as another process.
static int64_t process_of(const struct evaluator *evaluator, const struct touch *touch)
{
    if (is_unknown(evaluator, touch))
        return UNKNOWN_PROCESSES - (int64_t)touch->event;
    return evaluator->threads[touch->thread].process;
}

static bool is_kernel(const struct evaluator *evaluator, const struct touch *touch)
{
    return evaluator->threads[touch->thread].is_kernel;
}

static bool add_modification(struct evaluator *evaluator, struct summary *summary, const struct touch *touch)
{
    if (touch->kind == TOUCH_WRITE)
        summary->last_write = touch;
    if (!summary->first_modification)
        summary->first_modification = touch;
    summary->last_modification = touch;
    summary->has_unknown_modifier |= is_unknown(evaluator, touch);
    return add_process(&evaluator->modifiers, process_of(evaluator, touch));
}

static bool add_dirtying(struct evaluator *evaluator, struct summary *summary, const struct touch *touch)
{
    summary->last_dirty = touch;
    if (is_kernel(evaluator, touch))
        return true;
    if (!summary->first_process_dirty)
        summary->first_process_dirty = touch;
    summary->last_process_dirty = touch;
    summary->is_within_write |= touch->is_within_write;
    return add_process(&evaluator->dirtiers, process_of(evaluator, touch));
}

static bool summarize(struct evaluator *evaluator, struct summary *summary, const struct touches *touches)
{
    evaluator->modifiers.count = evaluator->dirtiers.count = 0;
    for (size_t at = 0; at < touches->count; at++) {
        const struct touch *touch = &touches->touches[at];

        summary->has_maybe |= touch->kind == TOUCH_MAYBE;
        if (is_modification(touch) && !add_modification(evaluator, summary, touch))
            return false;
        if (touch->kind == TOUCH_DIRTY && !add_dirtying(evaluator, summary, touch))
            return false;
    }
    return true;
}

// Kernel threads move data of others: any process takes precedence over them.
static const struct touch *choose_modifier(const struct summary *summary)
{
    if (summary->last_write)
        return summary->last_write;
    if (summary->last_modification)
        return summary->last_modification;
    return summary->last_process_dirty ? summary->last_process_dirty : summary->last_dirty;
}

// Return whether the first modifier dirtied the page by its first modification, so that the page was clean before.
static bool was_clean_before(const struct evaluator *evaluator, const struct summary *summary)
{
    const struct touch *first = summary->first_modification, *dirty = summary->first_process_dirty;

    return first && dirty && first <= dirty && process_of(evaluator, first) == process_of(evaluator, dirty);
}

static bool have_all_modified(const struct evaluator *evaluator)
{
    for (size_t at = 0; at < evaluator->dirtiers.count; at++)
        if (!has_process(&evaluator->modifiers, evaluator->dirtiers.processes[at]))
            return false;
    return true;
}

// Return whether all modifiers are known, provided that every event is recorded.
static bool is_complete(const struct evaluator *evaluator, const struct summary *summary)
{
    if (summary->has_maybe || summary->has_unknown_modifier)
        return false;
    return was_clean_before(evaluator, summary) && have_all_modified(evaluator);
}

// Return whether another process than the modifier dirtied the page after the last write or store.
static bool is_dirtied_by_other(const struct evaluator *evaluator, const struct summary *summary)
{
    if (!summary->last_modification || !summary->last_process_dirty)
        return false;
    return summary->last_process_dirty > summary->last_modification &&
           process_of(evaluator, summary->last_dirty) != process_of(evaluator, choose_modifier(summary));
}

// When a clean page becomes dirty, earlier modifications have been written back, or their writeback is in flight. The
// same holds for a process that dirtied the page before a kernel thread did. If dirtying is not recorded, the page may
// have become dirty at any time before the writeback.
static void set_doubt_times(const struct evaluator *evaluator, const struct summary *summary,
                            const struct touches *touches, bool records_dirty, const struct writeback *writeback,
                            struct dirty_interval *interval)
{
    const struct touch *last = records_dirty ? summary->last_dirty : touches->touches + touches->count, *end = last;
    bool is_moved = summary->last_dirty && is_kernel(evaluator, summary->last_dirty) && summary->last_process_dirty &&
                    !summary->last_modification;
    size_t others = evaluator->modifiers.count, most = records_dirty ? 0 : 1;
    int64_t last_process = writeback->tid == NO_INT32 ? NO_INT64 : -(int64_t)writeback->tid;

    if (summary->last_dirty)
        others -= has_process(&evaluator->modifiers, process_of(evaluator, summary->last_dirty));
    if ((others <= most && !is_moved) || !last)
        return;
    if (records_dirty)
        last_process = process_of(evaluator, last);
    for (const struct touch *touch = touches->touches; touch < last; touch++)
        if (is_modification(touch) && last_process != NO_INT64 && process_of(evaluator, touch) == last_process)
            end = touch;
    for (const struct touch *touch = touches->touches; touch < end; touch++) {
        bool is_early =
            is_modification(touch) || (is_moved && touch->kind == TOUCH_DIRTY && !is_kernel(evaluator, touch));

        if (is_early && (interval->doubt_begin_ns == NO_INT64 || touch->ts_ns < interval->doubt_begin_ns))
            interval->doubt_begin_ns = touch->ts_ns;
    }
    if (interval->doubt_begin_ns != NO_INT64)
        interval->doubt_end_ns = records_dirty ? last->ts_ns : writeback->ts_ns;
}

// Return whether the process of a touch may have modified the block in an earlier touch.
static bool has_modified(const struct thread *threads, const struct touches *touches, size_t at)
{
    int64_t process = threads[touches->touches[at].thread].process;

    if (process == NO_INT64)
        return true;
    for (size_t before = 0; before < at; before++)
        if (touches->touches[before].kind != TOUCH_DIRTY && threads[touches->touches[before].thread].process == process)
            return true;
    return false;
}

size_t count_dirtyings(const struct thread *threads, const struct touches *touches)
{
    size_t count = 0;

    for (size_t at = 0; at < touches->count; at++) {
        const struct touch *touch = &touches->touches[at];

        if (touch->kind == TOUCH_DIRTY && !threads[touch->thread].is_kernel)
            count += !count || has_modified(threads, touches, at);
    }
    return count;
}

// A page that becomes dirty again is under writeback, if it was not dropped. Its bio may carry the data from before,
// for example if it was encrypted into another page. That matters if different processes modified it before and after.
static bool is_redirtied(const struct evaluator *evaluator, const struct touches *touches,
                         const struct dirty_interval *interval)
{
    size_t processes = evaluator->modifiers.count, times = count_dirtyings(evaluator->threads, touches);

    if (!times || times + interval->was_redirtied < 2)
        return false;
    for (size_t at = 0; at < evaluator->dirtiers.count; at++)
        processes += !has_process(&evaluator->modifiers, evaluator->dirtiers.processes[at]);
    return processes > 1 || (interval->was_redirtied && interval->file_dirtiers > 1);
}

bool evaluate_interval(struct evaluator *evaluator, const struct touches *touches, bool records_dirty,
                       const struct writeback *writeback, struct dirty_interval *interval)
{
    struct summary summary = {0};
    const struct process_set *modifiers = &evaluator->modifiers;
    const struct touch *modifier, *dirty;

    if (!summarize(evaluator, &summary, touches))
        return false;
    modifier = choose_modifier(&summary);
    dirty = summary.first_process_dirty;
    interval->modifier = modifier ? modifier->thread : NO_UINT32;
    interval->modified_ns = modifier ? modifier->ts_ns : NO_INT64;
    interval->via = summary.last_write ? VIA_WRITE : modifier ? VIA_DIRTY : VIA_NOTHING;
    interval->count = (int32_t)modifiers->count;
    interval->modifiers = strings_add(evaluator->sets, (const uint8_t *)modifiers->processes,
                                      modifiers->count * sizeof(*modifiers->processes));
    interval->is_write_recorded = summary.last_modification != NULL;
    interval->is_complete = is_complete(evaluator, &summary);
    interval->has_several_dirtiers = evaluator->dirtiers.count > 1 && !summary.last_modification;
    interval->is_within_write = summary.is_within_write;
    interval->is_dirtied_by_other = is_dirtied_by_other(evaluator, &summary);
    interval->is_redirtied = is_redirtied(evaluator, touches, interval);
    interval->seen_clean_ns = interval->doubt_begin_ns = interval->doubt_end_ns = NO_INT64;
    if (summary.last_write && evaluator->dirtiers.count == 1 && has_process(modifiers, process_of(evaluator, dirty)))
        interval->seen_clean_ns = dirty->ts_ns;
    set_doubt_times(evaluator, &summary, touches, records_dirty, writeback, interval);
    return interval->modifiers != NO_STRING;
}

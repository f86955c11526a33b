// Reads MOST's tables: tab-separated blkparse output with a block type and a path (Jeong et al., USENIX ATC 2013).
#include "decode/text/blkparse.h"

#include <stdlib.h>

// MOST's kernel adds 100000 times the class of the file name (1 to 5) to the pid of an event. The largest pid of its
// kernels (2.6.35 to 3.10) is 32768.
enum { CLASS = 100000, MAX_CLASS = 5, MAX_PID = 32768 };

enum block_type { TYPE_DATA = 0, TYPE_JOURNAL = 2, TYPE_METADATA = 3 };

struct most_po {
    struct reader reader;
    struct actions actions;
    bool has_classes; // pids include a class
    bool is_summary;
    uint64_t analysed; // lines with block type or path
    uint64_t later;    // pids that MOST's kernels cannot have
};

struct row {
    int64_t ts_ns;
    uint64_t number, length, task;
    struct text event, rwbs, comm, type, file;
    bool is_analysed, has_file;
};

static void read_line(struct reader *reader, struct text line);

API struct most_po *most_po_new(struct strings *names, bool has_classes)
{
    struct most_po *trace = calloc(1, sizeof(*trace));

    if (!trace)
        return NULL;
    actions_clear(&trace->actions);
    trace->has_classes = has_classes;
    if (reader_start(&trace->reader, read_line, names))
        return trace;
    reader_end(&trace->reader);
    free(trace);
    return NULL;
}

API void most_po_free(struct most_po *trace)
{
    reader_end(&trace->reader);
    free(trace);
}

API void most_po_action(struct most_po *trace, const uint8_t *letters, size_t length, uint8_t action)
{
    actions_add(&trace->actions, letters, length, action);
}

API uint64_t most_po_analysed(const struct most_po *trace)
{
    return trace->analysed;
}

API uint64_t most_po_later(const struct most_po *trace)
{
    return trace->later;
}

// Reads up to the next tab or the end of the line.
static struct text take_cell(struct text *line)
{
    const uint8_t *tab = memchr(line->at, '\t', text_length(*line));
    struct text cell = {line->at, tab ? tab : line->end};

    line->at = cell.end;
    return cell;
}

static bool is_letters(struct text text, bool may_be_small)
{
    for (; text.at < text.end; text.at++)
        if ((*text.at < 'A' || *text.at > 'Z') && (!may_be_small || *text.at < 'a' || *text.at > 'z'))
            return false;
    return true;
}

static bool take_padded(struct text *line, uint64_t *number)
{
    if (!take_byte(line, '\t'))
        return false;
    take_spaces(line);
    return take_number(line, number);
}

static bool take_row(struct text line, struct row *row)
{
    take_spaces(&line);
    if (!take_time(&line, 9, 9, &row->ts_ns) || !take_byte(&line, '\t'))
        return false;
    row->event = take_cell(&line);
    if (!text_length(row->event) || text_length(row->event) > 2 || !is_letters(row->event, true) ||
        !take_byte(&line, '\t'))
        return false;
    row->rwbs = take_cell(&line);
    if (!is_letters(row->rwbs, false) || !take_padded(&line, &row->number) || !take_padded(&line, &row->length) ||
        !take_padded(&line, &row->task) || !take_byte(&line, '\t'))
        return false;
    take_spaces(&line);
    row->comm = take_cell(&line);
    row->is_analysed = take_byte(&line, '\t');
    row->type = take_cell(&line);
    if (row->is_analysed && text_length(row->type) && !text_is(row->type, "D") && !text_is(row->type, "J") &&
        !text_is(row->type, "M"))
        return false;
    row->has_file = row->is_analysed && take_byte(&line, '\t');
    row->file = take_cell(&line);
    return line.at == line.end;
}

static void put_analysis(struct table *table, size_t row_index, const struct row *row)
{
    if (text_length(row->type))
        put_code(table, BLOCK_BLOCK_TYPE, row_index,
                 *row->type.at == 'D'   ? TYPE_DATA
                 : *row->type.at == 'J' ? TYPE_JOURNAL
                                        : TYPE_METADATA);
    if (row->has_file && !text_is(row->file, "file-NONE")) // MOST's Viewer writes this for no file
        put_text(table, BLOCK_PATH, row_index, row->file);
}

static void read_line(struct reader *reader, struct text line)
{
    struct most_po *trace = (struct most_po *)reader;
    struct table *table = reader->tables.block;
    struct row row = {0};
    uint8_t action;
    size_t row_index;

    if (!take_row(line, &row)) {
        blkparse_note(&reader->totals, &trace->is_summary, line);
        return;
    }
    row.ts_ns = blkparse_continued(reader, 0, row.ts_ns, SETBACK_NS);
    if (count_event(reader, row.ts_ns, row.event) == MAX_NAMES)
        refuse(&reader->totals.refused[REFUSED_LINE], line);
    trace->analysed += row.is_analysed;
    action = action_of(&trace->actions, row.event);
    if (action == NO_CODE)
        return; // a message
    trace->later += row.task >= CLASS && (row.task / CLASS > MAX_CLASS || row.task % CLASS > MAX_PID);
    if (!table)
        return;
    row_index = table_row(table);
    put_int64(table, BLOCK_TS_NS, row_index, row.ts_ns);
    put_int32(table, BLOCK_TID, row_index, int32_of(trace->has_classes ? row.task % CLASS : row.task));
    put_cached(reader, BLOCK_COMM, row_index, row.comm);
    put_cached(reader, BLOCK_EVENT, row_index, row.event);
    put_code(table, BLOCK_ACTION, row_index, action);
    put_cached(reader, BLOCK_RWBS, row_index, row.rwbs);
    if (action != ACTION_PLUG && action != ACTION_UNPLUG) { // these have no sector; the format prints 0
        put_int64(table, BLOCK_SECTOR, row_index, int64_of(row.number));
        put_int64(table, BLOCK_NR_SECTORS, row_index, int64_of(row.length));
    }
    put_analysis(table, row_index, &row);
}

// Makes rows from the values of an event.
#include "core/scsi.h"
#include "decode/perfetto/state.h"

#include <stdio.h>

// --- values ---

// Converts a device number to the kernel's dev_t. The recorder stores fields of type dev_t in the format of makedev(3).
static uint64_t kernel_dev(uint64_t dev)
{
    uint64_t major = ((dev >> 8) & 0xfff) | ((dev >> 32) & ~(uint64_t)0xfff);
    uint64_t minor = (dev & 0xff) | ((dev >> 12) & ~(uint64_t)0xff & 0xffffffff);

    return major < 1 << 12 && minor < 1 << 20 ? major << 20 | minor : NO_UINT32;
}

static bool is_unsigned(enum slot slot)
{
    switch (slot) {
    case SLOT_sector:
    case SLOT_old_sector:
    case SLOT_ino:
    case SLOT_parent:
    case SLOT_block:
    case SLOT_old_block:
    case SLOT_file_block:
    case SLOT_page:
    case SLOT_transaction:
    case SLOT_lba:
        return true;
    default:
        return false;
    }
}

// Stores a value that fits into its column. All ones in an unsigned field is null: the sector of an empty flush, or no
// block.
static void put_value(struct perfetto *trace, struct table *table, size_t row, uint8_t column, enum slot slot)
{
    uint64_t number = trace->values[slot].number;
    int64_t value = (int64_t)number;

    if (table->kinds[column] == KIND_STRING) {
        if (has_text(trace, slot))
            put_uint32(table, column, row, text_number(trace, slot));
        return;
    }
    if (!has_number(trace, slot))
        return;
    switch (table->kinds[column]) {
    case KIND_INT64:
        if (value >= 0 || !is_unsigned(slot))
            put_int64(table, column, row, value);
        break;
    case KIND_INT32:
        if (value >= INT32_MIN && value <= INT32_MAX)
            put_int32(table, column, row, (int32_t)value);
        break;
    case KIND_UINT32:
        if (slot == SLOT_dev || slot == SLOT_old_dev)
            number = kernel_dev(number);
        if (number < NO_UINT32)
            put_uint32(table, column, row, (uint32_t)number);
        break;
    default:
        put_code(table, column, row, (uint8_t)number);
    }
}

// Appends the row of the current event with its values and the thread that was running.
static size_t append_values(struct perfetto *trace, enum target target, struct table *table)
{
    size_t row = table_row(table);
    ptrdiff_t version =
        version_at(trace, (int32_t)trace->values[SLOT_tid].number, (int64_t)trace->values[SLOT_ts_ns].number);

    if (version >= 0) {
        put_uint32(table, trace->columns[target][SLOT_comm], row, trace->versions.comms[version]);
        put_int32(table, trace->columns[target][SLOT_pid], row, trace->versions.pids[version]);
    }
    for (unsigned i = 0; i < trace->nr_used; i++) {
        uint8_t slot = trace->used[i];
        uint8_t column = trace->columns[target][slot];

        if (column != NO_COLUMN)
            put_value(trace, table, row, column, slot);
    }
    return row;
}

static void put_text_number(struct perfetto *trace, enum target target, struct table *table, size_t row, enum slot slot,
                            uint32_t text)
{
    uint8_t column = trace->columns[target][slot];

    if (column != NO_COLUMN)
        put_uint32(table, column, row, text);
}

// --- block events ---

static void append_block(struct perfetto *trace, const struct event *kind, struct table *table)
{
    size_t row;

    // A split records the sector of the second part. The length of the first part is the distance to it.
    if (has_number(trace, SLOT_new_sector) && has_number(trace, SLOT_sector)) {
        int64_t cut = (int64_t)trace->values[SLOT_new_sector].number, from = (int64_t)trace->values[SLOT_sector].number;

        if (from >= 0 && cut >= from)
            give_value(trace, SLOT_nr_sectors, (uint64_t)(cut - from));
    }
    // Before Linux 4.12 the error may be a positive status of the driver, which has no meaning here.
    if (has_number(trace, SLOT_error) && (int64_t)trace->values[SLOT_error].number > 0)
        trace->values[SLOT_error].number = (uint64_t)INT64_MIN;
    give_value(trace, SLOT_action, kind->code);
    row = append_values(trace, TO_BLOCK, table);
    put_text_number(trace, TO_BLOCK, table, row, SLOT_event, kind->event);
}

// --- filesystem events ---

// Formats the status of an extent (fs/ext4/extents_status.h) in the kernel's letters. Linux 3.9 and 3.10 had the flags
// in the topmost bits. Flags without a letter follow as a number.
static uint32_t status_text(struct perfetto *trace, uint64_t status)
{
    static const char letters[] = "WUDHR";
    char text[32];
    size_t length = 0;
    uint64_t rest = status & ~(uint64_t)31;

    if (status >> 60 && !(status << 4)) {
        status = (status >> 63 & 1) | (status >> 61 & 2) | (status >> 59 & 4) | (status >> 57 & 8);
        rest = 0;
    }
    if (!rest && trace->status_texts[status] != NO_STRING)
        return trace->status_texts[status];
    for (unsigned bit = 0; bit < 5; bit++)
        if (status >> bit & 1)
            text[length++] = letters[bit];
    if (rest)
        length += (size_t)snprintf(text + length, sizeof(text) - length, "0x%llx", (unsigned long long)rest);
    if (rest)
        return strings_add(trace->strings, (const uint8_t *)text, length);
    return trace->status_texts[status] = strings_add(trace->strings, (const uint8_t *)text, length);
}

// Returns the path whose components are in PATH_LEVELS slots.
static uint32_t path_number(const struct perfetto *trace, enum slot first)
{
    struct text names[PATH_LEVELS];

    for (unsigned level = 0; level < PATH_LEVELS; level++)
        names[level] = slot_text(trace, first + level);
    return path_of_names(trace->strings, names, PATH_LEVELS);
}

static void put_name(struct perfetto *trace, struct table *table, size_t row, enum slot name, enum slot level)
{
    if (trace->has[level])
        put_text_number(trace, TO_FS, table, row, name, path_number(trace, level));
    else if (has_text(trace, name) && !text_length(slot_text(trace, name))) // the probe could not read it
        put_text_number(trace, TO_FS, table, row, name, NO_STRING);
}

static void append_fs(struct perfetto *trace, const struct event *kind, struct table *table)
{
    uint32_t status = NO_STRING;
    size_t row;

    if (has_number(trace, SLOT_status))
        status = status_text(trace, trace->values[SLOT_status].number);
    // After a lookup without a result the record has stale values, which the kernel does not print either.
    if (has_number(trace, SLOT_found) && !(uint32_t)trace->values[SLOT_found].number) {
        status = trace->no_text;
        give_value(trace, SLOT_block, 0);
    }
    if (has_number(trace, SLOT_type)) {
        uint64_t type = trace->values[SLOT_type].number;

        status = type < 3 ? trace->types[type] : NO_STRING;
        give_value(trace, SLOT_nr_blocks, 1);
    }
    // The inode is valid only if the lookup succeeded.
    if (has_number(trace, SLOT_child) && trace->values[SLOT_child].number != UINT32_MAX &&
        has_number(trace, SLOT_error) && !trace->values[SLOT_error].number)
        give_value(trace, SLOT_ino, trace->values[SLOT_child].number);
    give_value(trace, SLOT_event, kind->code);
    row = append_values(trace, TO_FS, table);
    put_text_number(trace, TO_FS, table, row, SLOT_status, status);
    if (has_text(trace, SLOT_bdi))
        put_uint32(table, trace->columns[TO_FS][SLOT_dev], row, device_of_name(slot_text(trace, SLOT_bdi)));
    put_name(trace, table, row, SLOT_name, SLOT_name0);
    put_name(trace, table, row, SLOT_new_name, SLOT_new_name0);
}

// --- commands to the device ---

enum step { STEP_SEND, STEP_COMPLETE, STEP_OTHER };

static enum step ufs_step(const struct perfetto *trace)
{
    struct text step = slot_text(trace, SLOT_step_text);

    if (text_length(step)) {
        if (text_is(step, "send") || text_is(step, "send_req") || text_is(step, "scsi_send"))
            return STEP_SEND;
        if (text_is(step, "complete") || text_is(step, "complete_rsp") || text_is(step, "scsi_cmpl"))
            return STEP_COMPLETE;
        return STEP_OTHER;
    }
    // enum ufs_trace_str_t of include/ufs/ufs.h
    if (has_number(trace, SLOT_step_code) && trace->values[SLOT_step_code].number < 2)
        return trace->values[SLOT_step_code].number ? STEP_COMPLETE : STEP_SEND;
    return STEP_OTHER;
}

// Decodes first block and length from the bytes of a SCSI command.
static void read_cdb(struct perfetto *trace)
{
    uint64_t lba, blocks;

    if (!scsi_blocks(trace->values[SLOT_cdb].text.at, text_length(slot_text(trace, SLOT_cdb)), &lba, &blocks))
        return;
    give_value(trace, SLOT_lba, lba);
    give_value(trace, SLOT_nr_blocks, blocks);
}

static void append_command(struct perfetto *trace, const struct event *kind, struct table *table)
{
    static const enum slot errors[] = {SLOT_cmd_err, SLOT_data_err, SLOT_stop_err};
    enum step step = STEP_OTHER;
    char address[64];
    size_t row;

    if (!strcmp(kind->name, "ufshcd_command"))
        step = ufs_step(trace);
    else if (!strcmp(kind->name, "mmc_request_start") || !strcmp(kind->name, "scsi_dispatch_cmd_start"))
        step = STEP_SEND;
    else if (!strcmp(kind->name, "mmc_request_done") || !strcmp(kind->name, "scsi_dispatch_cmd_done"))
        step = STEP_COMPLETE;
    if (has_number(trace, SLOT_transfer_len)) {
        if ((int64_t)trace->values[SLOT_transfer_len].number >= 0)
            give_value(trace, SLOT_nr_bytes, trace->values[SLOT_transfer_len].number);
        else
            trace->has[SLOT_lba] = false; // the driver did not read location and size of the command
    }
    if (has_number(trace, SLOT_blocks)) {
        uint64_t blocks = trace->values[SLOT_blocks].number & UINT32_MAX;

        if (!blocks)
            trace->has[SLOT_lba] = false;
        give_value(trace, SLOT_nr_blocks, blocks);
        if (has_number(trace, SLOT_block_bytes))
            give_value(trace, SLOT_nr_bytes, blocks * (trace->values[SLOT_block_bytes].number & UINT32_MAX));
    }
    if (step == STEP_COMPLETE)
        for (size_t i = 0; i < 3; i++)
            if (has_number(trace, errors[i]) && (!trace->has[SLOT_result] || !trace->values[SLOT_result].number))
                give_value(trace, SLOT_result, trace->values[errors[i]].number);
    if (has_text(trace, SLOT_cdb))
        read_cdb(trace);
    give_value(trace, SLOT_event, kind->code);
    give_value(trace, SLOT_step, step);
    row = append_values(trace, TO_COMMANDS, table);
    if (has_number(trace, SLOT_host)) {
        int length = snprintf(address, sizeof(address), "%u:%u:%u:%u", (uint32_t)trace->values[SLOT_host].number,
                              (uint32_t)trace->values[SLOT_channel].number, (uint32_t)trace->values[SLOT_id].number,
                              (uint32_t)trace->values[SLOT_lun].number);

        put_text_number(trace, TO_COMMANDS, table, row, SLOT_device,
                        strings_add(trace->strings, (const uint8_t *)address, (size_t)length));
    }
}

// --- counters ---

static void append_samples(struct perfetto *trace, int64_t ts_ns, struct table *table)
{
    for (unsigned i = 0; i < trace->nr_samples; i++) {
        const struct counter *counter = &trace->counters[trace->samples[i].counter];
        size_t row;

        if (trace->samples[i].value > INT64_MAX)
            continue;
        row = table_row(table);
        put_int64(table, SAMPLE_TS_NS, row, ts_ns);
        put_code(table, SAMPLE_SCOPE, row, SCOPE_DEVICE);
        if (has_number(trace, SLOT_dev))
            put_uint32(table, SAMPLE_DEV, row, (uint32_t)kernel_dev(trace->values[SLOT_dev].number));
        put_uint32(table, SAMPLE_COUNTER, row, counter->name);
        put_int64(table, SAMPLE_VALUE, row, (int64_t)trace->samples[i].value);
        put_uint32(table, SAMPLE_UNIT, row, counter->unit);
    }
}

// --- calls and what processes are worth ---

enum { BIRTH = 1 }; // value of task_newtask in the enum of importance.event

static void append_call(struct perfetto *trace, const struct event *kind, struct table *table)
{
    give_value(trace, SLOT_phase, kind->code);
    append_values(trace, TO_CALLS, table);
}

void append_new_task(struct perfetto *trace, struct table *table)
{
    give_value(trace, SLOT_event, BIRTH);
    give_value(trace, SLOT_task, trace->values[SLOT_thread].number);
    if (has_number(trace, SLOT_flags))
        give_value(trace, SLOT_clone_flags, trace->values[SLOT_flags].number);
    if (has_text(trace, SLOT_comm)) { // the name is that of the new task, not of the running thread
        struct field name = {.type = WIRE_BYTES, .bytes = trace->values[SLOT_comm].text};

        take_value(trace, SLOT_task_comm, &name);
        trace->has[SLOT_comm] = false;
    }
    append_values(trace, TO_IMPORTANCE, table);
}

static void append_importance(struct perfetto *trace, const struct event *kind, struct table *table)
{
    give_value(trace, SLOT_event, kind->code);
    append_values(trace, TO_IMPORTANCE, table);
}

// --- sleeps of main threads ---

enum change { CHANGE_SLEEP, CHANGE_REASON, CHANGE_RUN };
enum switch_column { SWITCH_TS_NS, SWITCH_THREAD, SWITCH_CHANGE, SWITCH_IO_WAIT };

// prev_state of sched_switch: TASK_UNINTERRUPTIBLE, and the flags of an idle kernel thread, which only looks blocked
// (TASK_NOLOAD before Linux 4.14, TASK_REPORT_IDLE since).
enum { STATE_BLOCKED = 0x2, STATE_IDLE = 0x480 };

static void append_change(struct perfetto *trace, struct table *table, int64_t ts_ns, enum slot slot,
                          enum change change)
{
    ptrdiff_t version;
    int32_t tid;
    size_t row;

    if (!has_number(trace, slot))
        return;
    tid = (int32_t)trace->values[slot].number;
    version = version_at(trace, tid, ts_ns);
    if (tid <= 0 || version < 0 || trace->versions.pids[version] != tid)
        return;
    row = table_row(table);
    put_int64(table, SWITCH_TS_NS, row, ts_ns);
    put_int32(table, SWITCH_THREAD, row, tid);
    put_code(table, SWITCH_CHANGE, row, (uint8_t)change);
    if (change == CHANGE_REASON && has_number(trace, SLOT_io_wait))
        put_int32(table, SWITCH_IO_WAIT, row, trace->values[SLOT_io_wait].number != 0);
}

void append_switch(struct perfetto *trace, struct table *table, int64_t ts_ns)
{
    uint64_t state = has_number(trace, SLOT_prev_state) ? trace->values[SLOT_prev_state].number : 0;

    if (state & STATE_BLOCKED && !(state & STATE_IDLE))
        append_change(trace, table, ts_ns, SLOT_prev_thread, CHANGE_SLEEP);
    append_change(trace, table, ts_ns, SLOT_thread, CHANGE_RUN);
}

void append_row(struct perfetto *trace, const struct event *kind, struct table *table, int64_t ts_ns)
{
    switch (kind->target) {
    case TO_BLOCK:
        append_block(trace, kind, table);
        break;
    case TO_FS:
        append_fs(trace, kind, table);
        break;
    case TO_COMMANDS:
        append_command(trace, kind, table);
        break;
    case TO_CALLS:
        append_call(trace, kind, table);
        break;
    case TO_IMPORTANCE:
        append_importance(trace, kind, table);
        break;
    case TO_SWITCHES:
        append_change(trace, table, ts_ns, SLOT_thread, CHANGE_REASON);
        break;
    default:
        append_samples(trace, ts_ns, table);
    }
}

// Columns of table call_events, in the order of schemas/call_events.json; test_ingest_ftrace_syscalls compares them.
#pragma once

enum { CALL_ARGUMENTS = 6 };

enum call_event_column {
    CALL_EVENT_TS_NS,
    CALL_EVENT_TID,
    CALL_EVENT_PID,
    CALL_EVENT_COMM,
    CALL_EVENT_PHASE,
    CALL_EVENT_CALL,
    CALL_EVENT_NUMBER,
    CALL_EVENT_ARGUMENT0,
    CALL_EVENT_ARGUMENT1,
    CALL_EVENT_ARGUMENT2,
    CALL_EVENT_ARGUMENT3,
    CALL_EVENT_ARGUMENT4,
    CALL_EVENT_ARGUMENT5,
    CALL_EVENT_RESULT,
    CALL_EVENT_PATH,
    CALL_EVENT_PATH2,
    CALL_EVENT_DEV,
    CALL_EVENT_INO,
};

enum call_phase { PHASE_ENTER, PHASE_EXIT, PHASE_PATH, PHASE_FILE, PHASE_DESCRIPTOR, PHASE_TASK, PHASE_EXEC };

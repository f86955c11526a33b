// Forms of lines: the text after the name of an event, as a list of steps that ingest/ftrace/forms.py creates.
#pragma once

#include "core/text.h"

enum step_kind {
    STEP_LITERAL,   // these bytes
    STEP_MAYBE,     // this byte, optional
    STEP_DIGITS,    // at least one digit
    STEP_WORD,      // at least one letter, digit or underscore
    STEP_PLACE,     // optional "(...)" and spaces: the address of a probe
    STEP_END,       // spaces and the end of the line, also as an escaped newline
    STEP_NUMBER,    // stored: a number of base `base`
    STEP_SIGNED,    // stored: a decimal number that may be negative
    STEP_DEVICE,    // stored: major and minor, separated by a comma or colon
    STEP_FLAGS,     // stored: capital letters, then optional 0x and hexadecimal digits
    STEP_F2FS_TYPE, // stored: DATA, NODE or META after an optional temperature; null for another word
    STEP_ANY,       // any text, as long as possible
    STEP_WORDS_END, // as STEP_ANY, up to the begin of a word
    STEP_TEXT,      // stored: any text, as long as possible
    STEP_REST,      // stored: the rest of the line without an escaped newline
    STEP_QUOTED,    // stored: text in quotes; null for "(fault)"
    STEP_SET,       // matches nothing; stored: `length`
    STEP_NUMBERED,  // as STEP_NUMBER; stored: the name of the F2FS block type
};

enum { NO_COLUMN = 255, MAX_CHOICES = 20, MAX_STEPS = 64, LEVELS = 8 };

enum step_flags {
    FLAG_REQUIRED = 1, // the line cannot be parsed if the number does not fit
    FLAG_FOUND = 2,    // stored only if column `error` is 0 and the number is not all ones
    FLAG_LEVEL = 4,    // a component of a path, at level `length`
    FLAG_LENGTH = 8,   // a negative number is null
    FLAG_LAST =
        16, // the last byte of a range that begins at the number in column `length`; stored: the length of the range
};

struct step {
    uint8_t kind;
    uint8_t column;
    uint8_t base;
    uint8_t flags;
    uint32_t length;
    const uint8_t *literal; // of a counter: its name, a space and its unit
};

struct form {
    const struct step *steps;
    size_t nr_steps;
    size_t nr_choices;
};

// The values that the steps of a form matched.
struct matched {
    uint64_t numbers[MAX_STEPS];
    struct text texts[MAX_STEPS];
};

// Matches `line` against the form.
bool form_matches(const struct form *form, struct text line, struct matched *matched);

// Stores the values in the row. Returns false, without any change, if a required number does not fit.
bool form_put(const struct form *form, const struct matched *matched, struct table *table, size_t row,
              size_t error_column);

// The forms of lines: what stands behind an event's name, as a list of steps that ingest/ftrace/forms.py makes.
#pragma once

#include "core/text.h"

enum step_kind {
    STEP_LITERAL,   // these bytes
    STEP_MAYBE,     // this byte or nothing
    STEP_DIGITS,    // at least one digit
    STEP_WORD,      // at least one letter, digit or underscore
    STEP_PLACE,     // perhaps "(...)" and spaces: where a probe stands
    STEP_END,       // spaces and the end of the line, as the packings of such text write it
    STEP_NUMBER,    // into the column: a number of base `base`
    STEP_SIGNED,    // a decimal number that may be negative
    STEP_DEVICE,    // major and minor, with a comma or colon between them
    STEP_FLAGS,     // capital letters and perhaps 0x and hexadecimal digits
    STEP_F2FS_TYPE, // DATA, NODE or META, perhaps a temperature before it; another word is none of them
    STEP_ANY,       // as much as possible
    STEP_WORDS_END, // as STEP_ANY, and a word begins there
    STEP_TEXT,      // into the column: as much as possible
    STEP_REST,      // into the column: all but the end of the line
    STEP_QUOTED,    // into the column: text in quotes, or nothing for "(fault)"
    STEP_SET,       // nothing; into the column: `length`
    STEP_NUMBERED,  // as STEP_NUMBER; into the column: the type of F2FS with this number
};

enum { NO_COLUMN = 255, MAX_CHOICES = 20, MAX_STEPS = 64, LEVELS = 8 };

enum step_flags {
    FLAG_REQUIRED = 1, // a number that does not fit makes the line unreadable
    FLAG_FOUND = 2,    // only where the column `error` is 0 and the number is not all ones
    FLAG_LEVEL = 4,    // a name of a path: that of level `length`
    FLAG_LENGTH = 8,   // a number below 0 is none
    FLAG_LAST = 16,    // the last byte of what begins at the number in column `length`: its length is put
};

struct step {
    uint8_t kind;
    uint8_t column;
    uint8_t base;
    uint8_t flags;
    uint32_t length;
    const uint8_t *literal;
};

struct form {
    const struct step *steps;
    size_t nr_steps;
    size_t nr_choices;
};

// What the steps of a form found.
struct matched {
    uint64_t numbers[MAX_STEPS];
    struct text texts[MAX_STEPS];
};

// Whether `line` has the form.
bool form_matches(const struct form *form, struct text line, struct matched *matched);

// Puts what was found into the row; false, and nothing done, where a number that is required does not fit.
bool form_put(const struct form *form, const struct matched *matched, struct table *table, size_t row,
              size_t error_column);

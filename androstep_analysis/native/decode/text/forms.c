// Matches lines against forms, as a regular expression would, and stores the parts in columns.
#include "decode/text/forms.h"

#include <string.h>

// State of matching one line. A choice tries its possible ends from the end of the line down. The ends that failed are
// thus all offsets from one on, and none is tried twice. The time is limited to the length of the line times its
// choices.
struct matcher {
    struct text line;
    const struct form *form;
    struct matched *matched;
    size_t failed[MAX_CHOICES]; // the lowest offset where each choice failed; past the line for none
};

static bool match_from(struct matcher *matcher, size_t step, size_t choice, struct text at);

static bool is_word(uint8_t byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_' ||
           byte >= 0x80;
}

static unsigned digit_of(uint8_t byte)
{
    if (is_digit(byte))
        return byte - '0';
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10u : 255;
}

// Reads a number of a base up to 16; UINT64_MAX on overflow.
static bool take_based(struct text *text, unsigned base, uint64_t *number)
{
    const uint8_t *start = text->at;
    uint64_t value = 0;

    if (base == 10)
        return take_number(text, number);
    while (text->at < text->end && digit_of(*text->at) < base) {
        value = value > UINT64_MAX / base - 1 ? UINT64_MAX : value * base + digit_of(*text->at);
        text->at++;
    }
    *number = value;
    return text->at != start || base == 8; // a mode of zero is printed as the leading zero only
}

static bool take_flags(struct text *text)
{
    while (text->at < text->end && *text->at >= 'A' && *text->at <= 'Z')
        text->at++;
    if (text_length(*text) > 2 && text->at[0] == '0' && text->at[1] == 'x' && digit_of(text->at[2]) < 16) {
        text->at += 2;
        while (text->at < text->end && digit_of(*text->at) < 16)
            text->at++;
    }
    return true;
}

static const char *const F2FS_TYPES[] = {"DATA", "NODE", "META"};

static bool is_capital(uint8_t byte)
{
    return byte >= 'A' && byte <= 'Z';
}

// Reads a word with the kind of block at its end. `type` is empty for an unknown kind.
static bool take_f2fs_type(struct text *text, struct text *type)
{
    struct text word = {text->at, text->at};
    const uint8_t *last;

    while (word.end < text->end && (is_capital(*word.end) || *word.end == '_' || *word.end == '-'))
        word.end++;
    text->at = word.end;
    *type = (struct text){NULL, NULL};
    for (last = word.end; last > word.at && is_capital(last[-1]); last--)
        ;
    if (last > word.at) {
        if (last[-1] != '_' || last - 1 == word.at)
            return text_length(word) != 0;
        for (const uint8_t *at = word.at; at < last - 1; at++)
            if (!is_capital(*at))
                return true;
    }
    for (size_t i = 0; i < sizeof(F2FS_TYPES) / sizeof(*F2FS_TYPES); i++)
        if (text_is((struct text){last, word.end}, F2FS_TYPES[i]))
            *type = (struct text){last, word.end};
    return text_length(word) != 0;
}

static bool take_end(struct text *text)
{
    take_spaces(text);
    take_word(text, "\\n\\");
    return text->at == text->end;
}

// Returns the rest of the line without an escaped newline.
static struct text rest_of(const struct text *text)
{
    struct text rest = *text;

    if (text_ends(rest, "\\n\\"))
        rest.end -= 3;
    return rest;
}

static bool skip_probe_address(struct text *text)
{
    const uint8_t *end;

    if (!at_byte(text, '('))
        return true;
    end = memchr(text->at, ')', text_length(*text));
    if (end) {
        text->at = end + 1;
        take_spaces(text);
    }
    return true;
}

static bool take_device(struct text *text, uint64_t *device)
{
    uint64_t major, minor;

    if (!take_number(text, &major) || !(take_byte(text, ',') || take_byte(text, ':')) || !take_number(text, &minor))
        return false;
    *device = is_device(major, minor) ? device_of(major, minor) : UINT64_MAX;
    return true;
}

static bool take_all(struct text *text, bool (*is_one)(uint8_t))
{
    const uint8_t *start = text->at;

    while (text->at < text->end && is_one(*text->at))
        text->at++;
    return text->at != start;
}

// Runs a step that matches in one way only.
static bool take_step(const struct step *step, struct text *at, uint64_t *number, struct text *part)
{
    int64_t value;

    switch ((enum step_kind)step->kind) {
    case STEP_LITERAL:
        return take_bytes(at, step->literal, step->length);
    case STEP_MAYBE:
        take_byte(at, step->literal[0]);
        return true;
    case STEP_DIGITS:
        return take_all(at, is_digit);
    case STEP_WORD:
        return take_all(at, is_word);
    case STEP_PLACE:
        return skip_probe_address(at);
    case STEP_END:
        return take_end(at);
    case STEP_NUMBER:
    case STEP_NUMBERED:
        return take_based(at, step->base, number);
    case STEP_SIGNED:
        if (!take_signed(at, &value))
            return false;
        memcpy(number, &value, sizeof(value));
        return true;
    case STEP_DEVICE:
        return take_device(at, number);
    case STEP_FLAGS:
        part->at = at->at;
        take_flags(at);
        part->end = at->at;
        return true;
    case STEP_F2FS_TYPE:
        return take_f2fs_type(at, part);
    case STEP_REST:
        *part = rest_of(at);
        at->at = at->end;
        return true;
    case STEP_SET:
        *number = step->length;
        return true;
    case STEP_ANY:
    case STEP_WORDS_END:
    case STEP_TEXT:
    case STEP_QUOTED:
        break;
    }
    return false;
}

// Runs a step that matches as much as the steps after it allow.
static bool match_choice(struct matcher *matcher, size_t step, size_t choice, struct text at)
{
    const struct step *steps = matcher->form->steps;
    bool is_quoted = steps[step].kind == STEP_QUOTED;
    const struct step *next = step + 1 < matcher->form->nr_steps ? &steps[step + 1] : NULL;
    struct text *part = &matcher->matched->texts[step];

    if (is_quoted && take_word(&at, "(fault)")) {
        *part = (struct text){NULL, NULL};
        return match_from(matcher, step + 1, choice + 1, at);
    }
    if (is_quoted && !take_byte(&at, '"'))
        return false;
    for (size_t offset = matcher->failed[choice]; offset-- > (size_t)(at.at - matcher->line.at);) {
        const uint8_t *end = matcher->line.at + offset;
        bool may_fit = !is_quoted || (end < at.end && *end == '"');

        matcher->failed[choice] = offset;
        if (may_fit && !is_quoted && next && next->kind == STEP_LITERAL)
            may_fit = end < at.end && *end == next->literal[0];
        if (may_fit && steps[step].kind == STEP_WORDS_END)
            may_fit = end < at.end && is_word(*end) && (end == matcher->line.at || !is_word(end[-1]));
        if (!may_fit)
            continue;
        *part = (struct text){at.at, end};
        if (match_from(matcher, step + 1, choice + 1, (struct text){end + is_quoted, at.end}))
            return true;
    }
    return false;
}

static bool match_from(struct matcher *matcher, size_t step, size_t choice, struct text at)
{
    const struct form *form = matcher->form;

    for (; step < form->nr_steps; step++) {
        uint8_t kind = form->steps[step].kind;

        if (kind == STEP_ANY || kind == STEP_WORDS_END || kind == STEP_TEXT || kind == STEP_QUOTED)
            return match_choice(matcher, step, choice, at);
        if (!take_step(&form->steps[step], &at, &matcher->matched->numbers[step], &matcher->matched->texts[step]))
            return false;
    }
    return true;
}

bool form_matches(const struct form *form, struct text line, struct matched *matched)
{
    struct matcher matcher = {.line = line, .form = form, .matched = matched};

    for (size_t choice = 0; choice < form->nr_choices; choice++)
        matcher.failed[choice] = text_length(line) + 1;
    return match_from(&matcher, 0, 0, line);
}

// Stores a number in a column of any type if it fits.
static void put_number(struct table *table, size_t column, size_t row, int64_t value)
{
    switch (table->kinds[column]) {
    case KIND_INT64:
        put_int64(table, column, row, value);
        break;
    case KIND_INT32:
        put_int32(table, column, row, int32_of_signed(value));
        break;
    case KIND_UINT32:
        if (value >= 0 && value <= UINT32_MAX)
            put_uint32(table, column, row, (uint32_t)value);
        break;
    case KIND_CODE:
        put_code(table, column, row, (uint8_t)value);
        break;
    default:
        break;
    }
}

static int64_t number_of(const struct step *step, uint64_t number)
{
    int64_t value;

    if (step->kind == STEP_SIGNED) {
        memcpy(&value, &number, sizeof(value));
        return step->flags & FLAG_LENGTH && value < 0 ? NO_INT64 : value;
    }
    return int64_of(number);
}

// Returns the length of an inclusive range; NO_INT64 if it is empty.
static int64_t length_up_to(int64_t first, int64_t last)
{
    return first >= 0 && last >= first && last < INT64_MAX ? last - first + 1 : NO_INT64;
}

static bool fits(const struct form *form, const struct matched *matched, const struct table *table)
{
    for (size_t i = 0; i < form->nr_steps; i++) {
        const struct step *step = &form->steps[i];
        int64_t most = table->kinds[step->column % MAX_COLUMNS] == KIND_UINT32 ? UINT32_MAX : INT64_MAX;

        if (step->flags & FLAG_REQUIRED && matched->numbers[i] > (uint64_t)most)
            return false;
    }
    return true;
}

bool form_put(const struct form *form, const struct matched *matched, struct table *table, size_t row,
              size_t error_column)
{
    struct text paths[2][LEVELS] = {{{NULL, NULL}}};
    size_t path_columns[2] = {0}, nr_paths = 0;

    if (!fits(form, matched, table))
        return false;
    for (size_t i = 0; i < form->nr_steps; i++) {
        const struct step *step = &form->steps[i];
        struct text text = matched->texts[i];

        if (step->column == NO_COLUMN)
            continue;
        switch (step->kind) {
        case STEP_TEXT:
        case STEP_REST:
        case STEP_QUOTED:
        case STEP_FLAGS:
        case STEP_F2FS_TYPE:
            if (step->flags & FLAG_LEVEL) {
                if (step->length == 0 && nr_paths < 2)
                    path_columns[nr_paths++] = step->column;
                if (nr_paths)
                    paths[nr_paths - 1][step->length % LEVELS] = text;
            } else if (text.at && (text_length(text) || step->kind == STEP_FLAGS)) {
                put_text(table, step->column, row, text);
            }
            break;
        case STEP_NUMBERED:
            if (matched->numbers[i] < sizeof(F2FS_TYPES) / sizeof(*F2FS_TYPES)) {
                const char *type = F2FS_TYPES[matched->numbers[i]];

                put_string(table, step->column, row, (const uint8_t *)type, strlen(type));
            }
            break;
        default:
            put_number(table, step->column, row, number_of(step, matched->numbers[i]));
        }
    }
    for (size_t i = 0; i < form->nr_steps; i++)
        if (form->steps[i].flags & FLAG_FOUND &&
            (matched->numbers[i] == UINT32_MAX || ((int32_t *)table->values[error_column])[row] != 0))
            put_int64(table, form->steps[i].column, row, NO_INT64);
    for (size_t i = 0; i < form->nr_steps; i++)
        if (form->steps[i].flags & FLAG_LAST)
            put_int64(
                table, form->steps[i].column, row,
                length_up_to(((int64_t *)table->values[form->steps[i].length])[row], int64_of(matched->numbers[i])));
    for (size_t path = 0; path < nr_paths; path++)
        put_uint32(table, path_columns[path], row, path_of_names(table->strings, paths[path], LEVELS));
    return true;
}

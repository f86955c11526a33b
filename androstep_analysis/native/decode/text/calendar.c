#include "decode/text/calendar.h"

#define SECOND_NS INT64_C(1000000000)
#define DAY_NS    (86400 * SECOND_NS)

// Reads a number of `width` digits that is at most `most`.
static bool take_digits(struct text *text, int width, int64_t most, int64_t *number)
{
    for (*number = 0; width && at_digit(text); width--)
        *number = *number * 10 + (*text->at++ - '0');
    return !width && *number <= most;
}

// Returns the days from 1970-01-01 to a date. Years are counted from March, so that a leap day is the last of a year.
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t since_march = (month + 9) % 12, years = year - (month < 3);

    return years * 365 + years / 4 - years / 100 + years / 400 + (since_march * 153 + 2) / 5 + day - 719469;
}

static bool take_date(struct text *text, int64_t *days)
{
    struct text at = *text;
    int64_t year, month, day;

    if (!take_digits(&at, 4, 2200, &year) || year < 1970 || !(take_byte(&at, '-') || take_byte(&at, '/')) ||
        !take_digits(&at, 2, 12, &month) || !month || !(take_byte(&at, '-') || take_byte(&at, '/')) ||
        !take_digits(&at, 2, 31, &day) || !day || !(take_byte(&at, 'T') || take_spaces(&at)))
        return false;
    *days = days_of(year, month, day);
    *text = at;
    return true;
}

// Reads "Z", "+02:00" or "+0200"; nothing is UTC.
static bool take_zone(struct text *text, int64_t *seconds)
{
    bool is_west;
    int64_t hours, minutes = 0;

    *seconds = 0;
    take_spaces(text);
    if (take_byte(text, 'Z') || text->at == text->end)
        return true;
    is_west = at_byte(text, '-');
    if (!(take_byte(text, '-') || take_byte(text, '+')) || !take_digits(text, 2, 14, &hours))
        return false;
    take_byte(text, ':');
    if (at_digit(text) && !take_digits(text, 2, 59, &minutes))
        return false;
    *seconds = (hours * 60 + minutes) * (is_west ? -60 : 60);
    return true;
}

bool calendar_ns(struct calendar *calendar, struct text text, int64_t *ns)
{
    int64_t days = 0, hours, minutes, seconds, zone, scale = SECOND_NS / 10;
    bool has_date = take_date(&text, &days);

    if (!take_digits(&text, 2, 23, &hours) || !take_byte(&text, ':') || !take_digits(&text, 2, 59, &minutes) ||
        !take_byte(&text, ':') || !take_digits(&text, 2, 60, &seconds))
        return false;
    *ns = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * SECOND_NS;
    if (take_byte(&text, '.') || take_byte(&text, ','))
        for (; at_digit(&text); text.at++, scale /= 10)
            *ns += (*text.at - '0') * scale;
    if (!take_zone(&text, &zone) || text.at != text.end)
        return false;
    *ns -= zone * SECOND_NS;
    if (has_date)
        return true;
    if (calendar->last_ns - *ns > DAY_NS / 2)
        calendar->day_ns += DAY_NS;
    calendar->last_ns = *ns;
    *ns += calendar->day_ns;
    return true;
}

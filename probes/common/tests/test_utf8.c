/* Escaping of untrusted text for a terminal. */
#include "common/utf8.h"

#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

static const struct {
    const char *text, *shown;
} cases[] = {
    {"", ""},
    {"plain ~ text", "plain ~ text"},
    {"\xc3\xa4\xe2\x82\xac\xf0\x9f\x92\xbe", "\xc3\xa4\xe2\x82\xac\xf0\x9f\x92\xbe"},
    {"a\nb\tc\rd\x7f", "a\\x0ab\\x09c\\x0dd\\x7f"},
    {"\x1b[31mred", "\\x1b[31mred"},
    {"\xc2\x9b"
     "31m",
     "\\xc2\\x9b31m"}, /* C1: CSI in one character */
    {"a\xe2\x80\xae"
     "b",
     "a\\xe2\\x80\\xaeb"},                        /* right-to-left override */
    {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"},          /* left-to-right isolate */
    {"\xd8\x9c", "\\xd8\\x9c"},                   /* Arabic letter mark */
    {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},          /* line separator */
    {"\xff\xfe", "\\xff\\xfe"},                   /* not UTF-8 */
    {"\xc0\xaf", "\\xc0\\xaf"},                   /* overlong */
    {"\xed\xa0\x80", "\\xed\\xa0\\x80"},          /* a surrogate */
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond Unicode */
    {"cut \xe2\x82", "cut \\xe2\\x82"},           /* the text ends within a character */
};

static void test_print(const char *text, const char *shown)
{
    char *printed = NULL;
    size_t bytes;
    FILE *out = open_memstream(&printed, &bytes);

    if (!out)
        exit(1);
    utf8_print(out, text);
    if (fclose(out))
        exit(1);
    tap_ok(!strcmp(printed, shown), "\"%s\" is printed", shown);
    free(printed);
}

/* Also if not all of it fits: then the output is as many whole characters as fit. */
static void test_show(const char *text, const char *shown)
{
    char into[64];

    for (size_t size = 1; size < sizeof into; size++) {
        size_t length;

        memset(into, 'x', sizeof into);
        utf8_show(into, size, text);
        length = strlen(into);
        if (length >= size || strncmp(into, shown, length) || (!shown[length]) != (size > strlen(shown)) ||
            (shown[length] & 0xc0) == 0x80) {
            tap_ok(false, "\"%s\" in %zu bytes", shown, size);
            return;
        }
    }
    tap_ok(true, "\"%s\" in any number of bytes", shown);
}

int main(void)
{
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        test_print(cases[index].text, cases[index].shown);
    for (size_t index = 0; index < sizeof cases / sizeof *cases; index++)
        test_show(cases[index].text, cases[index].shown);
    return tap_done();
}

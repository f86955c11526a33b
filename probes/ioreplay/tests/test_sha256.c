/* The digest against the examples of FIPS 180-4, and at every length around the ends of blocks. */
#include "ioreplay/sha256.h"

#include <stdlib.h>
#include <string.h>

#include "common/tests/tap.h"

static const struct {
    const char *text, *digits;
} examples[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

/* SHA-256 of the digests of 0 to 199 times "a", one after the other: made with sha256sum. */
static const char all_lengths[] = "019f2b9f1af27a53a1f046da7e98af2c179f431e4b5bebb000e74040917a4123";

static void test_lengths(void)
{
    char all[200 * 64 + 1] = "", text[200], digits[65];

    memset(text, 'a', sizeof text);
    for (size_t length = 0; length < sizeof text; length++) {
        sha256_of(text, length, digits);
        memcpy(all + 64 * length, digits, 65);
    }
    sha256_of(all, sizeof all - 1, digits);
    tap_ok(!strcmp(digits, all_lengths), "of 0 to 199 bytes");
}

int main(void)
{
    char digits[65];

    for (size_t index = 0; index < sizeof examples / sizeof *examples; index++) {
        sha256_of(examples[index].text, strlen(examples[index].text), digits);
        tap_ok(!strcmp(digits, examples[index].digits), "of \"%s\"", examples[index].text);
    }
    test_lengths();
    return tap_done();
}

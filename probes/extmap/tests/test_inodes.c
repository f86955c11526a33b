/* Sets of inode numbers, checked against a bitmap. */
#include "extmap/inodes.h"

#include <stdbool.h>
#include <stdio.h>

#define NUMBERS 5000

int main(void)
{
    static bool known[NUMBERS];
    struct inodes set = {0};
    uint32_t random = 1;
    int failed = 0;

    for (int step = 0; step < 4 * NUMBERS; step++) {
        uint64_t number, ino;

        random = random * 1664525 + 1013904223;
        number = random >> 8 & 0xFFFF;
        number %= NUMBERS;
        /* Include large numbers, as 64-bit filesystems have them. */
        ino = number % 2 ? number : number << 32;
        if (!ino)
            continue;
        if (inodes_add(&set, ino) != !known[number]) {
            printf("step %d: %llu\n", step, (unsigned long long)ino);
            failed = 1;
        }
        known[number] = true;
    }
    inodes_release(&set);
    return failed;
}

/* Whether the names in a directory are ciphertext because their key is absent (fscrypt). */
#pragma once

/* Return 1 if the names in the open directory `fd` are ciphertext, 0 if they are not, -1 if the kernel does not report
 * it. */
int encryption_hides_names(int fd);

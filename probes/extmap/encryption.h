/* Whether the names in a directory are shown as they are, or as ciphertext because their key is not there (fscrypt). */
#ifndef ANDROSTEP_EXTMAP_ENCRYPTION_H
#define ANDROSTEP_EXTMAP_ENCRYPTION_H

/* 1: the names in open directory `fd` are ciphertext, 0: they are not, -1: the kernel does not tell. */
int encryption_hides_names(int fd);

#endif

// Creates a directory with an encryption policy as Android's: locker MOUNTPOINT DIRECTORY
//
// The key consists of the bytes 0 to 63 (tests/harness/encrypted.py). It is added again after each mount.
#include <errno.h>
#include <fcntl.h>
#include <linux/fscrypt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define KEY_BYTES 64

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

int main(int argc, char **argv)
{
    static _Alignas(struct fscrypt_add_key_arg) unsigned char room[sizeof(struct fscrypt_add_key_arg) + KEY_BYTES];
    struct fscrypt_add_key_arg *key = (void *)room;
    must(argc == 3, "usage: locker MOUNTPOINT DIRECTORY");
    int mounted = open(argv[1], O_RDONLY);
    must(mounted >= 0, argv[1]);
    key->key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
    key->raw_size = KEY_BYTES;
    for (int i = 0; i < KEY_BYTES; i++)
        key->raw[i] = (unsigned char)i;
    must(ioctl(mounted, FS_IOC_ADD_ENCRYPTION_KEY, key) == 0, "FS_IOC_ADD_ENCRYPTION_KEY");
    must(mkdir(argv[2], 0755) == 0 || errno == EEXIST, argv[2]);
    int directory = open(argv[2], O_RDONLY);
    must(directory >= 0, argv[2]);
    struct fscrypt_policy_v2 policy = {
        .version = FSCRYPT_POLICY_V2,
        .contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS,
        .filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS,
        .flags = FSCRYPT_POLICY_FLAGS_PAD_32 | FSCRYPT_POLICY_FLAG_IV_INO_LBLK_64,
    };
    memcpy(policy.master_key_identifier, key->key_spec.u.identifier, sizeof policy.master_key_identifier);
    must(ioctl(directory, FS_IOC_SET_ENCRYPTION_POLICY, &policy) == 0, "FS_IOC_SET_ENCRYPTION_POLICY");
    return 0;
}

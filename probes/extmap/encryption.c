#include "extmap/encryption.h"

#include <errno.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <string.h>
#include <sys/ioctl.h>

static int key_is_absent(int fd, const struct fscrypt_policy_v2 *policy)
{
    struct fscrypt_get_key_status_arg key = {.key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER};

    memcpy(key.key_spec.u.identifier, policy->master_key_identifier, sizeof policy->master_key_identifier);
    if (ioctl(fd, FS_IOC_GET_ENCRYPTION_KEY_STATUS, &key))
        return -1;
    /* A key that is being removed still serves open files. */
    return key.status == FSCRYPT_KEY_STATUS_ABSENT ? 1 : key.status == FSCRYPT_KEY_STATUS_PRESENT ? 0 : -1;
}

int encryption_hides_names(int fd)
{
    struct fscrypt_get_policy_ex_arg policy = {.policy_size = sizeof policy.policy};
    unsigned int attributes[2] = {0, 0};

    if (!ioctl(fd, FS_IOC_GET_ENCRYPTION_POLICY_EX, &policy))
        /* Version 1 keys may also be in a process' keyring, where the kernel does not report them. */
        return policy.policy.version == FSCRYPT_POLICY_V2 ? key_is_absent(fd, &policy.policy.v2) : -1;
    if (errno == ENODATA)
        return 0;
    return !ioctl(fd, FS_IOC_GETFLAGS, attributes) && attributes[0] & FS_ENCRYPT_FL ? -1 : 0;
}

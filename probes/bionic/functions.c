/* Functions of libc that some or all versions of bionic (arm64) lack, or that take other arguments there than the musl
 * headers with which the program is compiled. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

/* The kernel's struct sigaction; bionic and musl order its fields differently. */
struct kernel_sigaction {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

int sigaction(int signal, const struct sigaction *restrict asked, struct sigaction *restrict before)
{
    struct kernel_sigaction set, old;
    if (asked) {
        set = (struct kernel_sigaction){.handler = asked->sa_handler, .flags = (unsigned long)asked->sa_flags};
        memcpy(&set.mask, &asked->sa_mask, sizeof set.mask);
    }
    if (syscall(SYS_rt_sigaction, signal, asked ? &set : NULL, before ? &old : NULL, sizeof set.mask))
        return -1;
    if (before) {
        *before = (struct sigaction){.sa_handler = old.handler, .sa_flags = (int)old.flags};
        memcpy(&before->sa_mask, &old.mask, sizeof old.mask);
    }
    return 0;
}

/* The constants for sysconf differ between bionic and musl. */
long sysconf(int name)
{
    struct sysinfo system;
    switch (name) {
    case _SC_PAGESIZE:
        return (long)getauxval(AT_PAGESZ);
    case _SC_CLK_TCK:
        return (long)getauxval(AT_CLKTCK);
    case _SC_PHYS_PAGES:
        return sysinfo(&system) ? -1 : (long)(system.totalram * system.mem_unit / getauxval(AT_PAGESZ));
    default:
        errno = EINVAL;
        return -1;
    }
}

/* Added in Android 8. */
int sync_file_range(int file, off_t offset, off_t size, unsigned flags)
{
    return (int)syscall(SYS_sync_file_range, file, offset, size, flags);
}

/* Added in Android 9. */
int syncfs(int file)
{
    return (int)syscall(SYS_syncfs, file);
}

/* Added in Android 11. */
int statx(int directory, const char *restrict path, int flags, unsigned mask, struct statx *restrict about)
{
    return (int)syscall(SYS_statx, directory, path, flags, mask, about);
}

/* In no version of bionic. */
void explicit_bzero(void *memory, size_t size)
{
    memset(memory, 0, size);
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* In no version of bionic; compilers for musl emit calls of it. */
int bcmp(const void *one, const void *other, size_t size)
{
    return memcmp(one, other, size);
}

/* A thread-local variable as the compiler describes it (-femulated-tls). Android supports native ones from version
 * 10. */
struct thread_variable {
    size_t size, align;
    uintptr_t number; /* of its key, from 1; 0: no key yet */
    const void *initial;
};

static pthread_key_t key_of(struct thread_variable *variable)
{
    static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;
    uintptr_t number = __atomic_load_n(&variable->number, __ATOMIC_ACQUIRE);
    pthread_key_t key;
    if (number)
        return (pthread_key_t)(number - 1);
    pthread_mutex_lock(&making);
    if (!variable->number) {
        if (pthread_key_create(&key, free))
            abort();
        __atomic_store_n(&variable->number, (uintptr_t)key + 1, __ATOMIC_RELEASE);
    }
    key = (pthread_key_t)(variable->number - 1);
    pthread_mutex_unlock(&making);
    return key;
}

void *__emutls_get_address(struct thread_variable *variable)
{
    pthread_key_t key = key_of(variable);
    void *own = pthread_getspecific(key);
    if (own)
        return own;
    if (posix_memalign(&own, variable->align < sizeof own ? sizeof own : variable->align, variable->size) ||
        pthread_setspecific(key, own))
        abort();
    if (variable->initial)
        memcpy(own, variable->initial, variable->size);
    else
        memset(own, 0, variable->size);
    return own;
}

/* Open and closed files of a replay. */
#include "ioreplay/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/tests/tap.h"
#include "ioreplay/program.h"

static int open_one(void)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

static bool is_open(int file)
{
    return fcntl(file, F_GETFD) >= 0;
}

static void test_one(struct replay_descriptors *descriptors)
{
    int file = open_one();

    tap_ok(replay_descriptors_use(descriptors, 0) == -EBADF, "a number is not open before");
    tap_ok(replay_descriptors_open(descriptors, 0, file) == 0 && replay_descriptors_use(descriptors, 0) == file,
           "it is the file that was opened");
    replay_descriptors_unuse(descriptors, 0);
    tap_ok(is_open(file), "and stays open behind a call");
    tap_ok(replay_descriptors_close(descriptors, 0) == 0 && !is_open(file), "until it is closed");
    tap_ok(replay_descriptors_use(descriptors, 0) == -EBADF && replay_descriptors_close(descriptors, 0) == -EBADF,
           "and then it is not open");
}

/* Otherwise the call would use a later file with the same descriptor. */
static void test_close_in_use(struct replay_descriptors *descriptors)
{
    int file = open_one();

    replay_descriptors_open(descriptors, 1, file);
    tap_ok(replay_descriptors_use(descriptors, 1) == file && replay_descriptors_use(descriptors, 1) == file,
           "two calls are under way");
    tap_ok(replay_descriptors_close(descriptors, 1) == 0 && is_open(file), "a file that is closed stays for them");
    tap_ok(replay_descriptors_use(descriptors, 1) == -EBADF && replay_descriptors_close(descriptors, 1) == -EBADF &&
               is_open(file),
           "but for no others");
    replay_descriptors_unuse(descriptors, 1);
    tap_ok(is_open(file), "nor does the first of them close it");
    replay_descriptors_unuse(descriptors, 1);
    tap_ok(!is_open(file), "but the last");
}

static void test_no_number(struct replay_descriptors *descriptors)
{
    int file = open_one();

    tap_ok(replay_descriptors_open(descriptors, REPLAY_NONE, file) == 0 && !is_open(file),
           "what was not to be opened is closed");
    tap_ok(replay_descriptors_use(descriptors, REPLAY_NONE) == -EBADF, "and cannot be used");
}

static void test_end(struct replay_descriptors *descriptors)
{
    int file = open_one(), other = open_one();

    replay_descriptors_open(descriptors, 2, file);
    tap_ok(replay_descriptors_open(descriptors, 2, other) == -EBUSY && !is_open(other) && is_open(file),
           "one number is open once");
    replay_descriptors_free(descriptors);
    tap_ok(!is_open(file), "nothing stays open at the end");
}

int main(void)
{
    struct replay_descriptors *descriptors = replay_descriptors_make(3);

    test_one(descriptors);
    test_close_in_use(descriptors);
    test_no_number(descriptors);
    test_end(descriptors);
    return tap_done();
}

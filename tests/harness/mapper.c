// Creates the first device-mapper device of a guest without dmsetup: mapper SECTORS TYPE PARAMETERS
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define ROOM 4096

static int control;

static void must(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static struct dm_ioctl *request(void *room, unsigned flags)
{
    struct dm_ioctl *asked = room;
    memset(room, 0, ROOM);
    *asked = (struct dm_ioctl){.version = {4, 0, 0}, .data_size = ROOM, .data_start = sizeof *asked, .flags = flags};
    strcpy(asked->name, "mapped");
    return asked;
}

int main(int argc, char **argv)
{
    static _Alignas(struct dm_ioctl) char room[ROOM];
    must(argc == 4 && strlen(argv[3]) < ROOM / 2, "usage: mapper SECTORS TYPE PARAMETERS");
    control = open("/dev/mapper/control", O_RDWR);
    must(control >= 0, "/dev/mapper/control");
    must(ioctl(control, DM_DEV_CREATE, request(room, 0)) == 0, "DM_DEV_CREATE");
    struct dm_ioctl *table = request(room, 0);
    struct dm_target_spec *target = (void *)(room + table->data_start);
    table->target_count = 1;
    target->length = strtoull(argv[1], NULL, 10);
    snprintf(target->target_type, sizeof target->target_type, "%s", argv[2]);
    strcpy((char *)(target + 1), argv[3]);
    must(ioctl(control, DM_TABLE_LOAD, table) == 0, "DM_TABLE_LOAD");
    must(ioctl(control, DM_DEV_SUSPEND, request(room, 0)) == 0, "DM_DEV_SUSPEND");
    return 0;
}

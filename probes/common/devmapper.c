#include "common/devmapper.h"

#include <linux/dm-ioctl.h>

/* Bytes for the reply of the ioctl. The table of one linear target needs a fraction of them. */
enum { ANSWER_BYTES = 4096 };

/* Wipes the reply and copies only the device from it, because the table of dm-crypt contains the key. */
bool devmapper_linear(unsigned major, unsigned minor, char **target, uint64_t *start)
{
    int control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
    if (control < 0)
        control = open("/dev/device-mapper", O_RDWR | O_CLOEXEC);
    if (control < 0)
        return false;
    struct dm_ioctl *request = zeroed(ANSWER_BYTES, 1);
    request->version[0] = DM_VERSION_MAJOR;
    request->data_size = ANSWER_BYTES;
    request->data_start = sizeof *request;
    request->dev = (major << 8 & 0xfff00) | (minor & 0xff) | (uint64_t)(minor & ~0xffU) << 12;
    request->flags = DM_STATUS_TABLE_FLAG;
    struct dm_target_spec *spec = (struct dm_target_spec *)(request + 1);
    char device[16];
    int answer = ioctl(control, DM_TABLE_STATUS, request);
    close(control);
    bool linear = answer == 0 && request->target_count == 1 && strcmp(spec->target_type, "linear") == 0 &&
                  sscanf((char *)(spec + 1), "%15s %" SCNu64, device, start) == 2;
    if (linear)
        *target = format("%s", device);
    explicit_bzero(request, ANSWER_BYTES);
    free(request);
    return linear;
}

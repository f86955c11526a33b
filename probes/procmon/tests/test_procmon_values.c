/* Files of one value in a made /sys: phones have what this machine has not. */
#define _GNU_SOURCE
#include "procmon/procmon.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/tests/tap.h"

static char root[] = "/tmp/procmon-values-XXXXXX";

static void make(const char *path, const char *text)
{
    char *whole = format("%s%s", root, path);
    int file;

    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(whole, 0755);
        *slash = '/';
    }
    file = open(whole, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0 || write_all(file, text, strlen(text)) < 0)
        exit(1);
    close(file);
    free(whole);
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

static void forget(const char *path)
{
    char *whole = format("%s%s", root, path);

    unlink(whole);
    free(whole);
}

/* Every string of the file, for what must be in it somewhere. */
static bool has(const struct contents *file, const char *text)
{
    return memmem(file->data, file->size, text, strlen(text));
}

static const uint32_t sda12 = 8 << 20 | 12;

int main(void)
{
    bool groups[GROUPS];
    struct output out = {0};
    struct contents file;
    char *path;

    memset(groups, true, sizeof groups);
    if (!mkdtemp(root))
        return 1;
    make("/sys/fs/f2fs/sda12/dirty_segments", "17\n");
    make("/sys/fs/f2fs/sda12/gc_background_calls", "5\n");
    make("/sys/class/block/sda12/dev", "8:12\n");
    make("/sys/fs/f2fs/features/dirty_segments", "not a number\n");
    make("/sys/class/thermal/thermal_zone3/temp", "-4500\n");
    make("/sys/class/thermal/thermal_zone3/type", "skin \x1b[31m\n");
    make("/sys/devices/system/cpu/cpu7/cpufreq/scaling_cur_freq", "1800000\n");
    make("/sys/bus/mmc/devices/mmc0:0001/life_time", "0x01 0x0b\n");
    make("/sys/bus/mmc/devices/mmc0:0001/pre_eol_info", "0x02\n");
    make("/sys/bus/platform/drivers/ufshcd-qcom/1d84000.ufshc/health_descriptor/life_time_estimation_a", "0x03\n");
    make("/sys/bus/platform/drivers/ufshcd-qcom/1d84000.ufshc/attributes/wb_avail_buf", "0xA\n");
    path = format("%s/values.rec", root);
    out.record = record_open(path, &procmon_probe);
    if (!out.record)
        return 1;
    struct values *values = values_open(root, groups);
    values_read(values, &out, true);
    make("/sys/fs/f2fs/sda12/dirty_segments", "18\n");
    forget("/sys/class/thermal/thermal_zone3/temp");
    values_read(values, &out, true);
    tap_ok(out.count == 9, "%u counters", out.count);
    values_close(values, &out);
    tap_ok(!out.failed && record_close(out.record) == 0, "they are written");
    if (file_read(AT_FDCWD, path, &file) < 0)
        return 1;
    tap_ok(has(&file, "f2fs.dirty_segments") && has(&file, "f2fs.gc_background_calls") &&
               memmem(file.data, file.size, &sda12, sizeof sda12),
           "f2fs, with its device");
    tap_ok(has(&file, "thermal.temp") && has(&file, "thermal_zone3 skin \x1b[31m"), "a thermal zone with its type");
    tap_ok(has(&file, "cpufreq.scaling_cur_freq"), "frequency");
    tap_ok(has(&file, "mmc.life_time_a") && has(&file, "mmc.life_time_b") && has(&file, "mmc.pre_eol_info"), "eMMC");
    tap_ok(has(&file, "ufs.life_time_estimation_a") && has(&file, "1d84000.ufshc") && has(&file, "ufs.wb_avail_buf"),
           "UFS");
    free(file.data);
    free(path);
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}

/* Files that are read from a simulated /sys, because this machine lacks those of phones. */
#include "procmon/procmon.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/tests/tap.h"

static char root[] = "/tmp/procmon-files-XXXXXX";

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

/* Return whether `text` occurs anywhere in the file. */
static bool has(const struct contents *file, const char *text)
{
    return memmem(file->data, file->size, text, strlen(text));
}

static const struct {
    const char *path, *text;
} texts[] = {
    {"/proc/stat", "ctxt 7\n"},
    {"/sys/fs/f2fs/sda12/dirty_segments", "17\n"},
    {"/sys/fs/f2fs/sda12/gc_background_calls", "5\n"},
    {"/sys/class/block/sda12/dev", "8:12\n"},
    {"/sys/fs/f2fs/features/dirty_segments", "not a number\n"},
    {"/sys/class/thermal/thermal_zone3/temp", "-4500\n"},
    {"/sys/class/thermal/thermal_zone3/type", "skin \x1b[31m\n"},
    {"/sys/devices/system/cpu/cpu7/cpufreq/scaling_cur_freq", "1800000\n"},
    {"/sys/bus/mmc/devices/mmc0:0001/life_time", "0x01 0x0b\n"},
    {"/sys/bus/mmc/devices/mmc0:0001/pre_eol_info", "0x02\n"},
    {"/sys/bus/platform/drivers/ufshcd-qcom/1d84000.ufshc/health_descriptor/life_time_estimation_a", "0x03\n"},
    {"/sys/bus/platform/drivers/ufshcd-qcom/1d84000.ufshc/attributes/wb_avail_buf", "0xA\n"},
};

int main(void)
{
    bool groups[GROUPS];
    struct output out = {0};
    struct contents file;
    char *path;

    memset(groups, true, sizeof groups);
    if (!mkdtemp(root))
        return 1;
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++)
        make(texts[index].path, texts[index].text);
    make("/sys/fs/f2fs/sda12/not_read", "1\n");
    path = format("%s/values.rec", root);
    out.record = record_open(path, &procmon_probe);
    if (!out.record)
        return 1;
    struct files *files = files_open(root, groups);
    files_read(files, &out, true);
    make("/sys/fs/f2fs/sda12/dirty_segments", "18\n");
    forget("/sys/class/thermal/thermal_zone3/temp");
    files_read(files, &out, true);
    tap_ok(out.files == 12, "%u files", out.files);
    files_close(files, &out);
    tap_ok(!out.failed && record_close(out.record) == 0, "they are written");
    if (file_read(AT_FDCWD, path, &file) < 0)
        return 1;
    for (size_t index = 0; index < sizeof texts / sizeof *texts; index++)
        tap_ok(has(&file, texts[index].path) && has(&file, texts[index].text), "%s", texts[index].path);
    tap_ok(has(&file, "18\n") && !has(&file, "not_read"), "what it became, and no other file");
    free(out.bytes);
    free(file.data);
    free(path);
    nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return tap_done();
}

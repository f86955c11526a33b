#include "iotrace/iotrace.h"

#define GETPROP "/system/bin/getprop"

/* Return the value of a system property (freed by the caller), or NULL if it is empty or this is not Android. */
static char *property(const char *name)
{
    int pipe[2];
    if (access(GETPROP, X_OK) < 0 || pipe2(pipe, O_CLOEXEC) < 0)
        return NULL;
    pid_t child = fork();
    if (child == 0) {
        dup2(pipe[1], STDOUT_FILENO);
        execl(GETPROP, GETPROP, name, (char *)NULL);
        _exit(127);
    }
    close(pipe[1]);
    char *path = format("/proc/self/fd/%d", pipe[0]);
    char *value = child < 0 ? NULL : file_line(AT_FDCWD, path);
    free(path);
    close(pipe[0]);
    if (child > 0)
        waitpid(child, NULL, 0);
    if (value && !*value) {
        free(value);
        value = NULL;
    }
    return value;
}

static void property_json(struct json *json, const char *key, const char *name)
{
    char *value = property(name);
    json_string(json, key, value);
    free(value);
}

static void encryption_json(struct json *json)
{
    char *state = property("ro.crypto.state"), *type = property("ro.crypto.type");
    if (state && strcmp(state, "unencrypted") == 0)
        json_string(json, "encryption", "none");
    else
        json_string(json, "encryption", type && strcmp(type, "file") == 0 ? "fbe" : type);
    free(state);
    free(type);
}

void android_facts(struct json *json, const char *nodename)
{
    char *model = property("ro.product.model"), *sdk = property("ro.build.version.sdk");
    json_string(json, "device", model ? model : nodename);
    property_json(json, "soc", "ro.soc.model");
    property_json(json, "android_release", "ro.build.version.release");
    json_maybe(json, "sdk", sdk ? strtol(sdk, NULL, 10) : 0, sdk);
    property_json(json, "build_fingerprint", "ro.build.fingerprint");
    encryption_json(json);
    free(model);
    free(sdk);
}

/* Properties of a device that only Android has. */
#pragma once

#include "common/json.h"

/* Write members device, soc, android_release, sdk, build_fingerprint and encryption of a recording's facts, from
 * getprop. Without Android the device is `nodename` and the others are null. */
void android_facts(struct json *json, const char *nodename);

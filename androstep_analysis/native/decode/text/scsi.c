// Reads lines of the SCSI midlayer (kernel: include/trace/events/scsi.h, Linux 2.6.35 to 6.18).
#include "decode/text/scsi.h"

#include "core/scsi.h"

#include <inttypes.h>
#include <stdio.h>

enum { MAX_COMMAND = 260 };

struct name {
    const char *text;
    uint8_t number;
};

// include/scsi/scsi_status.h and core/scsi.h: all names that the kernel prints.
static const struct name DRIVERS[] = {
    {"DRIVER_OK", 0},      {"DRIVER_BUSY", 1},    {"DRIVER_SOFT", 2}, {"DRIVER_MEDIA", 3}, {"DRIVER_ERROR", 4},
    {"DRIVER_INVALID", 5}, {"DRIVER_TIMEOUT", 6}, {"DRIVER_HARD", 7}, {"DRIVER_SENSE", 8}, {NULL, 0},
};
static const struct name HOSTS[] = {
    {"DID_OK", 0x0},
    {"DID_NO_CONNECT", 0x1},
    {"DID_BUS_BUSY", 0x2},
    {"DID_TIME_OUT", 0x3},
    {"DID_BAD_TARGET", 0x4},
    {"DID_ABORT", 0x5},
    {"DID_PARITY", 0x6},
    {"DID_ERROR", 0x7},
    {"DID_RESET", 0x8},
    {"DID_BAD_INTR", 0x9},
    {"DID_PASSTHROUGH", 0xa},
    {"DID_SOFT_ERROR", 0xb},
    {"DID_IMM_RETRY", 0xc},
    {"DID_REQUEUE", 0xd},
    {"DID_TRANSPORT_DISRUPTED", 0xe},
    {"DID_TRANSPORT_FAILFAST", 0xf},
    {"DID_TARGET_FAILURE", 0x10},
    {"DID_NEXUS_FAILURE", 0x11},
    {"DID_ALLOC_FAILURE", 0x12},
    {"DID_MEDIUM_ERROR", 0x13},
    {"DID_TRANSPORT_MARGINAL", 0x14},
    {NULL, 0},
};
static const struct name MESSAGES[] = {{"COMMAND_COMPLETE", 0}, {NULL, 0}};
static const struct name STATUSES[] = {
    {"SAM_STAT_GOOD", 0x0},
    {"SAM_STAT_CHECK_CONDITION", 0x2},
    {"SAM_STAT_CONDITION_MET", 0x4},
    {"SAM_STAT_BUSY", 0x8},
    {"SAM_STAT_INTERMEDIATE", 0x10},
    {"SAM_STAT_INTERMEDIATE_CONDITION_MET", 0x14},
    {"SAM_STAT_RESERVATION_CONFLICT", 0x18},
    {"SAM_STAT_COMMAND_TERMINATED", 0x22},
    {"SAM_STAT_TASK_SET_FULL", 0x28},
    {"SAM_STAT_ACA_ACTIVE", 0x30},
    {"SAM_STAT_TASK_ABORTED", 0x40},
    {NULL, 0},
};

static bool take_named(struct text *text, const char *label, uint64_t *number)
{
    return take_word(text, label) && take_number(text, number);
}

static bool take_hex_digit(struct text *text, uint8_t *digit)
{
    static const char digits[] = "0123456789abcdef";
    const char *found = text->at < text->end && *text->at ? strchr(digits, *text->at) : NULL;

    if (!found)
        return false;
    *digit = (uint8_t)(found - digits);
    text->at++;
    return true;
}

// Reads bytes in the format of __print_hex: two digits each, separated by spaces.
static size_t take_bytes_of_command(struct text *text, uint8_t *bytes)
{
    size_t length = 0;
    uint8_t high, low;

    while (length < MAX_COMMAND && take_hex_digit(text, &high) && take_hex_digit(text, &low)) {
        bytes[length++] = (uint8_t)(high << 4 | low);
        take_byte(text, ' ');
    }
    return length;
}

static bool take_name(struct text *text, const char *label, const struct name *names, uint32_t *number)
{
    struct text name;

    if (!take_word(text, label))
        return false;
    name.at = text->at;
    while (text->at < text->end && *text->at != ' ' && *text->at != ')')
        text->at++;
    name.end = text->at;
    for (; names->text; names++)
        if (text_is(name, names->text)) {
            *number = names->number;
            return true;
        }
    return false;
}

// Combines the result word of the midlayer from its bytes, which are printed as names.
static int32_t result_of(struct text text)
{
    uint32_t driver, host, message, status;

    if (!take_name(&text, "driver=", DRIVERS, &driver) || !take_name(&text, " host=", HOSTS, &host) ||
        !take_name(&text, " message=", MESSAGES, &message) || !take_name(&text, " status=", STATUSES, &status))
        return NO_INT32;
    return (int32_t)(driver << 24 | host << 16 | message << 8 | status);
}

bool take_scsi_command(struct text text, struct scsi_command *command)
{
    uint64_t host, channel, id, lun, lba, blocks;
    uint8_t bytes[MAX_COMMAND];
    struct text tag;
    int64_t number;
    size_t length;

    if (!take_named(&text, "host_no=", &host) || !take_named(&text, " channel=", &channel) ||
        !take_named(&text, " id=", &id) || !take_named(&text, " lun=", &lun))
        return false;
    *command = (struct scsi_command){.tag = NO_INT32, .lba = NO_INT64, .nr_blocks = NO_INT64, .result = NO_INT32};
    snprintf(command->device, sizeof(command->device), "%" PRIu64 ":%" PRIu64 ":%" PRIu64 ":%" PRIu64, host, channel,
             id, lun);
    tag = text;
    if (take_past(&tag, " driver_tag=") && take_signed(&tag, &number))
        command->tag = int32_of_signed(number);
    if (!take_past(&text, " raw="))
        return false;
    length = take_bytes_of_command(&text, bytes);
    if (!length || !take_byte(&text, ')'))
        return false;
    command->opcode = bytes[0];
    if (scsi_blocks(bytes, length, &lba, &blocks)) {
        command->lba = int64_of(lba);
        command->nr_blocks = int64_of(blocks);
    }
    if (take_word(&text, " rtn=") && take_signed(&text, &number))
        command->result = int32_of_signed(number);
    else if (take_word(&text, " result=("))
        command->result = result_of(text);
    return true;
}

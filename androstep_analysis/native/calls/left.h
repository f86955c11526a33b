// Reasons why rows of recorded calls are omitted from a program.
#pragma once

// What a descriptor or path is, or why a row is omitted; LEFT_NOT: a file. The names are in replay/clean.py.
enum left {
    LEFT_NOT,
    LEFT_SOCKET,
    LEFT_PIPE,
    LEFT_ANON,
    LEFT_MEMFD,
    LEFT_ASHMEM,
    LEFT_DEVICE,
    LEFT_PROC,
    LEFT_MEMORY,
    LEFT_UNKNOWN,
    LEFT_NO_PATH,
    LEFT_PROCESS,
    LEFT_UNSUPPORTED,
    LEFT_NO_EFFECT,
    LEFT_UNFINISHED,
    LEFT_FILTERED,
};

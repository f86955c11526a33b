/* Program start for Android's C library (bionic, arm64), and the symbols that have other names in bionic than in musl,
 * whose headers the program is compiled with. */
#include <errno.h>
#include <string.h>

int *__errno(void);
int main(int argc, char **argv, char **environment);
void _start(void);

typedef int main_function(int argc, char **argv, char **environment);

/* Lists of functions to run before and after main; C programs have none. They are three words in older versions of
 * bionic and six in newer ones. */
struct structors {
    void *lists[6];
};

_Noreturn void __libc_init(void *arguments, void (*on_exit)(void), main_function *main, const struct structors *lists);

char *program_invocation_short_name;

static int named_main(int argc, char **argv, char **environment)
{
    char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    program_invocation_short_name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
    return main(argc, argv, environment);
}

/* The dynamic linker jumps to _start with the arguments on the stack. */
__attribute__((used)) static void start(void *arguments)
{
    static const struct structors none;
    __libc_init(arguments, NULL, named_main, &none);
}

__asm__(".text\n"
        ".globl _start\n"
        ".type _start, %function\n"
        "_start:\n"
        "    mov x29, #0\n"
        "    mov x30, #0\n"
        "    mov x0, sp\n"
        "    b start\n"
        ".size _start, .-_start\n");

int *__errno_location(void)
{
    return __errno();
}

#include <stdio.h>

int main(void) {
    puts("to stdout");
    fputs("to stderr\n", stderr);
    return 0;
}

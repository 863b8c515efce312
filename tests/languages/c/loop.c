#include <stdio.h>

int main(void) {
    puts("before");
    fflush(stdout);
    for (volatile int i = 0;; i++)
        ;
}

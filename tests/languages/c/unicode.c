#include <stdio.h>

int main(void) {
    puts("grüße 世界 🦀");
    return 0;
}

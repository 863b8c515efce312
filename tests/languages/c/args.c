#include <stdio.h>

int main(int argc, char **argv) {
    printf("%d\n", argc - 1);
    for (int i = 1; i < argc; i++)
        puts(argv[i]);
    return 0;
}

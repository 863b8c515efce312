#include <iostream>

int main(int argc, char **argv) {
    std::cout << argc - 1 << "\n";
    for (int i = 1; i < argc; i++)
        std::cout << argv[i] << "\n";
}

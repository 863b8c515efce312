#include <iostream>

int main() {
    std::cout << "before" << std::endl;
    volatile bool on = true;
    while (on)
        ;
}

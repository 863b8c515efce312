#include <iostream>

int main() {
    std::cout << "before\n";
    return 7;
}

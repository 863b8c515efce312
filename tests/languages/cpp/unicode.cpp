#include <iostream>

int main() {
    std::cout << "grüße 世界 🦀\n";
}

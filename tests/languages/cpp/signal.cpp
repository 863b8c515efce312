#include <cstdlib>
#include <iostream>

int main() {
    std::cout << "before" << std::endl;
    std::abort();
}

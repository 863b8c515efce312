#include <iostream>

int main() {
    long sum = 0;
    for (long number; std::cin >> number;)
        sum += number;
    std::cout << sum << "\n";
}

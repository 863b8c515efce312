"""Makes a tree: the arguments are its folder and how many files it has. One in ten is
Python, and one in a hundred of these has what is looked for."""

import os
import sys

folder, files = sys.argv[1], int(sys.argv[2])
line = "the quick brown fox jumps over the lazy dog, again and again, {}\n"
for n in range(files):
    place = f"{folder}/d{n // 500}/e{n // 50 % 10}"
    if n % 50 == 0:
        os.makedirs(place, exist_ok=True)
    text = "".join(line.format(n * k) for k in range(30))
    if n % 1000 == 0:
        text += "def needle_in_haystack():\n    pass\n"
    ending = "py" if n % 10 == 0 else "txt"
    with open(f"{place}/f{n}.{ending}", "w", encoding="utf-8") as file:
        file.write(text)
print("made")

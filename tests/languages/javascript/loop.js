require("fs").writeSync(1, "before\n");
for (;;) {}

import { writeSync } from "fs";

writeSync(1, "before\n");
for (;;) {}

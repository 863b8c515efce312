import { readFileSync } from "fs";

const lines: string[] = readFileSync(0, "utf8").trim().split("\n");
console.log(lines.map(Number).reduce((a: number, b: number) => a + b, 0));

const lines = require("fs").readFileSync(0, "utf8").trim().split("\n");
console.log(lines.map(Number).reduce((a, b) => a + b, 0));

console.log("before");
process.exit(7 as number);

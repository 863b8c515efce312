console.log("before");
process.exit(7);

const args = process.argv.slice(2);
console.log(args.length);
for (const arg of args) console.log(arg);

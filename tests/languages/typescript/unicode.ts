const text: string = "grüße 世界 🦀";
console.log(text);

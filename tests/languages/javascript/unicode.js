console.log("grüße 世界 🦀");

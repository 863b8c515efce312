cat("grüße 世界 🦀\n")

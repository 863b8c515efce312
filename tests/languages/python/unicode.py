print("grüße 世界 🦀")

puts "grüße 世界 🦀"

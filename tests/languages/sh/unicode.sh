echo "grüße 世界 🦀"

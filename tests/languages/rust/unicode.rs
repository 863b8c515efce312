fn main() {
    println!("grüße 世界 🦀");
}

fn main() {
    println!("to stdout");
    eprintln!("to stderr");
}

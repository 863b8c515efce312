fn main() {
    println!("before");
    std::process::abort();
}

fn main() {
    println!("before");
    loop {
        std::hint::spin_loop();
    }
}

fn main() {
    println!("{}", no_such_thing);
}

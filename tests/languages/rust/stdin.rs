use std::io::BufRead;

fn main() {
    let lines = std::io::stdin().lock().lines();
    let sum: i64 = lines.map(|line| line.unwrap().trim().parse::<i64>().unwrap()).sum();
    println!("{sum}");
}

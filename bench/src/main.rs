//! Clearway's side of the benchmarks.

mod memory;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["memory", size] => {
            memory::run(size.parse().unwrap_or(1 << 28));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("usage: clearway-bench memory BYTES");
            ExitCode::FAILURE
        }
    }
}

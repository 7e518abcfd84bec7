//! One operation of `clearway_limits::cost`, to be counted by an instrument outside: see `cargo xtask cost`.

use std::process::ExitCode;

use clearway_limits::cost;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let operations = cost::all();
    match words.as_slice() {
        [] => {
            for (place, operation) in operations.iter().enumerate() {
                let [few, some, many] = operation.counts;
                println!("{place}\t{}\t{}\t{few}\t{some}\t{many}", operation.name, operation.of);
            }
            ExitCode::SUCCESS
        }
        [place, count] => {
            let operation = place.parse().ok().and_then(|place: usize| operations.get(place));
            let (Some(operation), Ok(count)) = (operation, count.parse()) else {
                eprintln!("clearway-cost: there is no such operation, or no such count");
                return ExitCode::FAILURE;
            };
            operation.run(count);
            println!("{}", cost::REPETITIONS);
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("clearway-cost: [OPERATION COUNT]; without them the operations are listed");
            ExitCode::FAILURE
        }
    }
}

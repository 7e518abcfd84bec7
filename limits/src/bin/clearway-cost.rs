//! Runs one operation of `clearway_limits::cost` while valgrind counts its instructions; see `cargo
//! xtask cost`.

use std::process::ExitCode;

use clearway_limits::cost;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let operations = cost::all();
    match words.as_slice() {
        [] => {
            for (place, operation) in operations.iter().enumerate() {
                let name = operation.name;
                match operation.many() {
                    Some((of, [few, some, many])) => {
                        println!("{place}\t{name}\t{of}\t{few}\t{some}\t{many}");
                    }
                    None => println!("{place}\t{name}"),
                }
            }
            ExitCode::SUCCESS
        }
        [place, count] => {
            let operation = place.parse().ok().and_then(|place: usize| operations.get(place));
            let (Some(operation), Ok(count)) = (operation, count.parse()) else {
                eprintln!("clearway-cost: no operation {place}, or {count} is not a number");
                return ExitCode::FAILURE;
            };
            operation.run(count);
            println!("{}", cost::REPETITIONS);
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!(
                "usage: clearway-cost [OPERATION COUNT]; without arguments it lists the operations"
            );
            ExitCode::FAILURE
        }
    }
}

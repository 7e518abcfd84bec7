//! The project's chores, run as `cargo xtask COMMAND`.

mod bench;
mod command;
mod cost;
mod fuzz;
mod gallery;
mod measure;
mod mutants;
mod surface;
mod test;
mod viewer;

use std::process::ExitCode;

const HELP: &str = "\
The project's chores.

  cargo xtask test           everything that has to hold: format, lints, tests, documentation
        --peers              also against other QUIC stacks (builds them; see interop/peers)
        --gallery            also the marked patches of the gallery (without it they only have to apply)
        --viewer             also the viewer's page: that it is what its source makes, and its tests in a browser
        --cost       also `cargo xtask cost`
        --fuzz       also `cargo xtask fuzz`
  cargo xtask bench bulk     1 GiB over one connection, Clearway and quinn in turn
        --case h3|raw        only one of the two cases
        --size BYTES         how much (default 1073741824)
        --pairs N            how many pairs of runs (default 5)
        --datagram-size N    UDP payload of both stacks (default 1452)
        --json               one object per case
  cargo xtask cost           instructions of single operations with few and with many streams, connections, lost
                             packets and fragments (needs valgrind)
  cargo xtask viewer --types the TypeScript types of what the program sends the viewer's page, from the Rust ones
  cargo xtask fuzz [TARGET]… every decoder of a peer's bytes and of files, with inputs that grow to cover its code
        --seconds N          how long each target runs (default 20)
  cargo xtask surface        whether what the crates make public is what docs/surface has
        --write              what they make public, to docs/surface
  cargo xtask gallery        the field's published bugs, put into our code one at a time
        --only NAME          only this patch, or the patches of this row; may be given several times
        --marked             only rows whose account was published in full
        --check              only whether all patches apply
        --write              the table of gallery/README.md anew
        --json               one object per patch, and a last one with the score
  cargo xtask mutants        small changes to congestion control and recovery, which a test has to notice
        --sample N           how many of them (default 300)
        --seed N             which of them (default 1)
        --only PART          of these, only those whose name has this part
        --list               only their names
        --json               one object per mutant, and a last one with the score
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["test", rest @ ..] => test::run(rest),
        ["bench", "bulk", rest @ ..] => bench::run(rest),
        ["cost", rest @ ..] => cost::run(rest),
        ["fuzz", rest @ ..] => fuzz::run(rest),
        ["gallery", rest @ ..] => gallery::run(rest),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["surface", rest @ ..] => surface::run(rest),
        ["viewer", "--types"] => viewer::write_types(),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("there is no such chore: {}\n\n{HELP}", arguments.join(" "))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

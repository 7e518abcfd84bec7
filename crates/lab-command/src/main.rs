//! `clearway lab` as a separate program.

use std::process::ExitCode;

use clap::Parser;
use clearway_lab_command::{LabCommand, run};
use clearway_terminal::failure::Failure;
use clearway_terminal::output::conclude;
use clearway_terminal::output::refusal;

/// The same allocator as in `clearway`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser, Debug)]
#[command(name = "clearway-lab", version, arg_required_else_help = true)]
struct Program {
    #[command(flatten)]
    command: LabCommand,
}

fn main() -> ExitCode {
    let Program { command } = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => {
            refusal(&error.render().to_string(), || drop(error.print()));
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start threads: {error}")));
    conclude("clearway-lab", runtime.and_then(|runtime| runtime.block_on(run(command))))
}

//! `clearway lab` alone.

use std::process::ExitCode;

use clap::Parser;
use clearway_lab_command::{LabCommand, run};
use clearway_terminal::output;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser, Debug)]
#[command(name = "clearway-lab", version, arg_required_else_help = true)]
struct Program {
    #[command(flatten)]
    command: LabCommand,
}

fn main() -> ExitCode {
    let Program { command } = Program::parse();
    let outcome = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = match outcome {
        Ok(runtime) => runtime.block_on(run(command)).map_err(|failure| {
            output::status(&format!("clearway-lab: {failure}"));
            failure.exit_status()
        }),
        Err(error) => {
            output::status(&format!("clearway-lab: cannot start threads: {error}"));
            Err(1)
        }
    };
    outcome.map_or_else(ExitCode::from, |()| ExitCode::SUCCESS)
}

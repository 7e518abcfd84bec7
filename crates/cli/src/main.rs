//! The `clearway` program.

/// Millions of small allocations of connections that come and go: mimalloc takes less time and gives more back than the C
/// library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    clearway_cli::main()
}

//! The `clearway` program.

/// Connections cause millions of small allocations: mimalloc is faster and returns more memory than
/// the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    clearway_cli::main()
}

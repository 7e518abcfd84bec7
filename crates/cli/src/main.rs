//! The `clearway` program.

/// Connections cause millions of small allocations; mimalloc is faster than the C library's
/// allocator and returns more memory to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    clearway_cli::main()
}

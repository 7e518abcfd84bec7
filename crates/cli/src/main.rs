//! The `clearway` program.

/// Connections cause millions of small allocations: mimalloc is faster and returns more memory than
/// the C library's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    if std::env::var_os("MIMALLOC_ALLOW_THP").is_none() {
        // While a huge page is zeroed at its first use, all connections of a shard wait
        // (bench/PROFILE.md, "Overload").
        let _ = rustix::thread::disable_transparent_huge_pages(true);
    }
    clearway_cli::main()
}

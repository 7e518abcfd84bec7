mod accounting;
mod identity;
mod limits;
mod losses;
mod memory;
mod numbers;
mod probes;

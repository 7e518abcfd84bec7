mod accounting;
mod identity;
mod limits;
mod losses;
mod numbers;
mod probes;

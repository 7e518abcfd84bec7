#[path = "connection_tests/conformance.rs"]
mod conformance;
#[path = "connection_tests/datagrams.rs"]
mod datagrams;
#[path = "connection_tests/exchange.rs"]
mod exchange;
#[path = "connection_tests/limits.rs"]
mod limits;
#[path = "connection_tests/link.rs"]
mod link;
#[path = "connection_tests/malformed.rs"]
mod malformed;
#[path = "connection_tests/pair.rs"]
mod pair;
#[path = "connection_tests/priorities.rs"]
mod priorities;
#[path = "connection_tests/qpack.rs"]
mod qpack;
#[path = "connection_tests/robustness.rs"]
mod robustness;
#[path = "connection_tests/sending.rs"]
mod sending;
#[path = "connection_tests/streams.rs"]
mod streams;
#[path = "connection_tests/tunnels.rs"]
mod tunnels;

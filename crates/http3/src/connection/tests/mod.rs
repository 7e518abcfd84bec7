mod exchange;
mod limits;
mod link;
mod malformed;
mod pair;
mod robustness;
mod sending;
mod streams;

//! What holds for every controller that is built on the base.

mod growth;
mod loss;
mod random;
mod recovery;
mod response;

//! HTTP/3 for [tower](tower_service) services, on Clearway.
//!
//! Clients of HTTP/1.1 and HTTP/2 learn from the Alt-Svc field of a response that a server also
//! supports HTTP/3: [`AltSvcLayer`] adds it to the responses of any service.

mod alt_svc;

pub use alt_svc::{AltSvc, AltSvcFuture, AltSvcLayer};

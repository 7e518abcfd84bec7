//! The probe against Clearway's own server and client, and against broken ones.

mod basics;
mod support;
mod servers;
mod clients;

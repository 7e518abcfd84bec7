//! The probe against Clearway's own server and client, and against broken ones.

mod basics;
mod broken;
mod clients;
mod servers;
mod support;

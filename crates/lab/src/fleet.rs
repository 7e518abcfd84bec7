//! Fleets in virtual time: clients, two load balancers whose tables may differ in age, and servers
//! that are added, drained, fail, and change their connection ID configuration. For each datagram,
//! the decision of `clearway-balancer` is compared with the server that owns the connection.
//!
//! ```
//! use clearway_lab::fleet::{Settings, Size, simulate};
//!
//! let size = Size { servers: 10, connections: 100 };
//! let report = simulate(1, &Settings::of_seed(1, size));
//! assert!(report.opened >= 100 && report.violations.is_empty());
//! ```

mod attackers;
mod clients;
mod connection;
mod datagrams;
mod report;
mod rules;
mod servers;
mod settings;
mod sweep;
mod tables;
mod world;

pub use report::{Report, Violation};
pub use rules::{FleetRule, Reason};
pub use settings::{Circumstance, Form, Settings, Size};
pub use sweep::sweep;
pub use world::simulate;

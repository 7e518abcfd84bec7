//! The source of the logs of live connections.

use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::http1;

/// Maximum size of a list of connections, in bytes.
const MAX_LIST: u64 = 1 << 20;

/// The address of a program that runs with `--live`, and optionally the name of one of its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Origin {
    authority: String,
    name: Option<String>,
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix("http://").unwrap_or(text);
        let (authority, name) = text.split_once('/').unwrap_or((text, ""));
        let authority: http::uri::Authority =
            authority.parse().map_err(|error| format!("{error}"))?;
        if authority.port().is_none() {
            return Err("the address has no port (example: 127.0.0.1:4480)".to_owned());
        }
        let name = Some(name.to_owned()).filter(|name| !name.is_empty());
        Ok(Self { authority: authority.to_string(), name })
    }
}

/// A connection that can be followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) has_ended: bool,
}

impl Origin {
    /// Returns the address, for messages.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the connections, the newest last; only the selected one if a name was given.
    ///
    /// # Errors
    ///
    /// Returns an error if the list cannot be read. The error states the reason.
    pub(super) fn list(&self) -> Result<Vec<Listed>, String> {
        let entries: Vec<Value> = serde_json::from_reader(self.get("")?.take(MAX_LIST))
            .map_err(|_| "the response is not a list of traces".to_owned())?;
        let listed = entries.iter().filter_map(|entry| {
            let name = entry.get("name")?.as_str()?.to_owned();
            Some(Listed { name, has_ended: entry.get("has_ended")?.as_bool()? })
        });
        Ok(listed.filter(|it| self.name.as_ref().is_none_or(|name| *name == it.name)).collect())
    }

    /// Opens a connection's log, which can be read while it is being written.
    ///
    /// # Errors
    ///
    /// Returns an error if the log cannot be opened. The error states the reason.
    pub(super) fn open(&self, name: &str) -> Result<http1::Download, String> {
        self.get(name)
    }

    /// Sends a request to the resolved IP address, so that the server accepts it regardless of the
    /// host name that the user passed.
    fn get(&self, name: &str) -> Result<http1::Download, String> {
        let path = format!("/{}", utf8_percent_encode(name, NON_ALPHANUMERIC));
        let mut why = format!("{} has no addresses", self.authority);
        for address in self.addresses()? {
            match http1::get(address, &path) {
                Ok(content) => return Ok(content),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn addresses(&self) -> Result<impl Iterator<Item = SocketAddr>, String> {
        self.authority.to_socket_addrs().map_err(|error| format!("{}: {error}", self.authority))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_an_address_and_optionally_a_name() {
        let origin = |authority: &str, name: Option<&str>| Origin {
            authority: authority.to_owned(),
            name: name.map(str::to_owned),
        };
        assert_eq!("127.0.0.1:4480".parse(), Ok(origin("127.0.0.1:4480", None)));
        assert_eq!("http://[::1]:1/".parse(), Ok(origin("[::1]:1", None)));
        assert_eq!("host:1/a.sqlog".parse(), Ok(origin("host:1", Some("a.sqlog"))));
        for wrong in ["", "host", "https://host:1", "a b:1"] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }
}

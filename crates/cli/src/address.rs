use std::net::SocketAddr;

use crate::failure::Failure;

/// The addresses of `host:port`, in the order of the system's resolver.
///
/// # Errors
///
/// If the name cannot be resolved, or has no address.
pub(crate) async fn resolve(target: &str) -> Result<Vec<SocketAddr>, Failure> {
    let unknown = |why: String| {
        Failure::new(format!("cannot resolve {target}: {why}"))
            .advise("check the name, and whether this machine can reach a name server")
    };
    if let Some((_, port)) = target.rsplit_once(':')
        && port.parse::<u16>().is_err()
    {
        return Err(Failure::new(format!("{target} has no valid port"))
            .advise("write it as host:port, such as 127.0.0.1:4433"));
    }
    if !target.contains(':') {
        return Err(Failure::new(format!("{target} has no port"))
            .advise("write it as host:port, such as 127.0.0.1:4433"));
    }
    let addresses: Vec<_> = match tokio::net::lookup_host(target).await {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(unknown(error.to_string())),
    };
    match addresses.is_empty() {
        true => Err(unknown("it has no address".to_owned())),
        false => Ok(addresses),
    }
}

/// The first address of `host:port` that is of the same family (IPv4 or IPv6) as `like`, or else its first address.
///
/// # Errors
///
/// If the name cannot be resolved, or has no address.
pub(crate) async fn resolve_one(
    target: &str,
    like: Option<SocketAddr>,
) -> Result<SocketAddr, Failure> {
    let addresses = resolve(target).await?;
    let alike =
        |address: &&SocketAddr| like.is_some_and(|like| like.is_ipv4() == address.is_ipv4());
    let found = addresses.iter().find(alike).or(addresses.first()).copied();
    found.ok_or_else(|| Failure::new(format!("{target} has no address")))
}

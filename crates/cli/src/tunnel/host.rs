//! The addresses, the MTU and the routes of the client's host.

use std::collections::BTreeSet;
use std::net::IpAddr;

use clearway::masque::IpTunnel;
use ipnet::IpNet;

use crate::failure::Failure;
use crate::output;
use crate::tun::{Detour, Tun};

/// The client's TUN device, and what was set up for it.
pub(super) struct Host {
    tun: Tun,
    /// The routes that the user wants.
    wanted: Vec<IpNet>,
    /// The address of the proxy, which must not be reached through the tunnel.
    proxy: IpAddr,
    wanted_mtu: u16,
    mtu: u16,
    addresses: BTreeSet<IpNet>,
    routes: BTreeSet<IpNet>,
    detour: Option<Detour>,
    is_announced: bool,
}

impl Host {
    pub(super) fn new(tun: Tun, wanted: Vec<IpNet>, proxy: IpAddr, mtu: u16) -> Self {
        Self {
            tun,
            wanted,
            proxy: proxy.to_canonical(),
            wanted_mtu: mtu,
            mtu,
            addresses: BTreeSet::new(),
            routes: BTreeSet::new(),
            detour: None,
            is_announced: false,
        }
    }

    pub(super) fn tun(&self) -> &Tun {
        &self.tun
    }

    /// Returns the MTU of the device in bytes.
    pub(super) fn mtu(&self) -> usize {
        self.mtu.into()
    }

    /// Returns whether the tunnel was announced, which happens once it has addresses and routes.
    pub(super) fn is_announced(&self) -> bool {
        self.is_announced
    }

    /// Applies the tunnel's current addresses, routes and MTU to this host.
    pub(super) async fn follow(&mut self, tunnel: &IpTunnel, proxy: &str) -> Result<(), Failure> {
        self.follow_mtu(tunnel)?;
        let assigned: BTreeSet<IpNet> = tunnel.addresses().iter().copied().collect();
        for old in self.addresses.difference(&assigned) {
            self.tun.remove_address(*old).await?;
        }
        for new in assigned.difference(&self.addresses) {
            self.tun.add_address(*new).await?;
        }
        self.addresses = assigned;
        // The tunnel drops packets for which the proxy advertises no route.
        if self.addresses.is_empty() || tunnel.routes().ranges().is_empty() {
            return Ok(());
        }
        self.add_routes().await?;
        if !self.is_announced {
            self.is_announced = true;
            self.announce(tunnel, proxy);
        }
        Ok(())
    }

    /// Sets the device's MTU to the tunnel's current maximum packet size, limited by the requested
    /// MTU.
    pub(super) fn follow_mtu(&mut self, tunnel: &IpTunnel) -> Result<(), Failure> {
        let maximum = tunnel.max_packet().and_then(|maximum| u16::try_from(maximum).ok());
        let mtu = maximum.map_or(self.wanted_mtu, |maximum| maximum.min(self.wanted_mtu));
        if mtu != self.mtu {
            self.tun.set_mtu(mtu)?;
            self.mtu = mtu;
        }
        Ok(())
    }

    async fn add_routes(&mut self) -> Result<(), Failure> {
        let is_v4 = |prefix: &IpNet| matches!(prefix, IpNet::V4(_));
        for prefix in self.wanted.clone() {
            let is_served = self.addresses.iter().any(|it| is_v4(it) == is_v4(&prefix));
            if !is_served || self.routes.contains(&prefix) {
                continue;
            }
            if prefix.contains(&self.proxy) && self.detour.is_none() {
                self.detour = self.tun.keep_reachable(self.proxy).await?;
            }
            self.tun.add_route(prefix).await?;
            self.routes.insert(prefix);
        }
        Ok(())
    }

    fn announce(&self, tunnel: &IpTunnel, proxy: &str) {
        let list = |prefixes: &BTreeSet<IpNet>| {
            prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        output::event(&format!(
            "tunnel through {proxy}: {} on {}, MTU {}, routes {}",
            list(&self.addresses),
            self.tun.name(),
            self.mtu,
            list(&self.routes),
        ));
        for prefix in &self.wanted {
            let ends = [prefix.network(), prefix.broadcast()];
            let has = |end: &IpAddr| {
                let ranges = tunnel.routes().ranges();
                ranges.iter().any(|it| {
                    it.start.is_ipv4() == end.is_ipv4() && it.start <= *end && *end <= it.end
                })
            };
            if !self.routes.contains(prefix) {
                output::status(&format!(
                    "no packets for {prefix}: the proxy has assigned no address of this IP version"
                ));
            } else if !ends.iter().all(has) {
                output::status(&format!("the proxy does not route all of {prefix}"));
            }
        }
    }

    /// Removes the route to the proxy. The others disappear with the device.
    pub(super) async fn restore(self) -> Result<(), Failure> {
        match self.detour {
            Some(detour) => detour.remove().await,
            None => Ok(()),
        }
    }
}

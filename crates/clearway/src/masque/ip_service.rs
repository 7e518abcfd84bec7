//! The part of a proxy that serves IP tunnels.

use core::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clearway_masque::QueueLimits;
use clearway_masque::ip::{AssignedAddress, OwnAddresses, RequestedAddress, Routes};
use clearway_masque::policy::Policy;
use clearway_masque::pool::AddressPool;
use clearway_masque::target::{IpScope, ScopeTarget};

use super::ip_relay::{IpRelayOptions, IpRules, Verdict};
use super::router::{IpPort, IpRouter};

/// Settings of a proxy for IP tunnels.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct IpOptions {
    /// The addresses for clients. The gateway address of each prefix belongs to the proxy: the
    /// kernel must route the prefixes to the device, but must not have an address in them itself.
    pub pool: AddressPool,
    /// The device that all tunnels share. Its [`IpRouter::run`] has to be polled.
    pub router: IpRouter,
    /// Maximum number of addresses that a tunnel can have. The default is 2: one of each IP version.
    pub addresses_per_tunnel: usize,
    /// Limits on the packets queued for a tunnel.
    pub queue: QueueLimits,
}

impl IpOptions {
    /// Creates settings with default values.
    pub fn new(pool: AddressPool, router: IpRouter) -> Self {
        // A TCP connection sends bursts as large as the congestion window, which a tunnel should
        // not lose.
        let queue = QueueLimits { datagrams: 2048, bytes: 2 << 20 };
        Self { pool, router, addresses_per_tunnel: 2, queue }
    }
}

/// The IP tunnels of a proxy.
pub(super) struct IpService {
    pool: Mutex<AddressPool>,
    own: OwnAddresses,
    options: IpOptions,
}

impl IpService {
    pub(super) fn new(options: IpOptions) -> Self {
        let mut own = OwnAddresses::default();
        for gateway in options.pool.gateways() {
            match gateway {
                IpAddr::V4(address) => _ = own.v4.get_or_insert(address),
                IpAddr::V6(address) => _ = own.v6.get_or_insert(address),
            }
        }
        Self { pool: Mutex::new(options.pool.clone()), own, options }
    }

    fn pool(&self) -> MutexGuard<'_, AddressPool> {
        // No code that panics runs while the lock is held.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the relay settings for a tunnel with this scope. If the scope contains a name,
    /// `resolved` contains the name's addresses.
    pub(super) fn relay(&self, scope: &IpScope, resolved: &[IpAddr]) -> IpRelayOptions {
        let (has_v4, has_v6) = (self.own.v4.is_some(), self.own.v6.is_some());
        let routes = Routes::for_scope(scope, resolved, has_v4, has_v6);
        IpRelayOptions::new(scope.protocol, self.own, routes)
    }

    pub(super) fn port(&self) -> IpPort {
        self.options.router.port(self.options.queue)
    }
}

/// The policy for one tunnel. When this is dropped, the tunnel's addresses return to the pool.
pub(super) struct TunnelRules<P> {
    pub(super) service: Arc<IpService>,
    pub(super) port: IpPort,
    pub(super) policy: Policy,
    pub(super) scope: IpScope,
    /// Returns whether the client's bandwidth limit permits this number of bytes.
    pub(super) permits: P,
    /// The tunnel's addresses, shared with the log.
    pub(super) addresses: Arc<Mutex<Vec<IpAddr>>>,
}

impl<P> TunnelRules<P> {
    fn addresses(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: FnMut(usize) -> bool + Send> IpRules for TunnelRules<P> {
    fn assign(&mut self, request: &RequestedAddress) -> AssignedAddress {
        let mut addresses = self.addresses();
        if addresses.len() >= self.service.options.addresses_per_tunnel {
            return AssignedAddress::rejection(request);
        }
        let answer = self.service.pool().answer(request);
        if !answer.is_rejection() {
            let address = answer.prefix.addr();
            // The pool never assigns an address twice, so no other port has it.
            self.port.add(address);
            addresses.push(address);
        }
        answer
    }

    fn check(&mut self, destination: IpAddr, length: usize) -> Verdict {
        if !(self.permits)(length) {
            return Verdict::Drop;
        }
        // The addresses of a name were checked when it was resolved, and are the only routes.
        let is_resolved = matches!(self.scope.target, ScopeTarget::Name(_));
        match is_resolved || self.policy.check_destination(destination).is_ok() {
            true => Verdict::Pass,
            false => Verdict::Prohibit,
        }
    }

    fn permits(&mut self, length: usize) -> bool {
        (self.permits)(length)
    }
}

impl<P> Drop for TunnelRules<P> {
    fn drop(&mut self) {
        let mut pool = self.service.pool();
        for address in self.addresses().iter() {
            self.port.remove(*address);
            pool.release(*address);
        }
    }
}

//! The checker's own recovery period, in send order (RFC 9002 §7.3.2).

/// The state since the last window reduction.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::checker) struct Episode {
    /// The report with which the period began. Losses in this report or later belong to this
    /// period.
    pub(in crate::checker) event: u64,
    /// The first packet sent after the last window reduction.
    pub(in crate::checker) boundary: u64,
    /// The first packet sent after the window was last reduced to its minimum.
    pub(in crate::checker) collapsed: u64,
    /// Whether no packet sent after the reduction has been acknowledged yet.
    pub(in crate::checker) is_open: bool,
    /// The number of packets declared lost since the reduction, including those that caused it,
    /// that have not arrived.
    pub(in crate::checker) missing: u64,
    /// Whether the reduction can be undone.
    pub(in crate::checker) can_be_undone: bool,
    /// The window before the reduction.
    pub(in crate::checker) window_before: u64,
    boundary_before: u64,
    /// For PRR (RFC 9937 §6): the bytes in flight when recovery began, and the bytes delivered and
    /// sent since then.
    pub(in crate::checker) recover_fs: u64,
    pub(in crate::checker) delivered: u64,
    pub(in crate::checker) out: u64,
}

/// The event that caused a window reduction.
#[derive(Clone, Copy, Debug)]
pub(in crate::checker) struct Beginning {
    /// The position of the next packet in send order.
    pub(in crate::checker) next_index: u64,
    /// The number of the report.
    pub(in crate::checker) event: u64,
    pub(in crate::checker) window_before: u64,
    /// Bytes in flight before the event.
    pub(in crate::checker) in_flight: u64,
    /// Bytes that the event acknowledged.
    pub(in crate::checker) delivered: u64,
    /// The number of packets that the event declared lost.
    pub(in crate::checker) missing: u64,
}

impl Episode {
    /// Begins a recovery period, because the window was reduced.
    pub(in crate::checker) fn begin(&mut self, beginning: Beginning) {
        *self = Self {
            event: beginning.event,
            boundary: beginning.next_index,
            collapsed: self.collapsed,
            is_open: true,
            missing: beginning.missing,
            can_be_undone: true,
            window_before: beginning.window_before,
            boundary_before: self.boundary,
            recover_fs: beginning.in_flight.max(1),
            delivered: beginning.delivered,
            out: 0,
        };
    }

    /// Handles the reduction of the window to its minimum: nothing is left to recover from (RFC
    /// 9002 §7.6.2).
    pub(in crate::checker) fn collapse(&mut self, next_index: u64) {
        self.collapsed = next_index;
        self.is_open = false;
        self.can_be_undone = false;
    }

    /// Undoes the last reduction, and restores the boundary that applied before it.
    pub(in crate::checker) fn undo(&mut self) {
        self.boundary = self.boundary_before;
        self.is_open = false;
        self.can_be_undone = false;
    }

    /// Returns the boundary from which packet losses indicate new congestion. With `is_undone`, the
    /// same event undoes the last reduction.
    pub(in crate::checker) fn boundary_after(&self, is_undone: bool) -> u64 {
        if is_undone { self.boundary_before } else { self.boundary }
    }

    /// Returns how many bytes PRR allows to be in flight (RFC 9937 §6.2), where `delivered` bytes
    /// were just acknowledged and `in_flight` bytes remain.
    pub(in crate::checker) fn proportional_window(
        &self,
        threshold: u64,
        delivered: u64,
        in_flight: u64,
        datagram: u64,
    ) -> u64 {
        let count = if in_flight > threshold {
            let product = u128::from(self.delivered) * u128::from(threshold);
            let out = product.div_ceil(u128::from(self.recover_fs));
            u64::try_from(out).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let bound = self.delivered.saturating_sub(self.out).max(delivered) + datagram;
            bound.min(threshold - in_flight)
        };
        let count = if self.out == 0 { count.max(datagram) } else { count };
        in_flight + count
    }
}

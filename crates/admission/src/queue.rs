//! Whose run is next: the rules, without time and tasks.
//!
//! ```text
//! arrive ──┬─► runs ◄── next turn ──┐          finish: the place goes to the
//!          ├─► waits in its lane ───┤          tenant whose turn it is
//!          └─► refused              └─► leave / shed
//! ```
//!
//! While a place is free no run waits that could take it, so a place that gets
//! free is given to one run or to none.

use std::collections::{HashMap, VecDeque};

use sandbox_core::TenantId;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tenant_runs: usize,
    pub(crate) total_runs: usize,
    pub(crate) tenant_queue: usize,
    pub(crate) total_queue: usize,
}

/// Names one run that waits in its lane.
pub(crate) type Ticket = u64;

/// `W` is how a run that waits is told that it may go.
pub(crate) struct Queue<W> {
    limits: Limits,
    running: usize,
    waiting: usize,
    next_ticket: Ticket,
    /// Those of tenants that have runs; the others' are dropped.
    lanes: HashMap<TenantId, Lane<W>>,
    /// The tenants that could use a place now, the next one first.
    turns: VecDeque<TenantId>,
}

/// One tenant's runs.
struct Lane<W> {
    running: usize,
    waiting: VecDeque<(Ticket, W)>,
    in_turns: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival<W> {
    Runs,
    Waits {
        ticket: Ticket,
        /// Had to go to make room: it was the last one of the longest lane.
        shed: Option<W>,
    },
    TenantBusy,
    Overloaded,
}

impl<W> Queue<W> {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            running: 0,
            waiting: 0,
            next_ticket: 0,
            lanes: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    pub(crate) fn running(&self) -> usize {
        self.running
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn arrive(&mut self, tenant: &TenantId, waiter: W) -> Arrival<W> {
        let (running, waiting) = self
            .lanes
            .get(tenant)
            .map_or((0, 0), |lane| (lane.running, lane.waiting.len()));
        if running < self.limits.tenant_runs && self.running < self.limits.total_runs {
            self.lane(tenant).running += 1;
            self.running += 1;
            return Arrival::Runs;
        }
        if waiting >= self.limits.tenant_queue {
            return Arrival::TenantBusy;
        }
        let mut shed = None;
        if self.waiting >= self.limits.total_queue {
            shed = self.shed_for(waiting);
            if shed.is_none() {
                return Arrival::Overloaded;
            }
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.lane(tenant).waiting.push_back((ticket, waiter));
        self.waiting += 1;
        self.settle(tenant);
        Arrival::Waits { ticket, shed }
    }

    /// A run that waited has given up.
    pub(crate) fn leave(&mut self, tenant: &TenantId, ticket: Ticket) -> Option<W> {
        let lane = self.lanes.get_mut(tenant)?;
        let at = lane.waiting.iter().position(|(of, _)| *of == ticket)?;
        let (_, waiter) = lane.waiting.remove(at)?;
        self.waiting -= 1;
        self.settle(tenant);
        Some(waiter)
    }

    /// A run has ended; its place goes to the one that is given back.
    pub(crate) fn finish(&mut self, tenant: &TenantId) -> Option<(TenantId, W)> {
        self.lanes.get_mut(tenant)?.running -= 1;
        self.running -= 1;
        self.settle(tenant);
        self.next()
    }

    fn next(&mut self) -> Option<(TenantId, W)> {
        if self.running >= self.limits.total_runs {
            return None;
        }
        let tenant = self.turns.pop_front()?;
        let lane = self.lanes.get_mut(&tenant)?;
        lane.in_turns = false;
        let (_, waiter) = lane.waiting.pop_front()?;
        lane.running += 1;
        self.running += 1;
        self.waiting -= 1;
        self.settle(&tenant);
        Some((tenant, waiter))
    }

    /// Makes room for a tenant that has `waiting` runs in its lane, at the cost of
    /// the longest one, or not where that would only swap the two.
    fn shed_for(&mut self, waiting: usize) -> Option<W> {
        let (tenant, longest) = self
            .lanes
            .iter()
            .max_by_key(|(_, lane)| lane.waiting.len())?;
        if longest.waiting.len() <= waiting + 1 {
            return None;
        }
        let tenant = tenant.clone();
        let (_, waiter) = self.lanes.get_mut(&tenant)?.waiting.pop_back()?;
        self.waiting -= 1;
        self.settle(&tenant);
        Some(waiter)
    }

    fn lane(&mut self, tenant: &TenantId) -> &mut Lane<W> {
        self.lanes.entry(tenant.clone()).or_insert_with(|| Lane {
            running: 0,
            waiting: VecDeque::new(),
            in_turns: false,
        })
    }

    /// Gives the tenant a turn, takes it away, or forgets the tenant.
    fn settle(&mut self, tenant: &TenantId) {
        let Some(lane) = self.lanes.get_mut(tenant) else {
            return;
        };
        let wants = !lane.waiting.is_empty() && lane.running < self.limits.tenant_runs;
        match (wants, lane.in_turns) {
            (true, false) => self.turns.push_back(tenant.clone()),
            (false, true) => self.turns.retain(|other| other != tenant),
            (true, true) | (false, false) => {}
        }
        lane.in_turns = wants;
        if lane.running == 0 && lane.waiting.is_empty() {
            self.lanes.remove(tenant);
        }
    }
}

#[cfg(test)]
mod tests;

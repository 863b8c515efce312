use super::*;

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

const ROOMY: Limits = Limits {
    tenant_runs: 100,
    total_runs: 100,
    tenant_queue: 100,
    total_queue: 100,
};

/// Lets them arrive as `a1`, `a2`, `b1`: the tenant is the first letter.
fn arrive(queue: &mut Queue<&'static str>, name: &'static str) -> Arrival<&'static str> {
    queue.arrive(&tenant(&name[..1]), name)
}

/// Ends a run of the tenant and names the one that got the place.
fn finish(queue: &mut Queue<&'static str>, name: &str) -> Option<&'static str> {
    let (tenant, next) = queue.finish(&tenant(name))?;
    assert_eq!(tenant.as_str(), &next[..1]);
    Some(next)
}

#[test]
fn places_go_round_over_tenants_and_in_order_within_one() {
    let mut queue = Queue::new(Limits {
        total_runs: 1,
        ..ROOMY
    });
    assert_eq!(arrive(&mut queue, "a0"), Arrival::Runs);
    for waits in ["a1", "a2", "a3", "b1", "c1", "b2", "a4"] {
        assert!(matches!(
            arrive(&mut queue, waits),
            Arrival::Waits { shed: None, .. }
        ));
    }
    let mut order = Vec::new();
    let mut running = "a0";
    while let Some(next) = finish(&mut queue, &running[..1]) {
        order.push(next);
        running = next;
    }
    assert_eq!(order, ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]);
    assert!(queue.lanes.is_empty() && queue.turns.is_empty());
}

#[test]
fn a_tenant_at_its_limit_lets_the_others_pass() {
    let mut queue = Queue::new(Limits {
        tenant_runs: 2,
        total_runs: 3,
        ..ROOMY
    });
    let runs = |arrival| matches!(arrival, Arrival::Runs);
    assert!(runs(arrive(&mut queue, "a1")) && runs(arrive(&mut queue, "a2")));
    assert!(!runs(arrive(&mut queue, "a3")));
    assert!(runs(arrive(&mut queue, "b1")));
    assert!(!runs(arrive(&mut queue, "b2")));
    assert_eq!(finish(&mut queue, "b"), Some("b2"));
    assert_eq!(finish(&mut queue, "b"), None);
    assert_eq!(finish(&mut queue, "a"), Some("a3"));
    assert_eq!((queue.running(), queue.waiting()), (2, 0));
}

#[test]
fn a_full_lane_and_a_full_queue_refuse() {
    let mut queue = Queue::new(Limits {
        tenant_runs: 1,
        total_runs: 1,
        tenant_queue: 2,
        total_queue: 3,
    });
    for name in ["a0", "a1", "a2"] {
        arrive(&mut queue, name);
    }
    assert_eq!(arrive(&mut queue, "a3"), Arrival::TenantBusy);
    arrive(&mut queue, "b1");
    // `a` has as many as `b` would have, so nobody has to go for `b`.
    assert_eq!(arrive(&mut queue, "b2"), Arrival::Overloaded);
    // `c` has none, and the longest lane has two: its last one goes.
    assert_eq!(
        arrive(&mut queue, "c1"),
        Arrival::Waits {
            ticket: 3,
            shed: Some("a2")
        }
    );
    assert_eq!(arrive(&mut queue, "d1"), Arrival::Overloaded);
    assert_eq!(queue.waiting(), 3);
}

#[test]
fn who_leaves_is_forgotten_at_once() {
    let mut queue = Queue::new(Limits {
        total_runs: 1,
        ..ROOMY
    });
    arrive(&mut queue, "a0");
    let Arrival::Waits { ticket, .. } = arrive(&mut queue, "b1") else {
        panic!("the only place is taken")
    };
    assert_eq!(queue.leave(&tenant("b"), ticket), Some("b1"));
    assert_eq!(queue.leave(&tenant("b"), ticket), None);
    assert_eq!((queue.waiting(), queue.lanes.len()), (0, 1));
    assert_eq!(finish(&mut queue, "a"), None);
    assert!(queue.lanes.is_empty());
}

/// Sixty-four clients in a loop against one: with two places, the one must have
/// at least a quarter of what all the others have together.
#[test]
fn many_clients_do_not_starve_one() {
    let mut queue = Queue::new(Limits {
        tenant_runs: 16,
        total_runs: 2,
        tenant_queue: 64,
        total_queue: 256,
    });
    let (many, one) = (tenant("many"), tenant("one"));
    let mut running = VecDeque::new();
    let come = |queue: &mut Queue<()>, running: &mut VecDeque<TenantId>, of: &TenantId| match queue
        .arrive(of, ())
    {
        Arrival::Runs => running.push_back(of.clone()),
        Arrival::Waits { shed: None, .. } => {}
        refused => panic!("{refused:?}"),
    };
    for _ in 0..64 {
        come(&mut queue, &mut running, &many);
    }
    come(&mut queue, &mut running, &one);
    let (mut of_many, mut of_one) = (0, 0);
    for _ in 0..10_000 {
        let ended = running.pop_front().unwrap();
        *(if ended == one {
            &mut of_one
        } else {
            &mut of_many
        }) += 1;
        running.extend(queue.finish(&ended).map(|(next, ())| next));
        come(&mut queue, &mut running, &ended);
    }
    assert!(4 * of_one >= of_many, "{of_one} of one, {of_many} of many");
}

/// What the rules promise, after every step of long random ways.
#[test]
fn no_way_through_breaks_a_promise() {
    for seed in 1..200u64 {
        let mut random = Random(seed);
        let limits = Limits {
            tenant_runs: 1 + random.below(3),
            total_runs: 1 + random.below(5),
            tenant_queue: random.below(5),
            total_queue: random.below(8),
        };
        let mut queue = Queue::new(limits);
        let mut running: Vec<TenantId> = Vec::new();
        let mut waiting: Vec<(TenantId, Ticket)> = Vec::new();
        for _ in 0..400 {
            match random.below(5) {
                0..=2 => {
                    let who = tenant(["a", "b", "c", "d"][random.below(4)]);
                    let number = queue.next_ticket;
                    match queue.arrive(&who, number) {
                        Arrival::Runs => running.push(who),
                        Arrival::Waits { ticket, shed } => {
                            waiting.retain(|(_, of)| Some(*of) != shed);
                            waiting.push((who, ticket));
                        }
                        Arrival::TenantBusy | Arrival::Overloaded => {}
                    }
                }
                3 if !running.is_empty() => {
                    let who = running.swap_remove(random.below(running.len()));
                    if let Some((next, ticket)) = queue.finish(&who) {
                        // The first of its tenant, in the order of arrival.
                        let at = waiting.iter().position(|(of, _)| *of == next).unwrap();
                        assert_eq!(waiting.remove(at), (next.clone(), ticket));
                        running.push(next);
                    }
                }
                4 if !waiting.is_empty() => {
                    let (who, ticket) = waiting.remove(random.below(waiting.len()));
                    assert_eq!(queue.leave(&who, ticket), Some(ticket));
                }
                _ => {}
            }
            check(&queue, &running, &waiting);
        }
    }
}

fn check(queue: &Queue<Ticket>, running: &[TenantId], waiting: &[(TenantId, Ticket)]) {
    let limits = queue.limits;
    assert_eq!(
        (queue.running(), queue.waiting()),
        (running.len(), waiting.len())
    );
    assert!(running.len() <= limits.total_runs && waiting.len() <= limits.total_queue);
    for (who, lane) in &queue.lanes {
        let mine = running.iter().filter(|of| *of == who).count();
        assert_eq!(lane.running, mine);
        assert!(mine <= limits.tenant_runs && lane.waiting.len() <= limits.tenant_queue);
        assert!(mine + lane.waiting.len() > 0, "an idle tenant is kept");
        let could_run = !lane.waiting.is_empty() && mine < limits.tenant_runs;
        assert_eq!(
            queue.turns.iter().filter(|of| *of == who).count(),
            usize::from(could_run)
        );
        assert!(
            !could_run || running.len() == limits.total_runs,
            "a run waits beside a free place"
        );
    }
}

/// Numbers that look random and are the same each time (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

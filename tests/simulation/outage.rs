//! The longest outage in which no delivery is lost: from Friday at 18:00 to Monday at 8:00.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::json;
use tokio::time::sleep_until;

use crate::{
    processes::Fleet,
    run::{begin, in_virtual_time, produce, start},
    script::{Audience, Event, Manner, Order, Processes, Receiver, Script, Tenant, Time, WHOLE},
    world::World,
};

const OUTAGE: Time = Duration::from_hours(62);
/// The duration of the run, longer than the lifetime of a delivery created on the last evening of the outage.
const END: Time = OUTAGE.saturating_add(Duration::from_hours(3 * 24 + 1));
/// The ways in which receivers fail. The second-to-last one always sends a `Retry-After` of one day.
const DOWN: [Manner; 5] = [
    Manner::Hangs,
    Manner::Refuses,
    Manner::Answers(500, 10, None),
    Manner::Answers(503, 10, Some(24 * 60 * 60)),
    Manner::Answers(200, 60_000, None),
];

/// One event each at the beginning, in the middle and at the end of an outage. The seed determines the jitter.
fn script(seed: u64) -> Script {
    let receiver = |manner| Receiver {
        phases: vec![(OUTAGE, manner), (Duration::MAX, Manner::Prompt)],
        only_failures: false,
        has_dead_address: false,
    };
    let events = [Duration::ZERO, OUTAGE / 2, OUTAGE - Duration::from_mins(1)];
    let events = events.into_iter().enumerate().map(|(number, at)| Event {
        at,
        tenant: 0,
        number,
        failed: false,
        audience: Audience::Endpoints,
    });
    Script {
        seed,
        schedule: WHOLE,
        disable_after: 432_000,
        hold_for: 604_800,
        overlap: 86_400,
        processes: Processes::Few(2, 3),
        slow_invocations: usize::MAX,
        order: Order::Any,
        slots: 100,
        skew: 0,
        sweep_every: 1,
        sweeps_idly: false,
        trouble: OUTAGE,
        age: Duration::ZERO,
        units: 0,
        tenants: vec![Tenant { endpoints: DOWN.map(receiver).into(), callbacks: receiver(Manner::Hangs), bytes: 0 }],
        events: events.collect(),
        actions: Vec::new(),
        faults: Vec::new(),
    }
}

/// The final statuses of the deliveries, and their number.
fn statuses(seed: u64) -> (BTreeSet<String>, usize) {
    in_virtual_time(seed, async {
        let world = World::new(script(seed));
        let known = begin(&world).await;
        let fleet = Fleet::new(&world);
        let mut tasks = start(&world, &fleet);
        tasks.spawn(produce(Arc::clone(&world), known.ids()));
        sleep_until(world.instant(END)).await;
        let deliveries = known.tenants[0].client.deliveries(&json!({"limit": 100})).await;
        tasks.abort_all();
        let status = |delivery: &serde_json::Value| delivery["status"].as_str().expect("a status").to_owned();
        (deliveries.iter().map(status).collect(), deliveries.len())
    })
}

#[test]
fn a_weekend_outage_does_not_lose_deliveries() {
    for seed in 0..2 {
        assert_eq!(statuses(seed), (BTreeSet::from(["delivered".to_owned()]), 3 * DOWN.len()), "seed {seed}");
    }
}

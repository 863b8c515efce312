//! Runs that wait, come, go and race.

#![expect(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sandbox_admission::{Admission, AdmissionSettings, Figures, Observer, RunPermit};
use sandbox_core::{ErrorCode, TenantId};

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

fn settings() -> AdmissionSettings {
    AdmissionSettings {
        tenant_runs: 1,
        total_runs: 2,
        tenant_queue: 2,
        total_queue: 3,
        queue_wait: Duration::from_secs(60),
        ..AdmissionSettings::default()
    }
}

fn figures(running: usize, waiting: usize) -> Figures {
    Figures { running, waiting }
}

/// Polls a future until it waits, which it must.
macro_rules! waits {
    ($future:expr) => {
        std::future::poll_fn(|context| {
            assert!($future.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await
    };
}

#[derive(Default)]
struct Seen {
    refused: Mutex<Vec<ErrorCode>>,
    admitted: AtomicUsize,
}

impl Observer for Seen {
    fn admitted(&self, _: Duration) {
        self.admitted.fetch_add(1, Ordering::SeqCst);
    }

    fn refused(&self, code: ErrorCode) {
        self.refused.lock().unwrap().push(code);
    }
}

#[tokio::test]
async fn a_run_waits_for_a_place_and_gets_the_next_one() {
    let admission = Admission::new(settings());
    let a = tenant("a");
    let first = admission.run(&a).await.unwrap();
    let mut second = Box::pin(admission.run(&a));
    waits!(second);
    assert_eq!(admission.figures(), figures(1, 1));
    drop(first);
    let second = second.await.unwrap();
    assert_eq!(admission.figures(), figures(1, 0));
    drop(second);
    assert_eq!(admission.figures(), figures(0, 0));
}

#[tokio::test]
async fn refusals_have_their_code_and_say_when_to_come_again() {
    let seen = Arc::new(Seen::default());
    let admission = Admission::observed(
        AdmissionSettings {
            requests_per_second: 1,
            request_burst: 1,
            ..settings()
        },
        Arc::clone(&seen) as _,
    );
    let (a, b, c) = (tenant("a"), tenant("b"), tenant("c"));
    let _running = (admission.run(&a).await, admission.run(&b).await);
    let mut waiting = [
        Box::pin(admission.run(&a)),
        Box::pin(admission.run(&a)),
        Box::pin(admission.run(&b)),
    ];
    for run in &mut waiting {
        waits!(run);
    }
    assert_eq!(admission.figures(), figures(2, 3));
    let busy = admission.run(&a).await.unwrap_err();
    let overloaded = admission.run(&b).await.unwrap_err();
    admission.request(&a).unwrap();
    let limited = admission.request(&a).unwrap_err();
    // `c` has nothing; the last of `a` makes room for it.
    let mut first_of_c = Box::pin(admission.run(&c));
    waits!(first_of_c);
    let soon = Duration::from_secs(10);
    let shed = tokio::time::timeout(soon, &mut waiting[1]).await;
    let shed = shed.expect("it learns at once").unwrap_err();
    for (error, code) in [
        (&busy, ErrorCode::TenantBusy),
        (&overloaded, ErrorCode::Overloaded),
        (&limited, ErrorCode::RateLimited),
        (&shed, ErrorCode::Overloaded),
    ] {
        assert_eq!(error.code(), code);
        assert!(error.retry_after().unwrap() > Duration::ZERO, "{error}");
    }
    assert!(limited.retry_after().unwrap() <= Duration::from_secs(1));
    assert_eq!(
        *seen.refused.lock().unwrap(),
        [
            ErrorCode::TenantBusy,
            ErrorCode::Overloaded,
            ErrorCode::RateLimited,
            ErrorCode::Overloaded
        ]
    );
    assert_eq!(seen.admitted.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_run_does_not_wait_for_ever() {
    let admission = Admission::new(AdmissionSettings {
        queue_wait: Duration::from_millis(5),
        ..settings()
    });
    let a = tenant("a");
    let _running = admission.run(&a).await.unwrap();
    let error = admission.run(&a).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Overloaded);
    assert_eq!(admission.figures(), figures(1, 0));
}

#[tokio::test]
async fn who_goes_away_leaves_the_queue_and_passes_on_what_it_was_given() {
    let admission = Admission::new(AdmissionSettings {
        total_runs: 1,
        ..settings()
    });
    let (a, b) = (tenant("a"), tenant("b"));
    let running = admission.run(&a).await.unwrap();
    let mut gone = Box::pin(admission.run(&a));
    waits!(gone);
    drop(gone);
    assert_eq!(admission.figures(), figures(1, 0));

    let mut granted = Box::pin(admission.run(&a));
    let mut after_it = Box::pin(admission.run(&b));
    waits!(granted);
    waits!(after_it);
    drop(running);
    // It has its place and does not know yet.
    assert_eq!(admission.figures(), figures(1, 1));
    drop(granted);
    let permit = after_it.await.unwrap();
    assert_eq!(admission.figures(), figures(1, 0));
    drop(permit);
    assert_eq!(admission.figures(), figures(0, 0));
}

/// A run under way; it ends before its permit goes.
struct Counted<'a> {
    under_way: &'a AtomicUsize,
    _permit: RunPermit,
}

impl<'a> Counted<'a> {
    fn new(under_way: &'a AtomicUsize, permit: RunPermit) -> Self {
        assert!(under_way.fetch_add(1, Ordering::SeqCst) < 5);
        Self {
            under_way,
            _permit: permit,
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Tasks of many tenants on several threads, of which a third give up at any
/// moment: no limit is broken, and at the end every place is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_place_is_lost_when_thousands_race_and_give_up() {
    let admission = Arc::new(Admission::new(AdmissionSettings {
        tenant_runs: 2,
        total_runs: 5,
        tenant_queue: 50,
        total_queue: 120,
        ..settings()
    }));
    let under_way = Arc::new(AtomicUsize::new(0));
    let ran = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for n in 0..6000usize {
        let (admission, under_way, ran) = (
            Arc::clone(&admission),
            Arc::clone(&under_way),
            Arc::clone(&ran),
        );
        tasks.push(tokio::spawn(async move {
            let tenant = tenant(["a", "b", "c", "d", "e"][n % 5]);
            let run = async {
                let permit = admission.run(&tenant).await?;
                let _counted = Counted::new(&under_way, permit);
                for _ in 0..n % 7 {
                    tokio::task::yield_now().await;
                }
                ran.fetch_add(1, Ordering::SeqCst);
                sandbox_core::Result::<()>::Ok(())
            };
            let patience = async {
                for _ in 0..n % 11 {
                    tokio::task::yield_now().await;
                }
            };
            if n % 3 == 0 {
                tokio::select! {
                    biased;
                    () = patience => {}
                    result = run => drop(result),
                }
            } else {
                drop(run.await);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(admission.figures(), figures(0, 0));
    assert!(ran.load(Ordering::SeqCst) > 100);
    // Every place can still be had.
    let all = ["a", "a", "b", "b", "c"].map(tenant);
    let mut permits = Vec::new();
    for tenant in &all {
        permits.push(admission.run(tenant).await.unwrap());
    }
    assert_eq!(admission.figures(), figures(5, 0));
}

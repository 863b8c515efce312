//! What a guest may ask for.

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{process::Command, sync::watch};

use super::{BARE, World, is_root};
use crate::{process::Process, template::Door};

/// A program that could reach the guest's descriptor would get nothing else by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_gets_yes_or_no_and_not_as_often_as_it_likes() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.ready(BARE).await;
    let sandbox = world.start(1).await;
    // Stands for bubblewrap, with a child that is in no sandbox.
    let parent = Command::new("sh")
        .args(["-c", "sleep 1000 & wait"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let parent = Process::new(parent).unwrap();
    let (mut guest, service) = UnixStream::pair().unwrap();
    guest
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let door = Door::new(
        service,
        Arc::clone(world.templates()),
        parent.parent(),
        Arc::clone(&sandbox.place.group),
        sandbox.user,
    );
    let (end, ended) = watch::channel(false);
    let served = tokio::spawn(door.unwrap().serve(ended));
    let asking = tokio::task::spawn_blocking(move || {
        let started = Instant::now();
        for kind in [BARE, b'?', 0, 255, BARE, BARE, BARE, BARE] {
            guest.write_all(&[kind]).unwrap();
            let mut answer = [0];
            guest.read_exact(&mut answer).unwrap();
            assert_eq!(answer, *b"-");
        }
        let burst = started.elapsed();
        guest.write_all(&[BARE; 2]).unwrap();
        guest.read_exact(&mut [0; 2]).unwrap();
        (burst, started.elapsed(), guest)
    });
    let (burst, after, mut guest) = asking.await.unwrap();
    assert!(burst < Duration::from_millis(1500), "{burst:?}");
    assert!(after > Duration::from_secs(2), "{after:?}");
    end.send(true).unwrap();
    served.await.unwrap();
    assert_eq!(guest.read(&mut [0]).unwrap(), 0, "it ends with its sandbox");
}

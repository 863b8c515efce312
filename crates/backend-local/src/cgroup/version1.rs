//! cgroup v1: a hierarchy for each controller or a few.

use std::{fs, io, path::Path};

use sandbox_core::Limits;

use super::{Controllers, Place, Version, find::Hierarchies, remove_remains, write};

const PERIOD_US: u64 = 100_000;

/// Makes the service's group for each controller that v2 does not have.
pub(super) fn set_up(found: &Hierarchies, name: &str, controllers: &mut Controllers) {
    for hierarchy in &found.v1 {
        let mut wanted: Vec<&mut Option<Place>> = Vec::new();
        for controller in &hierarchy.controllers {
            let place = match controller.as_str() {
                "memory" => &mut controllers.memory,
                "cpu" => &mut controllers.cpu,
                "pids" => &mut controllers.pids,
                "cpuacct" => &mut controllers.cpuacct,
                _ => continue,
            };
            if place.is_none() {
                *place = Some(Place {
                    version: Version::V1,
                    dir: hierarchy.own.join(name),
                });
                wanted.push(place);
            }
        }
        let _ = wanted;
    }
}

fn make(base: &Path, name: &str) -> io::Result<()> {
    remove_remains(base);
    fs::create_dir(base.join(name))
}

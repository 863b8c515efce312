//! What a process has used, as /proc tells it.

use std::{fs, time::Duration};

/// Of /proc/PID/stat: the kernel gives these times in hundredths of a second to all
/// programs, whatever its own tick is.
const TICK: Duration = Duration::from_millis(10);

/// Processor time of the process and of the children that it waited for.
pub(super) fn cpu(pid: i32) -> Duration {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| cpu_in(&stat))
        .unwrap_or_default()
}

fn cpu_in(stat: &str) -> Option<Duration> {
    // The command's name is user input and may hold blanks and parentheses.
    let fields = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let ticks: u32 = fields
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse::<u32>().ok())
        .fold(0, u32::saturating_add);
    Some(TICK.saturating_mul(ticks))
}

/// Resident now, and at most.
pub(super) fn memory_bytes(pid: i32) -> (u64, u64) {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    (field(&status, "VmRSS:"), field(&status, "VmHWM:"))
}

fn field(status: &str, name: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .map_or(0, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_whatever_the_command_is_called() {
        let stat = "7 (a) 1 (b) S 1 7 7 0 -1 4 1 2 3 4 10 20 3 4 20 0 1";
        assert_eq!(cpu_in(stat), Some(Duration::from_millis(370)));
        assert_eq!(field("VmHWM:\t  12 kB\nVmRSS:\t 8 kB\n", "VmRSS:"), 8192);
        assert_eq!(field("", "VmRSS:"), 0);
    }
}

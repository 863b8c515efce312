//! Our points in time as E2B's.

use jiff::Timestamp as Time;
use sandbox_core::Timestamp;

pub(crate) fn time(timestamp: Timestamp) -> Time {
    Time::from_millisecond(timestamp.0).unwrap_or(Time::MAX)
}

pub(crate) fn timestamp(time: Time) -> Timestamp {
    Timestamp(time.as_millisecond())
}

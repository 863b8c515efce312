//! How a service takes over a guest from one that is gone, on the pipes that a
//! container is attached to.
//!
//! The service sends [`SIGNAL`] to the guest and reads until [`WAITING`]; then it
//! writes [`RESUME`], a word of at most [`MAX_WORD`] bytes that nobody can guess,
//! and [`WORD_END`], and reads until [`RESUMED`] and the same word. Then both begin
//! a new connection.

/// A real-time signal (35 with glibc), for programs send none of them by chance.
pub const SIGNAL: i32 = 35;
pub const WAITING: &[u8] = b"\nsandbox-guest waiting\n";
pub const RESUME: &[u8] = b"\nsandbox-guest resume ";
pub const RESUMED: &[u8] = b"\nsandbox-guest resumed ";
pub const MAX_WORD: usize = 64;
pub const WORD_END: &[u8] = b"\n";

//! The behaviours, by subject.

mod files;
mod freeze;
mod isolation;
mod life;
mod limits;
mod runs;
mod warm;

use crate::Case;

/// A case of this name, which is a function of the module.
macro_rules! cases {
    ($($function:ident: $name:literal $([$($needs:ident),+])?;)+) => {
        pub(super) fn all() -> Vec<$crate::Case> {
            vec![$(
                $crate::Case::new($name, |bed| Box::pin($function(bed)))
                    $(.needs(&[$(sandbox_core::Capability::$needs),+]))?,
            )+]
        }
    };
}
use cases;

pub(crate) fn all() -> Vec<Case> {
    [
        runs::all(),
        files::all(),
        limits::all(),
        isolation::all(),
        life::all(),
        freeze::all(),
        warm::all(),
    ]
    .concat()
}

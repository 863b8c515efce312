//! The request's token of its tenant's rate: taken once, where the tenant is known.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use sandbox_admission::Admission;
use sandbox_core::{Result, TenantId};

/// A clone is of the same request. The default is a request that costs nothing.
#[derive(Clone, Default)]
pub(crate) struct RequestRate(Option<Arc<Request>>);

struct Request {
    admission: Arc<Admission>,
    counted: AtomicBool,
}

impl RequestRate {
    pub(crate) fn of(admission: &Arc<Admission>) -> Self {
        Self(Some(Arc::new(Request {
            admission: Arc::clone(admission),
            counted: AtomicBool::new(false),
        })))
    }

    /// Counts the request as one of this tenant, unless it was counted before.
    pub(crate) fn count(&self, tenant: &TenantId) -> Result<()> {
        match &self.0 {
            Some(request) if !request.counted.swap(true, Ordering::Relaxed) => {
                request.admission.request(tenant)
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestRate")
    }
}

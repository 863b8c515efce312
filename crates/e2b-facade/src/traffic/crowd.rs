//! How much traffic goes on for each tenant: none may take the listener from the others.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use sandbox_core::TenantId;

/// A clone counts with it.
#[derive(Clone)]
pub(crate) struct Crowd {
    most: usize,
    open: Arc<Mutex<HashMap<TenantId, usize>>>,
}

impl Crowd {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            open: Arc::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more request; `None`: there are as many as there may be.
    pub(crate) fn enter(&self, tenant: &TenantId) -> Option<Place> {
        let mut open = self.open();
        let count = open.entry(tenant.clone()).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(Place {
            crowd: self.clone(),
            tenant: tenant.clone(),
        })
    }
}

/// Held until a request is answered to its end.
pub(crate) struct Place {
    crowd: Crowd,
    tenant: TenantId,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.crowd.open();
        if let Some(count) = open.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}

/// A body that holds its request's place.
pub(crate) struct Placed<B> {
    pub body: B,
    pub _place: Place,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Placed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_so_many_places_and_others_have_their_own() {
        let crowd = Crowd::new(2);
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let first = crowd.enter(&a);
        let second = crowd.enter(&a);
        assert!(first.is_some() && second.is_some());
        assert!(crowd.enter(&a).is_none());
        assert!(crowd.enter(&b).is_some());
        drop(first);
        assert!(crowd.enter(&a).is_some());
        drop(second);
        assert!(crowd.open().is_empty());
    }
}

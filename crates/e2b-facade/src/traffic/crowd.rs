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
use sandbox_http::TrafficCount;

/// Things of one kind that go on. A clone counts with it.
#[derive(Clone)]
pub(crate) struct Crowd {
    most_of_tenant: usize,
    most: usize,
    open: Arc<Mutex<HashMap<TenantId, usize>>>,
}

/// Whose bound is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Tenant,
    Service,
}

impl Crowd {
    pub(crate) fn new(most_of_tenant: usize, most: usize) -> Self {
        Self {
            most_of_tenant,
            most,
            open: Arc::default(),
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more of the tenant's.
    pub(crate) fn enter(&self, tenant: &TenantId) -> Result<Place, Full> {
        let mut open = self.open();
        if open.get(tenant).copied().unwrap_or_default() >= self.most_of_tenant {
            return Err(Full::Tenant);
        }
        if open.values().sum::<usize>() >= self.most {
            return Err(Full::Service);
        }
        *open.entry(tenant.clone()).or_default() += 1;
        Ok(Place {
            crowd: self.clone(),
            tenant: tenant.clone(),
        })
    }
}

/// Held as long as it goes on: until a request is answered to its end, say.
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

/// A body with which its request goes on.
pub(crate) struct Placed<B> {
    pub body: B,
    pub _held: (Place, TrafficCount),
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
        let crowd = Crowd::new(2, 3);
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let first = crowd.enter(&a);
        let second = crowd.enter(&a);
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(crowd.enter(&a).err(), Some(Full::Tenant));
        let other = crowd.enter(&b);
        assert!(other.is_ok());
        assert_eq!(crowd.enter(&b).err(), Some(Full::Service));
        drop(first);
        assert!(crowd.enter(&a).is_ok());
        drop((second, other));
        assert!(crowd.open().is_empty());
    }
}

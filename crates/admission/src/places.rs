//! How many things of one kind go on, together and of one tenant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sandbox_core::TenantId;

/// Places that are there or taken: nobody waits for one. A clone counts with it.
#[derive(Clone)]
pub struct Places {
    total: usize,
    of_tenant: usize,
    taken: Arc<Mutex<HashMap<TenantId, usize>>>,
}

/// Whose bound is reached; both may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full {
    pub of_tenant: bool,
    pub in_all: bool,
}

/// Free again when it is dropped.
pub struct Place {
    places: Places,
    tenant: TenantId,
}

impl Places {
    pub fn new(total: usize, of_tenant: usize) -> Self {
        Self {
            total,
            of_tenant,
            taken: Arc::default(),
        }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more of the tenant's.
    pub fn take(&self, tenant: &TenantId) -> Result<Place, Full> {
        let mut taken = self.taken();
        let full = Full {
            of_tenant: taken.get(tenant).copied().unwrap_or_default() >= self.of_tenant,
            in_all: taken.values().sum::<usize>() >= self.total,
        };
        if full.of_tenant || full.in_all {
            return Err(full);
        }
        *taken.entry(tenant.clone()).or_default() += 1;
        Ok(Place {
            places: self.clone(),
            tenant: tenant.clone(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        if let Some(count) = taken.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_so_many_places_and_others_have_their_own() {
        let places = Places::new(3, 2);
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let first = places.take(&a);
        let second = places.take(&a);
        assert!(first.is_ok() && second.is_ok());
        let full = |of_tenant, in_all| Some(Full { of_tenant, in_all });
        assert_eq!(places.take(&a).err(), full(true, false));
        let other = places.take(&b);
        assert!(other.is_ok());
        assert_eq!(places.take(&b).err(), full(false, true));
        assert_eq!(places.take(&a).err(), full(true, true));
        drop(first);
        assert!(places.take(&a).is_ok());
        drop((second, other));
        assert!(places.taken().is_empty());
    }
}

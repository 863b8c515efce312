//! How many clients may be attached, together and of one tenant.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use sandbox_core::{Error, ErrorCode, Result, TenantId};

pub(super) struct Places {
    total: usize,
    of_tenant: usize,
    taken: Mutex<HashMap<TenantId, usize>>,
}

/// The place of somebody who is attached, free when it is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    tenant: TenantId,
}

impl Places {
    pub fn new(total: usize, of_tenant: usize) -> Self {
        Self {
            total,
            of_tenant,
            taken: Mutex::default(),
        }
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<TenantId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take(self: &Arc<Self>, tenant: &TenantId) -> Result<Place> {
        let mut taken = self.taken();
        if taken.values().sum::<usize>() >= self.total {
            return Err(Error::new(
                ErrorCode::Overloaded,
                "too many clients are attached to processes",
            ));
        }
        let of_tenant = taken.entry(tenant.clone()).or_default();
        if *of_tenant >= self.of_tenant {
            return Err(Error::new(
                ErrorCode::TenantBusy,
                format!(
                    "the tenant has {of_tenant} clients attached to processes, the most it may have"
                ),
            ));
        }
        *of_tenant += 1;
        Ok(Place {
            places: Arc::clone(self),
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
    fn a_tenant_leaves_places_to_others_and_places_come_back() {
        let places = Arc::new(Places::new(3, 2));
        let (a, b): (TenantId, TenantId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let held = [places.take(&a).unwrap(), places.take(&a).unwrap()];
        assert_eq!(places.take(&a).err().unwrap().code(), ErrorCode::TenantBusy);
        let other = places.take(&b).unwrap();
        assert_eq!(places.take(&b).err().unwrap().code(), ErrorCode::Overloaded);
        drop((held, other));
        assert!(places.taken().is_empty());
        assert!(places.take(&a).is_ok());
    }
}

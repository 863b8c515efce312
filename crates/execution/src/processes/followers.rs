//! How many clients may be attached, together and of one tenant.

use sandbox_admission::{Full, Place, Places};
use sandbox_core::{Error, ErrorCode, Result, TenantId};

pub(super) struct Followers {
    places: Places,
    of_tenant: usize,
}

impl Followers {
    pub fn new(total: usize, of_tenant: usize) -> Self {
        Self {
            places: Places::new(total, of_tenant),
            of_tenant,
        }
    }

    /// The place of somebody who is attached.
    pub fn take(&self, tenant: &TenantId) -> Result<Place> {
        self.places.take(tenant).map_err(|full| match full {
            Full { in_all: true, .. } => Error::new(
                ErrorCode::Overloaded,
                "too many clients are attached to processes",
            ),
            Full { in_all: false, .. } => Error::new(
                ErrorCode::TenantBusy,
                format!(
                    "the tenant has {} clients attached to processes, the most it may have",
                    self.of_tenant
                ),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_leaves_places_to_others_and_places_come_back() {
        let places = Followers::new(3, 2);
        let (a, b): (TenantId, TenantId) = ("a".parse().unwrap(), "b".parse().unwrap());
        let held = [places.take(&a).unwrap(), places.take(&a).unwrap()];
        assert_eq!(places.take(&a).err().unwrap().code(), ErrorCode::TenantBusy);
        let other = places.take(&b).unwrap();
        assert_eq!(places.take(&b).err().unwrap().code(), ErrorCode::Overloaded);
        drop((held, other));
        assert!(places.take(&a).is_ok());
    }
}

//! Looks at sessions that are no use of them.

use sandbox_core::{E2bOptions, SessionId, SessionKey, TenantId};

use crate::{SessionInfo, SessionManager, manager::view, session::State};

impl SessionManager {
    /// Those of one tenant.
    pub fn of_tenant(&self, tenant: &TenantId) -> Vec<SessionInfo> {
        let views: Vec<_> = {
            let table = self.shared.table();
            let entries = table.entries.values();
            entries
                .filter(|entry| entry.session.key().tenant == *tenant)
                .map(view)
                .collect()
        };
        views.into_iter().map(|view| self.info(view)).collect()
    }

    /// The session of this name that the E2B API made, whoever's it is: such names are
    /// random, and no two tenants have the same.
    pub fn find_e2b(&self, session: &SessionId) -> Option<(SessionKey, E2bOptions)> {
        let table = self.shared.table();
        let entry = table.entries.of_e2b(session)?;
        if matches!(entry.state, State::Ending { .. }) {
            return None;
        }
        let options = entry.session.terms.options.e2b.clone()?;
        Some((entry.session.key().clone(), options))
    }
}

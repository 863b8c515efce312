//! Pages of a list that may change between two of them.

use std::{cmp::Ordering, fmt};

use sandbox_core::{E2bOptions, SessionKey, Timestamp};
use sandbox_session::SessionInfo;

pub(super) const MAX_PAGE: usize = 100;

/// Which part of a list is wanted.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub oldest_first: bool,
    pub limit: usize,
    pub after: Option<Place>,
}

/// Where one page ends and the next begins: no item is there twice or left out, whatever
/// comes and goes meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    started: Timestamp,
    id: String,
}

impl Place {
    fn of(info: &SessionInfo) -> Self {
        Self::new(info.created, &info.key)
    }

    fn new(started: Timestamp, key: &SessionKey) -> Self {
        Self {
            started,
            id: key.session.to_string(),
        }
    }

    pub(super) fn parse(token: &str) -> Option<Self> {
        let (started, id) = token.split_once('-')?;
        crate::sandbox::is_sandbox_id(id).then_some(())?;
        Some(Self {
            started: Timestamp(started.parse().ok()?),
            id: id.to_owned(),
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.started.0, self.id)
    }
}

impl Page {
    /// The page, and where the next one begins, if there is one.
    pub(super) fn of(
        &self,
        found: Vec<(SessionInfo, E2bOptions)>,
    ) -> (Vec<(SessionInfo, E2bOptions)>, Option<Place>) {
        let mut found: Vec<_> = found
            .into_iter()
            .map(|it| (Place::of(&it.0), it))
            .filter(|(place, _)| self.is_beyond(place))
            .collect();
        found.sort_by(|(a, _), (b, _)| self.order(a, b));
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        let next = match found.last() {
            Some((last, _)) if has_more => Some(last.clone()),
            _ => None,
        };
        (found.into_iter().map(|(_, it)| it).collect(), next)
    }

    fn order(&self, a: &Place, b: &Place) -> Ordering {
        match self.oldest_first {
            true => a.cmp(b),
            false => b.cmp(a),
        }
    }

    fn is_beyond(&self, place: &Place) -> bool {
        self.after
            .as_ref()
            .is_none_or(|after| self.order(after, place) == Ordering::Less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_read_as_it_was_given() {
        let place = Place {
            started: Timestamp(1_700_000_000_123),
            id: "iabc".into(),
        };
        assert_eq!(Place::parse(&place.to_string()), Some(place));
        for bad in ["", "-", "1", "x-iabc", "1-../x", "1-a-b"] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}

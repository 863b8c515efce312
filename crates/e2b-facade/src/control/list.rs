//! `GET /sandboxes` and `GET /v2/sandboxes`.

use std::collections::BTreeMap;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use e2b_wire::{ListedSandbox, headers::NEXT_TOKEN};
use http::HeaderValue;
use jiff::Timestamp as Time;
use percent_encoding::percent_decode_str;
use sandbox_core::{E2bOptions, Error};
use sandbox_session::{SessionInfo, SessionState};
use serde::Deserialize;

use super::{
    detail::listed,
    extract::Query,
    page::{MAX_PAGE, Page, Place},
};
use crate::{
    caller::Caller,
    clock::timestamp,
    error::{Answer, Refusal},
    state::Facade,
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Query1 {
    metadata: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Query2 {
    metadata: Option<String>,
    /// With commas between.
    state: Option<String>,
    order: Option<String>,
    started_after: Option<String>,
    template: Option<String>,
    limit: Option<usize>,
    next_token: Option<String>,
}

/// Those that run, all of them.
pub(super) async fn v1(
    caller: Caller,
    State(facade): State<Facade>,
    Query(query): Query<Query1>,
) -> Answer<Json<Vec<ListedSandbox>>> {
    let wanted = Wanted {
        metadata: metadata(query.metadata.as_deref())?,
        running: true,
        ..Wanted::default()
    };
    let page = Page {
        limit: usize::MAX,
        ..Page::default()
    };
    let (found, _) = page.of(wanted.among(&facade, &caller));
    Ok(Json(all_listed(found)))
}

pub(super) async fn v2(
    caller: Caller,
    State(facade): State<Facade>,
    Query(query): Query<Query2>,
) -> Answer {
    let (running, paused) = states(query.state.as_deref())?;
    let wanted = Wanted {
        metadata: metadata(query.metadata.as_deref())?,
        running,
        paused,
        template: query.template.filter(|template| !template.is_empty()),
        started_after: started_after(query.started_after.as_deref())?,
    };
    let page = Page {
        oldest_first: match query.order.as_deref() {
            None | Some("" | "desc") => false,
            Some("asc") => true,
            Some(_) => return Err(Refusal::bad("`order` is `asc` or `desc`")),
        },
        limit: match query.limit {
            None => MAX_PAGE,
            Some(limit) if (1..=MAX_PAGE).contains(&limit) => limit,
            Some(_) => return Err(Refusal::bad(format!("`limit` is 1 to {MAX_PAGE}"))),
        },
        after: match query.next_token.as_deref() {
            None | Some("") => None,
            Some(token) => Some(Place::parse(token).ok_or_else(|| {
                Refusal::bad("Invalid next token: it is not one that this service has given")
            })?),
        },
    };
    let (found, next) = page.of(wanted.among(&facade, &caller));
    let mut response = Json(all_listed(found)).into_response();
    next_token(&mut response, next)?;
    Ok(response)
}

fn next_token(response: &mut Response, next: Option<Place>) -> Answer<()> {
    if let Some(next) = next {
        let token = HeaderValue::from_str(&next.to_string()).map_err(Error::internal)?;
        response.headers_mut().insert(NEXT_TOKEN, token);
    }
    Ok(())
}

fn all_listed(found: Vec<(SessionInfo, E2bOptions)>) -> Vec<ListedSandbox> {
    let found = found.into_iter();
    found.map(|(info, options)| listed(info, options)).collect()
}

/// Which sandboxes are meant.
#[derive(Debug, Default)]
struct Wanted {
    metadata: BTreeMap<String, String>,
    running: bool,
    paused: bool,
    template: Option<String>,
    /// It counts too.
    started_after: Option<Time>,
}

impl Wanted {
    fn among(&self, facade: &Facade, caller: &Caller) -> Vec<(SessionInfo, E2bOptions)> {
        let own = facade.sessions.of_tenant(&caller.tenant).into_iter();
        own.filter_map(|info| {
            let options = info.options.e2b.clone()?;
            let is_there = info.state != SessionState::Ending && !facade.is_over(&info);
            (is_there && self.takes(&info, &options)).then_some((info, options))
        })
        .collect()
    }

    fn takes(&self, info: &SessionInfo, options: &E2bOptions) -> bool {
        let state = match info.state {
            SessionState::Paused => self.paused,
            _ => self.running,
        };
        let labels = &info.options.labels;
        let is_labelled = |(name, value): (&String, &String)| labels.get(name) == Some(value);
        state
            && self.metadata.iter().all(is_labelled)
            && self
                .template
                .as_ref()
                .is_none_or(|it| *it == options.template)
            && self
                .started_after
                .is_none_or(|after| info.created >= timestamp(after))
    }
}

fn states(text: Option<&str>) -> Answer<(bool, bool)> {
    let (mut running, mut paused) = (false, false);
    for state in text
        .unwrap_or_default()
        .split(',')
        .filter(|it| !it.is_empty())
    {
        match state {
            "running" => running = true,
            "paused" => paused = true,
            _ => return Err(Refusal::bad("`state` is `running`, `paused` or both")),
        }
    }
    // None named is all of them.
    Ok((running || !paused, paused || !running))
}

fn started_after(text: Option<&str>) -> Answer<Option<Time>> {
    let Some(text) = text else {
        return Ok(None);
    };
    // A `+` of the offset that nobody has encoded came as a space.
    let time = text.replace(' ', "+").parse();
    time.map(Some)
        .map_err(|_| Refusal::bad("`startedAfter` is not a time as in RFC 3339"))
}

/// `k=v&k2=v2`, each name and value encoded on its own and once more with all of it,
/// as the SDKs send it.
fn metadata(text: Option<&str>) -> Answer<BTreeMap<String, String>> {
    let Some(text) = text else {
        return Ok(BTreeMap::new());
    };
    let once = decoded(text)?;
    let mut pairs = BTreeMap::new();
    for pair in once.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair
            .split_once('=')
            .filter(|(_, value)| !value.contains('='))
            .ok_or_else(not_metadata)?;
        pairs.insert(decoded(name)?, decoded(value)?);
    }
    Ok(pairs)
}

fn decoded(text: &str) -> Answer<String> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| not_metadata())?;
    Ok(decoded.into_owned())
}

fn not_metadata() -> Refusal {
    Refusal::bad("Error parsing metadata: it is `name=value` with `&` between")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_as_the_sdks_encode_it() {
        let read = |text: &str| {
            let found = metadata(Some(text)).unwrap();
            found.into_iter().collect::<Vec<_>>()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read("k=v&a=b"), [pair("a", "b"), pair("k", "v")]);
        // `quote`, then `urlencode`; the query's own encoding is gone already.
        assert_eq!(read("k%2520k=a%2526b%253Dc"), [pair("k k", "a&b=c")]);
        assert_eq!(read("k=a%252Bb"), [pair("k", "a+b")]);
        assert_eq!(read("k=%25C3%25A4"), [pair("k", "ä")]);
        assert_eq!(read(""), []);
        for bad in ["k", "k=v=w", "k=%FF"] {
            assert!(metadata(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn states_are_both_unless_one_is_named() {
        assert_eq!(states(None).unwrap(), (true, true));
        assert_eq!(states(Some("running")).unwrap(), (true, false));
        assert_eq!(states(Some("paused")).unwrap(), (false, true));
        assert_eq!(states(Some("paused,running")).unwrap(), (true, true));
        assert!(states(Some("ended")).is_err());
    }

    #[test]
    fn a_time_may_have_an_offset() {
        let utc = started_after(Some("2026-01-02T03:04:05Z")).unwrap();
        for text in ["2026-01-02T04:04:05+01:00", "2026-01-02T04:04:05 01:00"] {
            assert_eq!(started_after(Some(text)).unwrap(), utc);
        }
        assert!(started_after(Some("yesterday")).is_err());
    }
}

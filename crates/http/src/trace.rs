//! Distributed traces: the caller's context, and what a request is called in them.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Span;
use uuid::Uuid;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The answer's half, of the W3C's "Trace Context HTTP Response Header".
pub(crate) const TRACERESPONSE: HeaderName = HeaderName::from_static("traceresponse");

/// A span's place in a trace (W3C Trace Context, level 1). Neither id is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace_id: u128,
    pub span_id: u64,
    /// The caller, or the exporter, keeps this trace.
    pub sampled: bool,
}

impl TraceContext {
    /// What the request says; what is not valid is as if it were not there.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let text = values.next()?.to_str().ok()?;
        if values.next().is_some() {
            return None;
        }
        Self::parse(text)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        // A later version may have more parts; ff is none.
        let fits = match version {
            0 => parts.next().is_none(),
            version => version != 0xff,
        };
        (fits && trace_id != 0 && span_id != 0).then_some(Self {
            trace_id,
            span_id,
            sampled: flags & 1 == 1,
        })
    }

    pub(crate) fn header_value(&self) -> Option<HeaderValue> {
        HeaderValue::from_str(&self.to_string()).ok()
    }
}

/// Exactly so many digits, none of them a capital.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() != digits || !text.bytes().all(digit) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.sampled);
        write!(
            f,
            "00-{:032x}-{:016x}-{flags:02x}",
            self.trace_id, self.span_id
        )
    }
}

/// Whoever exports the spans of requests.
pub trait Spans: Send + Sync {
    /// Makes the span a child of the caller's, and says where it is in its trace.
    /// It has not been entered yet.
    fn adopt(&self, span: &Span, name: &str, caller: Option<TraceContext>) -> Option<TraceContext>;

    /// The answer's status.
    fn answered(&self, span: &Span, status: u16);
}

/// No spans are exported: a request belongs to its caller's trace all the same.
pub(crate) struct NotExported;

impl Spans for NotExported {
    fn adopt(&self, _: &Span, _: &str, caller: Option<TraceContext>) -> Option<TraceContext> {
        let (id, _) = Uuid::new_v4().as_u64_pair();
        caller.map(|caller| TraceContext {
            span_id: id,
            ..caller
        })
    }

    fn answered(&self, _: &Span, _: u16) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_valid_traceparent_is_read_and_written_the_same() {
        let context = TraceContext::parse(GOOD).unwrap();
        assert_eq!(
            context,
            TraceContext {
                trace_id: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
                span_id: 0x00f0_67aa_0ba9_02b7,
                sampled: true
            }
        );
        assert_eq!(context.to_string(), GOOD);
        // A later version is read as this one, and flags that are unknown are ignored.
        let later = format!("cc{}-what-ever", &GOOD[2..]);
        assert_eq!(TraceContext::parse(&later), Some(context));
        let flags = format!("{}fe", &GOOD[..53]);
        assert!(!TraceContext::parse(&flags).unwrap().sampled);
    }

    #[test]
    fn what_is_no_traceparent_is_ignored() {
        let zero_trace = "00-00000000000000000000000000000000-00f067aa0ba902b7-01";
        let zero_span = "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01";
        for bad in [
            "",
            "00",
            zero_trace,
            zero_span,
            &GOOD.to_uppercase(),
            &GOOD.replace("00-", "ff-"),
            &GOOD[1..],
            &GOOD[..54],
            &format!("{GOOD}-more"),
            &format!("{GOOD}0"),
            &format!(" {GOOD}"),
            &GOOD.replace("4b", "+b"),
            &"0".repeat(10_000),
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn two_traceparents_are_none() {
        let mut headers = HeaderMap::new();
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert!(TraceContext::of(&headers).is_some());
        headers.append(TRACEPARENT, HeaderValue::from_static(GOOD));
        assert_eq!(TraceContext::of(&headers), None);
    }
}

//! What the service is to be, as ratios within one run.

use serde::Serialize;

use crate::{
    results::{Measure, Row},
    scenarios::{Scenario, calls, clients, e2b, files, fresh, many, plot, search},
};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Of the yardstick's median, or less.
    AtMost(f64),
    /// The yardstick's median is so many times ours, or more.
    TimesAsFast(f64),
    /// Milliseconds above the yardstick's median, or fewer.
    Within(f64),
    /// Of the yardstick's calls per second, or more.
    TimesThroughput(f64),
    /// In the amount's unit, or milliseconds of the median.
    Under(f64),
}

pub struct Goal {
    pub scenario: Scenario,
    pub ours: &'static str,
    /// None of an amount.
    pub yardstick: &'static str,
    pub rule: Rule,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    pub what: String,
    pub goal: String,
    pub found: Option<String>,
    pub reached: Option<bool>,
}

const fn goal(scenario: Scenario, ours: &'static str, rule: Rule, yardstick: &'static str) -> Goal {
    Goal {
        scenario,
        ours,
        yardstick,
        rule,
    }
}

pub const GOALS: [Goal; 17] = [
    goal(
        Scenario::Calls,
        calls::EXECUTE,
        Rule::AtMost(0.2),
        calls::PLAIN,
    ),
    goal(
        Scenario::Plot,
        plot::EXECUTE,
        Rule::AtMost(0.15),
        plot::PLAIN,
    ),
    goal(
        Scenario::Calls,
        calls::CONTEXT,
        Rule::TimesAsFast(4.0),
        calls::KERNEL,
    ),
    goal(
        Scenario::Fresh,
        fresh::POOLED,
        Rule::AtMost(0.4),
        fresh::PLAIN,
    ),
    goal(
        Scenario::Calls,
        calls::BASH,
        Rule::Within(1.5),
        calls::EMPTY,
    ),
    goal(
        Scenario::Calls,
        calls::BASH_DOCKER,
        Rule::Within(2.0),
        calls::BASH,
    ),
    goal(
        Scenario::Calls,
        calls::EXECUTE_DOCKER,
        Rule::Within(2.0),
        calls::EXECUTE,
    ),
    goal(
        Scenario::Clients,
        clients::LIVING_8,
        Rule::TimesThroughput(6.0),
        clients::WORKERS_8,
    ),
    goal(
        Scenario::Clients,
        clients::FRESH_8,
        Rule::TimesThroughput(6.0),
        clients::WORKERS_8,
    ),
    goal(
        Scenario::Search,
        search::GREP,
        Rule::AtMost(0.8),
        search::RG,
    ),
    goal(
        Scenario::Search,
        search::GLOB,
        Rule::AtMost(0.7),
        search::FIND,
    ),
    goal(
        Scenario::Files,
        files::READ,
        Rule::TimesAsFast(20.0),
        files::EXEC_CAT,
    ),
    goal(
        Scenario::Files,
        files::READ_DOCKER,
        Rule::TimesAsFast(20.0),
        files::EXEC_CAT,
    ),
    goal(Scenario::Many, many::MEMORY, Rule::Under(3.0 * 1024.0), ""),
    goal(Scenario::Many, many::POOLED, Rule::Under(5.0), ""),
    goal(Scenario::E2b, e2b::SDK, Rule::Under(60.0), ""),
    goal(Scenario::E2b, e2b::COMMAND, Rule::Within(1.0), e2b::BASH),
];

impl Goal {
    /// What was to be measured and was not is said, not left out.
    pub fn judge(&self, rows: &[Row]) -> Verdict {
        let find = |name: &str| rows.iter().find(|it| it.name == name).map(|it| &it.measure);
        let (ours, yardstick) = (find(self.ours), find(self.yardstick));
        let of = self.yardstick;
        let goal = match self.rule {
            Rule::AtMost(most) => format!("at most {most}x of {of}"),
            Rule::TimesAsFast(least) => format!("at least {least}x as fast as {of}"),
            Rule::Within(most) => format!("within {most} ms of {of}"),
            Rule::TimesThroughput(least) => format!("at least {least}x of {of}"),
            Rule::Under(most) => format!("under {most}"),
        };
        let judged = ours.and_then(|ours| self.rule.holds(ours, yardstick));
        Verdict {
            what: self.ours.to_owned(),
            goal,
            found: judged.as_ref().map(|it| it.0.clone()),
            reached: judged.map(|it| it.1),
        }
    }
}

impl Rule {
    fn holds(self, ours: &Measure, yardstick: Option<&Measure>) -> Option<(String, bool)> {
        match (self, ours, yardstick) {
            (Self::Under(most), Measure::Amount { value, unit }, _) => {
                Some((format!("{value:.1} {unit}"), *value < most))
            }
            (Self::Under(most), Measure::Latency(ours), _) => {
                Some((format!("{:.1} ms", ours.p50_ms), ours.p50_ms < most))
            }
            (rule, Measure::Latency(ours), Some(Measure::Latency(theirs))) => {
                let (ours, theirs) = (ours.p50_ms, theirs.p50_ms);
                match rule {
                    Self::AtMost(most) => {
                        Some((format!("{:.2}x", ours / theirs), ours / theirs <= most))
                    }
                    Self::TimesAsFast(least) => {
                        Some((format!("{:.1}x", theirs / ours), theirs / ours >= least))
                    }
                    Self::Within(most) => {
                        Some((format!("{:+.2} ms", ours - theirs), ours - theirs <= most))
                    }
                    _ => None,
                }
            }
            (Self::TimesThroughput(least), Measure::Load(ours), Some(Measure::Load(theirs))) => {
                let times = ours.per_second / theirs.per_second;
                // What failed was not done.
                Some((format!("{times:.2}x"), times >= least && ours.failed == 0))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {

    use std::time::Duration;

    use super::*;
    use crate::{results::Side, samples::Samples};

    fn latency(name: &str, ms: u64) -> Row {
        let mut samples = Samples::default();
        samples.push(Duration::from_millis(ms));
        Row {
            family: "test",
            name: name.to_owned(),
            side: Side::Service,
            measure: Measure::Latency(samples.summary().unwrap()),
        }
    }

    fn judge(rule: Rule, ours: u64, theirs: u64) -> (String, bool) {
        let rows = [latency("ours", ours), latency("theirs", theirs)];
        let verdict = goal(Scenario::Calls, "ours", rule, "theirs").judge(&rows);
        (verdict.found.unwrap(), verdict.reached.unwrap())
    }

    #[test]
    fn a_goal_is_reached_at_its_limit_and_missed_beyond() {
        assert_eq!(judge(Rule::AtMost(0.2), 2, 10), ("0.20x".into(), true));
        assert_eq!(judge(Rule::AtMost(0.2), 3, 10), ("0.30x".into(), false));
        let rule = Rule::TimesAsFast(4.0);
        assert_eq!(judge(rule, 1, 4), ("4.0x".into(), true));
        assert_eq!(judge(rule, 2, 4), ("2.0x".into(), false));
        let rule = Rule::Within(2.0);
        assert_eq!(judge(rule, 12, 10), ("+2.00 ms".into(), true));
        assert_eq!(judge(rule, 13, 10), ("+3.00 ms".into(), false));
    }

    #[test]
    fn memory_has_no_yardstick() {
        let goal = goal(Scenario::Many, many::POOLED, Rule::Under(5.0), "");
        let rows = [4.9, 5.0].map(|mb| Row::amount("test", many::POOLED, mb, "MB"));
        let reached = rows.map(|it| goal.judge(&[it]).reached);
        assert_eq!(reached, [Some(true), Some(false)]);
    }

    #[test]
    fn a_median_may_have_a_limit_of_its_own() {
        let goal = goal(Scenario::E2b, e2b::SDK, Rule::Under(60.0), "");
        let reached = [59, 60].map(|ms| goal.judge(&[latency(e2b::SDK, ms)]).reached);
        assert_eq!(reached, [Some(true), Some(false)]);
    }

    #[test]
    fn what_was_not_measured_is_neither_reached_nor_missed() {
        let goal = goal(Scenario::Calls, "ours", Rule::AtMost(0.2), "theirs");
        for rows in [&[latency("ours", 1)][..], &[]] {
            let verdict = goal.judge(rows);
            assert_eq!((verdict.found, verdict.reached), (None, None));
        }
    }
}

//! Contexts of JavaScript, R and bash.

use std::time::{Duration, Instant};

use sandbox_core::{ContextDriver, ContextLoss, Termination};

use crate::{
    guest::TestGuest,
    support::{Kind, kind, run, wish, within},
};

fn javascript() -> Kind {
    let argv = ["/usr/bin/node", "{file}"];
    kind("javascript", ContextDriver::JavaScript, &argv)
}

fn r() -> Kind {
    let argv = ["/usr/bin/Rscript", "--vanilla", "{file}"];
    kind("r", ContextDriver::R, &argv)
}

fn bash() -> Kind {
    kind("bash", ContextDriver::Bash, &["bash", "{file}"])
}

/// Code, and the value that it has.
async fn values(guest: &TestGuest, of: &Kind, cases: &[(&str, Option<&str>)]) {
    for (code, value) in cases {
        let ran = run(guest, wish(of, "main", code)).await;
        assert_eq!(ran.value(), *value, "{code}: {ran:?}");
        assert_eq!(ran.outcome.exit_code, 0, "{code}: {ran:?}");
    }
}

/// Each of these is interrupted, and what was there before is there still.
async fn interrupted(guest: &TestGuest, of: &Kind, codes: &[&str]) {
    for code in codes {
        let began = Instant::now();
        let ran = run(guest, within(1500, wish(of, "main", code))).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{code}");
        assert_eq!(
            ran.outcome.termination,
            Termination::TimedOut,
            "{code}: {ran:?}"
        );
        assert_eq!(ran.loss(), None, "{code}");
        assert!(!ran.stdout().contains("after"), "{code}");
    }
}

#[tokio::test]
async fn javascript_keeps_its_variables() {
    let guest = TestGuest::start().await;
    let of = javascript();
    values(
        &guest,
        &of,
        &[
            ("const a = 41; let b = {x: [1, 2]}; class K {}", None),
            ("a + 1", Some("42")),
            ("b", Some("{ x: [ 1, 2 ] }")),
            ("{ y: 1 }", Some("{ y: 1 }")),
            (
                "await new Promise((done) => setTimeout(() => done(7), 10))",
                Some("7"),
            ),
            ("const c = await 5", None),
            ("c", Some("5")),
            ("async function f() { return 9 }\nf()", Some("9")),
            ("new K()", Some("K {}")),
            ("require('fs').readFileSync(0, 'utf8').length", Some("0")),
            (
                "(await import('fs')).readFileSync === require('fs').readFileSync",
                Some("true"),
            ),
            (
                "(function () { 'use strict'; return typeof this })()",
                Some("'undefined'"),
            ),
            ("// nothing", None),
        ],
    )
    .await;
    let ran = run(
        &guest,
        wish(
            &of,
            "main",
            "console.log('out'); console.error('err'); display({toHtml() { return '<b>' }}); a",
        ),
    )
    .await;
    assert_eq!(
        (ran.stdout().as_str(), ran.stderr().as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(ran.results[0]["text/html"], "<b>");
    assert_eq!(ran.main_result, Some(1));
    let ran = run(
        &guest,
        wish(&of, "main", "function g() { return null.x }\ng()"),
    )
    .await;
    assert_eq!(ran.error().0, "TypeError");
    let traceback = &ran.outcome.raised.as_ref().unwrap().traceback;
    assert!(traceback.contains("at g (run-"), "{traceback}");
    assert!(!traceback.contains("context.js"), "{traceback}");
    for code in [
        "x = ;",
        "throw 5",
        "await Promise.reject(new RangeError('r'))",
    ] {
        let ran = run(&guest, wish(&of, "main", code)).await;
        assert_eq!(
            (ran.outcome.exit_code, ran.outcome.raised.is_some()),
            (1, true),
            "{code}"
        );
    }
    let ran = run(&guest, wish(&of, "main", "process.exit(3)")).await;
    assert_eq!(
        (ran.outcome.exit_code, ran.loss()),
        (3, Some(ContextLoss::Died))
    );
    assert!(run(&guest, wish(&of, "main", "1")).await.context().created);
}

#[tokio::test]
async fn javascript_is_interrupted() {
    let guest = TestGuest::start().await;
    let of = javascript();
    values(&guest, &of, &[("var a = 41", None)]).await;
    let codes = [
        "while (true) {}",
        "await new Promise(() => setTimeout(() => {}, 60000))",
        "require('child_process').execSync('sleep 60'); console.log('after')",
    ];
    interrupted(&guest, &of, &codes).await;
    interrupted(&guest, &of, &codes).await;
    values(&guest, &of, &[("a", Some("41"))]).await;
}

#[tokio::test]
async fn r_keeps_its_variables() {
    let guest = TestGuest::start().await;
    let of = r();
    values(
        &guest,
        &of,
        &[
            ("x <- 41", None),
            ("x + 1", Some("[1] 42")),
            ("invisible(3)", None),
            ("NULL", None),
            ("f <- function(n) n * 2\nf(x)", Some("[1] 82")),
            ("readLines('stdin')", Some("character(0)")),
            ("'\u{e4} \\\\ \"'", Some("[1] \"\u{e4} \\\\ \\\"\"")),
            ("", None),
        ],
    )
    .await;
    let ran = run(
        &guest,
        wish(
            &of,
            "main",
            "df <- data.frame(a = 1:2, b = c('x', '<y'))\n1\nsystem('echo sub')\ndf",
        ),
    )
    .await;
    assert_eq!(ran.stdout(), "[1] 1\nsub\n");
    assert!(
        ran.results[0]["text/html"].contains("<td>&lt;y</td>"),
        "{ran:?}"
    );
    let ran = run(&guest, wish(&of, "main", "plot(1:3)")).await;
    assert!(ran.results[0]["image/png"].starts_with("iVBOR"), "{ran:?}");
    let ran = run(
        &guest,
        wish(
            &of,
            "main",
            "g <- function(n) h(n)\nh <- function(n) stop('deep')\ng(2)",
        ),
    )
    .await;
    assert_eq!(ran.error(), ("simpleError", "deep"));
    let traceback = &ran.outcome.raised.as_ref().unwrap().traceback;
    assert!(
        traceback.contains("at h(n)") && traceback.contains("at g(2)"),
        "{traceback}"
    );
    assert!(!traceback.contains("withVisible"), "{traceback}");
    interrupted(
        &guest,
        &of,
        &["while (TRUE) {}", "Sys.sleep(60)\ncat('after')"],
    )
    .await;
    values(&guest, &of, &[("x", Some("[1] 41"))]).await;
    let ran = run(&guest, wish(&of, "main", "quit(status = 4)")).await;
    assert_eq!(
        (ran.outcome.exit_code, ran.loss()),
        (4, Some(ContextLoss::Died))
    );
}

#[tokio::test]
async fn bash_keeps_its_variables() {
    let guest = TestGuest::start().await;
    let of = bash();
    for (code, stdout, exit_code) in [
        (
            "x=5; declare -A m=([a]=1); f() { echo f; }\nmkdir d; cd d",
            "",
            0,
        ),
        ("echo $x ${m[a]}; f; basename $PWD", "5 1\nf\nd\n", 0),
        ("(exit 7)", "", 7),
        ("cat; read y; echo \"[$y]\"", "[]\n", 0),
        ("echo 'unclosed", "", 2),
        ("", "", 0),
        ("echo \u{e4}\u{20ac}", "\u{e4}\u{20ac}\n", 0),
        ("break", "", 130),
        ("ls /proc/self/fd | wc -l", "4\n", 0),
        (
            "exec 2>&1; no-such-command",
            "bash: no-such-command: command not found\n",
            127,
        ),
    ] {
        let ran = run(&guest, wish(&of, "main", code)).await;
        assert_eq!(ran.stdout(), stdout, "{code}: {ran:?}");
        assert_eq!(ran.outcome.exit_code, exit_code, "{code}: {ran:?}");
        assert_eq!(ran.loss(), None, "{code}");
    }
    let codes = [
        "sleep 60\necho after",
        "g() { while :; do :; done; }\ng; echo after\necho after",
        "for i in 1 2 3; do sleep 60; done",
        "(while :; do :; done)",
    ];
    interrupted(&guest, &of, &codes).await;
    let ran = run(&guest, wish(&of, "main", "echo $x; exit 3")).await;
    assert_eq!(ran.stdout(), "5\n");
    assert_eq!(
        (ran.outcome.exit_code, ran.loss()),
        (3, Some(ContextLoss::Died))
    );
}

//! A PostgreSQL server for tests, gone with the process that started it.

use std::{
    fs,
    io::Read as _,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

pub const PASSWORD: &str = "s3cret-word";

/// Runs until this end of its standard input is closed, by whatever ended the
/// test; then nothing of the server is left.
const GUARDIAN: &str = r#"
trap '' INT TERM HUP
cat >/dev/null
# A test may have left it at a halt.
read -r pid <"$2/data/postmaster.pid" && kill -CONT "$pid" $(cat "/proc/$pid/task/$pid/children")
"$1/pg_ctl" stop -D "$2/data" -m immediate -s >/dev/null 2>&1
rm -rf "$2"
"#;

static SHARED: LazyLock<Server> = LazyLock::new(Server::start);

pub struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
    encrypted: bool,
    databases: AtomicU32,
    guardian: Child,
    // Closed by this process's end, if not before.
    _guarded: Option<ChildStdin>,
}

impl Server {
    /// The one of this test program.
    pub fn shared() -> &'static Self {
        &SHARED
    }

    pub fn start() -> Self {
        Self::start_as(false)
    }

    /// One that speaks TLS, with a certificate that is in [`Self::certificate`].
    pub fn start_encrypted() -> Self {
        Self::start_as(true)
    }

    fn start_as(encrypted: bool) -> Self {
        let programs = programs();
        let folder = tempfile::Builder::new()
            .prefix("sandboxd-postgres-")
            .tempdir()
            .unwrap()
            .keep();
        if is_root() {
            // The server refuses to run as root.
            run(Command::new("chown").arg("postgres").arg(&folder));
        }
        let mut guardian = as_server(Path::new("sh"));
        // Not in the group that Ctrl-C ends.
        guardian.args(["-c", GUARDIAN, "guardian"]).process_group(0);
        let mut guardian = guardian
            .arg(&programs)
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = Self {
            _guarded: guardian.stdin.take(),
            guardian,
            programs,
            folder,
            port: 0,
            encrypted,
            databases: AtomicU32::new(0),
        };
        server.initialise();
        if encrypted {
            server.certify();
        }
        // Another process may take a port between its choice and its use.
        let started = (0..5).any(|_| {
            server.port = free_port();
            server.try_start()
        });
        assert!(started, "{}", server.log());
        server
    }

    fn initialise(&self) {
        let password = self.folder.join("password");
        fs::write(&password, PASSWORD).unwrap();
        run(as_server(&self.programs.join("initdb"))
            .args(["-U", "tester", "-A", "scram-sha-256", "-E", "UTF8", "-N"])
            // An order of text that is not that of its bytes.
            .args([
                "--locale=C.UTF-8",
                "--locale-provider=icu",
                "--icu-locale=en",
            ])
            .arg("--pwfile")
            .arg(&password)
            .arg("-D")
            .arg(self.data()));
    }

    fn certify(&self) {
        run(as_server(Path::new("openssl"))
            .args(["req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"])
            .args([
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-subj",
                "/CN=test",
            ])
            .args(["-addext", "subjectAltName=IP:127.0.0.1"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(self.folder.join("key.pem"))
            .arg("-out")
            .arg(self.certificate()));
    }

    pub fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    fn try_start(&self) -> bool {
        let tls = if self.encrypted {
            let (key, certificate) = (self.folder.join("key.pem"), self.certificate());
            format!(
                "-c ssl=on -c ssl_key_file={} -c ssl_cert_file={}",
                key.display(),
                certificate.display()
            )
        } else {
            String::new()
        };
        let options = format!(
            "{tls} -p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off \
             -c max_connections=300 -c shared_buffers=32MB -c max_wal_size=256MB",
            self.port
        );
        let mut start = as_server(&self.programs.join("pg_ctl"));
        start.args(["start", "-w", "-s", "-o", &options, "-D"]);
        start
            .arg(self.data())
            .arg("-l")
            .arg(self.folder.join("log"));
        start.stdout(Stdio::null()).status().unwrap().success()
    }

    /// Starts it again at the same address.
    pub fn resume(&self) {
        assert!(self.try_start(), "{}", self.log());
    }

    /// Stops it as an operator does.
    pub fn stop(&self) {
        run(as_server(&self.programs.join("pg_ctl"))
            .args(["stop", "-w", "-s", "-m", "fast", "-D"])
            .arg(self.data()));
    }

    /// Its connections stay and say nothing, as when the network is cut; until
    /// the signal CONT.
    pub fn signal_all(&self, signal: &str) {
        let pid = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let pid = pid.lines().next().unwrap();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let mut pids: Vec<_> = children.split_whitespace().collect();
        pids.push(pid);
        run(Command::new("kill").arg(format!("-{signal}")).args(pids));
    }

    /// The URL of a new, empty database.
    pub fn database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{number}");
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.url(&name)
    }

    pub fn url(&self, name: &str) -> String {
        format!(
            "postgres://tester:{PASSWORD}@127.0.0.1:{}/{name}",
            self.port
        )
    }

    /// Runs SQL in a database by its name or URL; gives what it printed.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let name = database.rsplit('/').next().unwrap();
        run(Command::new(self.programs.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"])
            .args(["-d", &self.url(name), "-c", sql]))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self._guarded = None;
        let _ = self.guardian.wait();
    }
}

fn programs() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<_> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .collect();
    versions.sort();
    std::env::split_paths(&path)
        .chain(versions.into_iter().rev())
        .find(|folder| {
            ["initdb", "pg_ctl", "psql"]
                .iter()
                .all(|name| folder.join(name).is_file())
        })
        .expect("PostgreSQL's server is not installed: run `make test-deps`")
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// A program as the user that the server runs as.
fn as_server(program: &Path) -> Command {
    let mut command = if is_root() {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.arg(program);
        command
    } else {
        Command::new(program)
    };
    // A folder that this user can look at.
    command.current_dir("/");
    command
}

fn free_port() -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn run(command: &mut Command) -> String {
    // To files, for a server that is started keeps its pipes.
    let mut out = tempfile::tempfile().unwrap();
    let mut said = tempfile::tempfile().unwrap();
    let status = command
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(said.try_clone().unwrap())
        .status()
        .unwrap();
    let mut text = [String::new(), String::new()];
    for (file, text) in [&mut out, &mut said].into_iter().zip(&mut text) {
        std::io::Seek::rewind(file).unwrap();
        file.read_to_string(text).unwrap();
    }
    assert!(status.success(), "{command:?}: {status}: {}", text[1]);
    text[0].trim().to_owned()
}
